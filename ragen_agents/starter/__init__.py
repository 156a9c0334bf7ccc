"""The models that come with the suite: small language models trained from scratch."""

from pathlib import Path
from types import MappingProxyType
from typing import Final

STARTER: Final = Path(__file__).parent / "model"
"""Folder of the shipped weights, an ordinary Hugging Face model folder."""
STARTER_0_2: Final = STARTER.with_name("model-0.2")
"""Folder of the weights of version 0.2, with which the stored results of training began."""
STARTERS: Final = MappingProxyType(
    {
        "starter": STARTER,
        "starter-0.2": STARTER_0_2,
        "small-ice": STARTER.with_name("small-ice"),
        "small-lake": STARTER.with_name("small-lake"),
        "small-sokoban": STARTER.with_name("small-sokoban"),
        "small-thoughts": STARTER.with_name("small-thoughts"),
    }
)
"""Folders of the shipped models by name; the small ones play one game each, in five turns."""
