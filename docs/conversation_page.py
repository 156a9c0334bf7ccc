"""The page of a conversation's settings, from the docstrings of their fields."""

import json
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, with_config
from settings_page import choices

from ragen_envs.conversation.settings import (
    HISTORIES,
    INVALID_POLICIES,
    SOFT_DEFECT_POLICIES,
    ConversationSettings,
)
from ragen_envs.game.text import FORMATS, IMAGE

_CHOICES: Final = {
    "history": HISTORIES,
    "observation": (*FORMATS, IMAGE),
    "invalid": INVALID_POLICIES,
    "soft_defects": SOFT_DEFECT_POLICIES,
}
_TOP: Final = """\
# Settings of a conversation

These settings determine how a game is presented as text, and what a reply may contain. The prompts state
every limit. Some ids have other defaults; the page of each [game](games/index.md) shows its first prompt.

| where | how |
|---|---|
| Python | `gym.make("ragen/SokobanText-v0", think=False)`, the same for `ragen_envs.conversation.make` |
| [`ragen bench`](harness.md#a-suite) | `--setting think=false`, or `settings: {think: false}` in a suite |
| [`ragen train`](training.md) | `env_kwargs.think=false` |

Keywords of the game, such as `size`, are passed in the same way.
"""


def conversation_page() -> str:
    """Return the page as Markdown."""
    with_config(ConfigDict(use_attribute_docstrings=True))(ConversationSettings)
    fields = TypeAdapter(ConversationSettings).json_schema()["properties"]
    rows = ["| setting | default | |", "|---|---|---|"]
    rows += [_row(name, field) for name, field in fields.items()]
    return "\n".join([_TOP, *rows]) + "\n"


def _row(name: str, field: dict[str, Any]) -> str:
    shown = field | {"enum": _CHOICES[name]} if name in _CHOICES else field
    meaning = " ".join(field["description"].split()).replace("``", "`")
    return f"| `{name}` | `{json.dumps(field.get('default', {}))}` | {meaning}{choices(shown)} |"
