"""The metrics of a training run, a line an iteration; they can be read without torch."""

import json
from pathlib import Path
from typing import Any, Final

from ragen_envs.game.errors import RagenError

METRICS: Final = "metrics.jsonl"
ITERATION: Final = "iteration"
"""Key of a line's number, from 0 for the evaluation of the initial model."""


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, iteration by iteration; a torn last line is left out.

    Raises:
        RagenError: There are none, or a line is corrupt.
    """
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise RagenError(f"'{folder}' is not a training run: it has no {METRICS}") from error
    except UnicodeDecodeError as error:
        raise RagenError(f"'{folder / METRICS}' is corrupt: {error}") from error
    found = []
    for number, line in enumerate(lines[:-1], 1):
        where = f"{folder / METRICS} line {number} is corrupt"
        try:
            metrics = json.loads(line)
        except ValueError as error:
            raise RagenError(f"{where}: {error}") from error
        if not isinstance(metrics, dict) or not isinstance(metrics.get(ITERATION), int):
            raise RagenError(
                f"{where}: it must be a mapping with an {ITERATION}, but is {line:.80}"
            )
        found.append(metrics)
    return found
