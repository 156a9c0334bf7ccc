"""Print the progress of a run: little enough to be read whole where only the end of the output comes back."""

import sys
from typing import Final

MOST: Final = 10_000
"""Characters that a run prints at most."""
_FOR_TABLE: Final = 4_000
_EXCERPT: Final = 2_000
"""Characters of a failed stage's log at most."""


class Console:
    """Prints to stdout and counts."""

    def __init__(self) -> None:
        self._left = MOST

    def line(self, text: str) -> None:
        """Print a line."""
        self._print(text[:300])

    def excerpt(self, log: str) -> None:
        """Print the last lines of a log, 60 at most, as long as the table at the end has its place."""
        room = min(_EXCERPT, self._left - _FOR_TABLE)
        lines: list[str] = []
        for line in reversed(log.splitlines()[-60:]):
            room -= len(line[:200]) + 3
            if room < 0:
                break
            lines.append(f"  {line[:200]}")
        if lines:
            self._print("\n".join(reversed(lines)))

    def table(self, text: str) -> None:
        """Print what remains to be said, cut where there is no more room."""
        self._print(text[: max(0, self._left - 1)])

    def _print(self, text: str) -> None:
        self._left -= len(text) + 1
        print(text)
        sys.stdout.flush()
