"""The metrics of a training run, a line an iteration; they can be read without torch."""

import json
from pathlib import Path
from typing import Any, Final

from ragen_envs.errors import RagenError

METRICS: Final = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, iteration by iteration; a torn last line is left out.

    Raises:
        RagenError: There are none, or a line is corrupt.
    """
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise RagenError(f"'{folder}' is not a training run: it has no {METRICS}") from error
    found = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise RagenError(f"{folder / METRICS} line {number} is corrupt: {error}") from error
    return found
