"""Any game as a conversation: prompts, replies, defects. ``make`` is the way in."""

from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.factory import make
from ragen_envs.conversation.parser import ParsedReply, format_reply, parse_reply, whole_turn
from ragen_envs.conversation.protocol import (
    Conversation,
    ConversationEnd,
    EndReason,
    Message,
    Picture,
    TurnResult,
)
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.conversation.text_wrapper import TextWrapper
from ragen_envs.conversation.wrapper import ConversationWrapper
from ragen_envs.game.free_text import FreeText

__all__ = [
    "Conversation",
    "ConversationEnd",
    "ConversationSettings",
    "ConversationWrapper",
    "Defect",
    "EndReason",
    "FreeText",
    "Message",
    "ParsedReply",
    "Picture",
    "SoftDefect",
    "TextWrapper",
    "TurnResult",
    "format_reply",
    "make",
    "parse_reply",
    "whole_turn",
]
