"""The starter model: a small language model made here from nothing."""

from pathlib import Path
from typing import Final

STARTER: Final = Path(__file__).parent / "model"
"""Folder of the shipped weights, an ordinary Hugging Face model folder."""
