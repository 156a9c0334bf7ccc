"""Sweeps of training: cells of settings, each trained with several seeds and tested on the frozen levels."""

from pathlib import Path
from typing import Final

TASK: Final = "task.json"
TEST: Final = Path("test")
"""Names, in the folder of a task, of its settings and of the run that tests it."""
