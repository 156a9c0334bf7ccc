"""The models that come with the suite: small language models trained from scratch."""

from pathlib import Path
from types import MappingProxyType
from typing import Final

STARTER: Final = Path(__file__).parent / "model"
"""Folder of the shipped weights, an ordinary Hugging Face model folder."""
STARTERS: Final = MappingProxyType(
    {"starter": STARTER}
    | {f"small-{kind}": STARTER.with_name(f"small-{kind}") for kind in ("ice", "lake", "sokoban", "thoughts")}
)
"""Folders of the shipped models by name; the small ones play one game each, in five turns."""
