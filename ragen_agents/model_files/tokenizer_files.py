"""Tokenizers in model folders."""

from pathlib import Path
from typing import Any

from ragen_envs.game.errors import first_line


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer of transformers into a model folder.

    Raises:
        OSError: It cannot be written, for example because the disk is full.
    """
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if type(error) is not Exception:
            raise
        # The tokenizers library has no class of its own for what the system refuses.
        raise OSError(first_line(error)) from error
