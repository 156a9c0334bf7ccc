"""The display of a training run: a bar with the latest metrics on a terminal, else a line now and then."""

import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragen_agents.starpo import TrainConfig
from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.terminal_bar import TerminalBar

_QUIET = 10.0
"""Seconds between two lines where there is no terminal."""


class TrainingView(TerminalBar):
    """Reports a run on standard error and shows log records above its bar; a context manager.

    Args:
        config: The run's.
        shown: Whether anything is shown at all; only the first process of several shows a run.
    """

    def __init__(self, config: TrainConfig, shown: bool = True) -> None:
        self._console = stderr_console(quiet=not shown)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            speed_estimate_period=300,
        )
        self._row = self._bar.add_task("loading", total=config.iterations)
        self._total = config.iterations
        self._validation: float | None = None
        self._reported = 0.0

    def report(self, iteration: int, metrics: dict[str, Any]) -> None:
        """Show an iteration."""
        self._validation = metrics.get("validation/success", self._validation)
        text = self._text(metrics)
        self._bar.update(self._row, completed=iteration, description=text)
        if self._console.is_terminal:
            return
        now = time.monotonic()
        if now - self._reported >= _QUIET or iteration == self._total:
            self._reported = now
            self._console.print(f"{iteration}/{self._total} {text}", soft_wrap=True)

    def _text(self, metrics: dict[str, Any]) -> str:
        parts = []
        if self._validation is not None:
            parts.append(f"validation {100 * self._validation:.1f}%")
        for name, label in (
            ("success", "success"), ("return", "return"), ("reward_std", "std"),
            ("entropy", "entropy"), ("grad_norm", "gradient"), ("seconds/total", "s"),
        ):  # fmt: skip
            if name in metrics:
                value = metrics[name]
                shown = f"{100 * value:.1f}%" if name == "success" else f"{value:.3g}"
                parts.append(f"{label} {shown}")
        return "  ".join(parts)
