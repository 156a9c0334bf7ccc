"""A model's chat template, the same on every day."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from jinja2.exceptions import TemplateError

from ragen_envs.errors import RagenError

_DATE: Final = date(2024, 7, 26)
"""What templates that tell the date tell: a prompt that changed at midnight could not be replayed. It is
what Llama's tell where there is no clock."""


_TAIL: Final = 24
"""Last tokens of a prompt in which the beginning of the model's turn is looked for."""


def prompt_ids(tokenizer: Any, messages: Sequence[Mapping[str, Any]], prefix: str) -> list[int]:
    """Return the token ids of a conversation and of the beginning of the model's turn.

    Args:
        tokenizer: A tokenizer with a chat template.
        messages: Each with role and content.
        prefix: What the turn begins with. It is not repeated where the template has put it there.

    Raises:
        RagenError: The template refuses the conversation.
    """
    ids = template_ids(tokenizer, messages, reply=True)
    return ids if opening(tokenizer, ids, prefix) else ids + prefix_ids(tokenizer, prefix)


def prefix_ids(tokenizer: Any, prefix: str) -> list[int]:
    """Return the token ids of the text that a model's turn begins with."""
    ids: list[int] = tokenizer.encode(prefix, add_special_tokens=False) if prefix else []
    return ids


def opening(tokenizer: Any, ids: Sequence[int], prefix: str) -> str:
    """Return the prefix, and the white space after it, at the end of a prompt; "" if it is not there.

    The templates of some reasoning models begin the model's turn with ``<think>`` and a line break.
    """
    text: str = tokenizer.decode(list(ids[-_TAIL:]), skip_special_tokens=False)
    return text[text.rindex(prefix) :] if prefix and text.rstrip().endswith(prefix) else ""


def template_ids(tokenizer: Any, messages: Sequence[Mapping[str, Any]], reply: bool) -> list[int]:
    """Return the token ids of a conversation.

    Args:
        tokenizer: A tokenizer with a chat template.
        messages: Each with role and content.
        reply: Whether the beginning of the model's turn follows.

    Raises:
        RagenError: The template refuses it, for example because it has no system messages.
    """
    tells_date = "strftime_now" in str(tokenizer.chat_template)
    try:
        ids: list[int] = tokenizer.apply_chat_template(
            list(messages),
            add_generation_prompt=reply,
            return_dict=False,
            **({"strftime_now": _DATE.strftime} if tells_date else {}),
        )
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in messages)
        raise RagenError(
            f"the model's chat template refuses a conversation of {roles}: {error}"
        ) from error
    return ids
