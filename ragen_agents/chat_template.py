"""A model's chat template, the same on every day."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from jinja2.exceptions import TemplateError

from ragen_envs.errors import RagenError

_DATE: Final = date(2024, 7, 26)
"""What templates that tell the date tell: a prompt that changed at midnight could not be replayed. It is
what Llama's tell where there is no clock."""


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
