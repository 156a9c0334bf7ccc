"""The display of a training run: a line for each evaluation, and the latest metrics in a bar or a line."""

import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from ragen_agents.starpo import TrainConfig
from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.progress import TerminalBar

_QUIET = 10.0
"""Seconds between two lines where there is no terminal."""


class TrainingView(TerminalBar):
    """Reports a run on standard error and shows log records above its bar; a context manager."""

    def __init__(self, config: TrainConfig, shown: bool = True) -> None:
        self._console = stderr_console(quiet=not shown)
        # On a narrow terminal the metrics are cut off, not the time that is left.
        cut = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            BarColumn(bar_width=8),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left "),
            TextColumn("{task.description}", markup=False, table_column=cut),
            console=self._console,
            transient=True,
            expand=True,
            speed_estimate_period=300,
        )
        self._row = self._bar.add_task("loading", total=config.iterations)
        self._total = config.iterations
        self._reported = 0.0

    def report(self, iteration: int, metrics: dict[str, Any]) -> None:
        """Show an iteration."""
        text = _text(metrics)
        self._bar.update(self._row, completed=iteration, description=text)
        if "validation/success" in metrics:
            self._console.print(_evaluation(iteration, metrics), soft_wrap=True)
        if self._console.is_terminal or not text:
            return
        now = time.monotonic()
        if now - self._reported >= _QUIET or iteration == self._total:
            self._reported = now
            self._console.print(f"{iteration}/{self._total} {text}", soft_wrap=True)


def _evaluation(iteration: int, metrics: dict[str, Any]) -> str:
    success, valid = 100 * metrics["validation/success"], 100 * metrics["validation/valid"]
    return f"iteration {iteration}: validation success {success:.1f}%, valid replies {valid:.1f}%"


def _text(metrics: dict[str, Any]) -> str:
    """Return the metrics of an iteration, the most important first; nothing for an evaluation alone."""
    parts = []
    for name, label in (
        ("success", "success"), ("return", "return"), ("entropy", "entropy"),
        ("reward_std", "std"), ("grad_norm", "gradient"),
    ):  # fmt: skip
        if name in metrics:
            value = metrics[name]
            parts.append(f"{label} {100 * value:.1f}%" if name == "success" else f"{label} {value:.3g}")
    if "seconds/total" in metrics and parts:
        parts.append(f"{metrics['seconds/total']:.3g} s")
    return "  ".join(parts)
