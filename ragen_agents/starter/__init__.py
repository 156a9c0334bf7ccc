"""The starter model: a small language model trained from scratch."""

from pathlib import Path
from typing import Final

STARTER: Final = Path(__file__).parent / "model"
"""Folder of the shipped weights, an ordinary Hugging Face model folder."""
