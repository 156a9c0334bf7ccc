"""Level files of other people: numbered levels from a text file, whose errors name file and level."""

from collections.abc import Callable, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path

from ragen_envs.errors import InstanceError


def read_level_file(
    path: str | PathLike[str], is_row: Callable[[str], bool], read: Callable[[Sequence[str]], str]
) -> tuple[str, ...]:
    """Return the levels of a file in text form: runs of rows, separated by blank lines, titles and comments.

    ``is_row`` tells whether a line is a row of a level, and ``read`` returns the text form of its rows.

    Raises:
        InstanceError: The file cannot be read, has no level, or a level is wrong; the message names the file,
            the index of the level, from 0, and the reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise InstanceError(f"levels '{path}' cannot be read: {reason}") from error
    blocks = [[line.rstrip() for line in lines] for rows, lines in groupby(text.splitlines(), is_row) if rows]
    levels = []
    for number, rows in enumerate(blocks):
        try:
            levels.append(read(rows))
        except InstanceError as error:
            raise InstanceError(f"levels '{path}', index {number}: {error}") from error
    if not levels:
        raise InstanceError(f"levels '{path}' has no level: no line is a row of one")
    return tuple(levels)
