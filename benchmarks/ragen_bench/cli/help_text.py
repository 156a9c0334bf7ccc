"""Help texts from docstrings."""

import inspect
from collections.abc import Callable
from typing import Any


def help_text(command: Callable[..., Any]) -> str:
    """Return a command's docstring with one line per paragraph, which wraps at the terminal's width."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
