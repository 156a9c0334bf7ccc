"""A bar on standard error that is drawn on a terminal only."""

from contextlib import ExitStack

from rich.console import Console
from rich.progress import Progress

from ragen_agents.run_files.files import ResourceContext
from ragen_bench.console.log_handler import logs_on


class TerminalBar(ResourceContext):
    """Shows its bar and log records above it while it is entered; the bar only on a terminal."""

    _console: Console
    _bar: Progress

    def _open(self, resources: ExitStack) -> None:
        resources.enter_context(logs_on(self._console))
        if self._console.is_terminal:
            self._bar.start()
            resources.callback(self._bar.stop)
