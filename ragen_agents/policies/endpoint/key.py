"""The key of an endpoint: read from the environment, sent to the endpoint, and nowhere else."""

import os
import re
from dataclasses import dataclass, field
from typing import Final

from ragen_agents.policies.endpoint.endpoint_settings import OPENAI_URL
from ragen_envs.game.errors import RagenError

KEY_VARIABLE: Final = "OPENAI_API_KEY"
_HIDDEN: Final = "[key]"
_SHORTEST: Final = 8
"""Shorter ones are words that stand for no key, such as EMPTY, and may well be part of a reply."""


@dataclass(frozen=True)
class Key:
    """A key, or what is sent in place of one."""

    value: str = field(repr=False)

    def hide(self, text: str) -> str:
        """Return a text, such as a server's answer, in which the key is covered."""
        return text.replace(self.value, _HIDDEN) if len(self.value) >= _SHORTEST else text

    def is_in(self, text: str) -> bool:
        """Return whether a text shows the key."""
        return self.hide(text) != text


def read_key(base_url: str, variable: str = KEY_VARIABLE) -> Key:
    """Return the key for an endpoint; one that is not OpenAI's may need none.

    Args:
        base_url: The endpoint.
        variable: The environment variable that holds the key.

    Raises:
        RagenError: There is no key, or it cannot be sent in a header. No message shows it.
    """
    value = os.environ.get(variable, "").strip()
    if not value:
        if base_url == OPENAI_URL or variable != KEY_VARIABLE:
            raise RagenError(f"there is no key: set the environment variable {variable}")
        value = "none"
    if not re.fullmatch(r"[!-~]+", value):
        raise RagenError(f"the key in {variable} must be printable ASCII without white space")
    return Key(value)
