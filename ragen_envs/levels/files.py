"""Level files of other people: numbered levels from a text file, whose errors name file and level."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from ragen_envs.errors import InstanceError


class FileLevel(NamedTuple):
    """One level of a file."""

    number: int
    """Number of the level in the file, from 1."""
    title: str
    """The title, or else the first comment, between the level before and this one; "" for none."""
    level: str
    """The level in its canonical text form."""


def read_level_file(
    path: str | PathLike[str], is_row: Callable[[str], bool], read: Callable[[Sequence[str]], str]
) -> tuple[FileLevel, ...]:
    """Return the levels of a file: runs of rows, separated by blank lines, titles and comments.

    Args:
        path: The file.
        is_row: Whether a line is a row of a level.
        read: Returns the text form of a level from its rows; raises `InstanceError`.

    Raises:
        InstanceError: The file cannot be read, has no level, or a level is wrong; the message names the file,
            the number of the level and the reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise InstanceError(f"levels '{path}' cannot be read: {reason}") from error
    levels: list[FileLevel] = []
    for number, (title, rows) in enumerate(_blocks(text, is_row), start=1):
        try:
            levels.append(FileLevel(number, title, read(rows)))
        except InstanceError as error:
            raise InstanceError(f"levels '{path}', level {number}: {error}") from error
    if not levels:
        raise InstanceError(f"levels '{path}' has no level: no line is a row of one")
    return tuple(levels)


def _blocks(text: str, is_row: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the rows of each level."""
    title, rows = "", list[str]()
    for line in [*text.splitlines(), ""]:
        if is_row(line):
            rows.append(line.rstrip())
            continue
        if rows:
            yield title, rows
            title, rows = "", []
        words = line.strip().lstrip(";' ")
        if words.lower().startswith("title:"):
            title = words[6:].strip()
        elif not title:
            title = words
