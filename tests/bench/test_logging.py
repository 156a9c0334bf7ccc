"""Log records of the suite as lines on standard error, also while a live display is drawn."""

import io
import logging

import pytest
from ragen_bench.console.log_handler import logs_on, logs_on_stderr, stderr_console
from ragen_bench.console.progress import TerminalBar
from rich.console import Console
from rich.progress import Progress

LOG = logging.getLogger("ragen.test")


def test_levels_decide_the_prefix_and_what_is_shown(capsys):
    with logs_on_stderr():
        LOG.debug("nobody sees this")
        LOG.info("spent: %d tokens", 12)
        LOG.warning("[a] :key: that is shown as it is, on one line %s", "long " * 40)
        LOG.error("it broke")
        logging.getLogger("ragen.compiling").warning("compiling the games")
    lines = capsys.readouterr().err.splitlines()
    assert [line[:40] for line in lines] == [
        "spent: 12 tokens", "warning: [a] :key: that is shown as it i", "error: it broke",
        "compiling the games",
    ]  # fmt: skip


def test_nothing_is_left_behind(capsys):
    logger = logging.getLogger("ragen")
    before = logger.level, logger.propagate, list(logger.handlers)
    with pytest.raises(ZeroDivisionError), logs_on_stderr():
        raise ZeroDivisionError
    assert (logger.level, logger.propagate, logger.handlers) == before


def test_requests_that_are_sent_again_are_reported_once_in_a_while(capsys):
    endpoint = logging.getLogger("ragen.endpoint")
    with logs_on_stderr():
        for number in range(5):
            endpoint.info("try %d", number)
            LOG.info("other %d", number)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["try 0", *(f"other {number}" for number in range(5))]


class Bar(TerminalBar):
    def __init__(self, console):
        self._console = console
        self._bar = Progress(console=console, transient=True)
        self._bar.add_task("moving", total=3)


def test_records_appear_above_a_live_bar_and_then_on_stderr_again(capsys):
    terminal = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, _environ=terminal)
    with logs_on_stderr():
        with Bar(console):
            LOG.warning("first")
        LOG.warning("second")
    drawn = console.file.getvalue()
    assert "warning: first\n" in drawn
    assert "moving" in drawn.split("warning: first\n")[1], "the bar is drawn again below the line"
    assert capsys.readouterr().err == "warning: second\n"


def test_a_quiet_console_hides_records(capsys):
    with logs_on_stderr(), logs_on(stderr_console(quiet=True)):
        LOG.warning("the first process has shown it")
    assert capsys.readouterr().err == ""
