"""Actions as calls of an OpenAI tool; a reply is recorded as the text that its calls stand for."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ragen_envs.conversation import format_reply
from ragen_envs.conversation.protocol import Conversation

ACT: Final = "act"
INSTRUCTION: Final = (
    f"\nDo not write <answer>. Play your actions by calling the tool '{ACT}', once in each turn."
)
"""Follows the system message, whose reply format is that of text."""
_REPLY: Final = re.compile(r"(?:<think>(.*?)</think>)?<answer>(.*?)</answer>", re.DOTALL)


class ToolCall(NamedTuple):
    """A call as the model made it."""

    name: str
    arguments: str
    """JSON, if the model kept to it."""


def tools_of(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the tools of a turn: one, whose parameter is the list of actions."""
    action: dict[str, Any] = {"type": "string"}
    if conversation.in_words:
        action["description"] = f"An action: {', '.join(conversation.names)}."
    else:
        action["enum"] = list(conversation.names)
    actions = {
        "type": "array",
        "items": action,
        "minItems": 1,
        "maxItems": conversation.settings.actions_per_turn,
        "description": "Actions in the order in which they are executed.",
    }
    function = {
        "name": ACT,
        "description": "Play the actions of your turn.",
        "parameters": {
            "type": "object",
            "properties": {"actions": actions},
            "required": ["actions"],
            "additionalProperties": False,
        },
    }
    return [{"type": "function", "function": function}]


def reply_text(content: str, calls: Sequence[ToolCall], think: bool) -> str:
    """Return the reply that a message stands for: what was said is the thought, the calls are the answer.

    A message without a call is the reply itself. Arguments that are not as the tool asks for become the
    answer as they are, which the parser judges.
    """
    if not calls:
        return content
    actions = [action for call in calls for action in _actions(call)]
    return format_reply(actions, content.strip() if think else None)


def _actions(call: ToolCall) -> list[str]:
    try:
        given = json.loads(call.arguments)["actions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return [call.arguments]
    if call.name != ACT or not isinstance(given, list):
        return [call.arguments]
    actions = [action if isinstance(action, str) else json.dumps(action) for action in given]
    try:
        "".join(actions).encode()
    except UnicodeEncodeError:  # escapes of half a character
        return [call.arguments]
    return actions


def as_calls(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a chat in which the assistant's replies are calls and what follows them is their result."""
    chat: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if number == 0 and message["role"] == "system":
            chat.append({**message, "content": message["content"] + INSTRUCTION})
        elif message["role"] == "assistant" and (reply := _REPLY.fullmatch(message["content"])):
            chat.append(_call(f"call_{number}", reply[1], reply[2]))
        elif message["role"] == "user" and chat and "tool_calls" in chat[-1]:
            chat += _result(chat[-1]["tool_calls"][0]["id"], message)
        else:
            chat.append(dict(message))
    return chat


def _result(call: str, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages after a call: the result of a tool can hold no picture."""
    if isinstance(message["content"], str):
        return [{**message, "role": "tool", "tool_call_id": call}]
    return [{"role": "tool", "tool_call_id": call, "content": "See below."}, message]


def _call(name: str, thought: str | None, answer: str) -> dict[str, Any]:
    actions = answer.split(" || ") if answer else []
    arguments = json.dumps({"actions": actions}, ensure_ascii=False)
    function = {"name": ACT, "arguments": arguments}
    call = {"id": name, "type": "function", "function": function}
    return {"role": "assistant", "content": thought or None, "tool_calls": [call]}
