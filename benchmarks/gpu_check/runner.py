"""Runs stages one after another, whatever becomes of each, within a time for all of them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpu_check.console import Console
from gpu_check.results import Outcome, Results, tail
from gpu_check.stages import Attempt, Stage

_GRACE: Final = 5.0
"""Seconds between asking a stage to end and killing it."""
_LEAST_SHARE: Final = 0.3
_LEAST: Final = 60.0
"""A stage is begun if this share of its limit, or so many seconds, are left."""
_PLAIN: Final = Attempt("", {}, {})


class _Run(NamedTuple):
    status: str
    found: dict[str, Any]
    log: Path


class Runner:
    """Runs stages.

    Args:
        root: Of the checkout.
        work: Folder for logs and other large files.
        common: Options of all stages.
        made_on: Hardware and versions.
        deadline: When all must have ended, on the clock of `time.monotonic`.
        patience: Factor of the limits of stages.
    """

    def __init__(
        self, root: Path, work: Path, common: Sequence[str], made_on: dict[str, str], deadline: float,
        patience: float = 1.0,
    ) -> None:  # fmt: skip
        self._patience = patience
        self._root, self._work, self._common = root, work, common
        self._made_on, self._deadline = made_on, deadline

    def run_all(self, stages: Sequence[Stage], results: Results, console: Console) -> None:
        """Run the stages that have not passed before, and add their outcomes to the results."""
        for stage in stages:
            if results.passed_before(stage.name, self._made_on):
                console.line(f"{stage.name}: passed before")
                continue
            outcome = self._run(stage)
            results.add(outcome)
            why = f": {outcome.why}" if outcome.why else ""
            console.line(f"{stage.name}: {outcome.status}, {outcome.seconds:.0f} s{why}")
            if outcome.status in ("failed", "timed out"):
                console.excerpt(tail(self._work / outcome.log, 8000))

    def _run(self, stage: Stage) -> Outcome:
        if stage.lacks:
            return Outcome(stage.name, stage.title, "skipped", why=stage.lacks)
        started = time.monotonic()
        tried: list[str] = []
        run: _Run | None = None
        for attempt in stage.attempts or (_PLAIN,):
            limit = min(stage.limit * self._patience, self._deadline - time.monotonic())
            if limit < min(_LEAST_SHARE * stage.limit, _LEAST):
                break
            run = self._try(stage, attempt, limit)
            tried.append(attempt.label)
            if not stage.attempts or "start" in run.found:
                break
        seconds = time.monotonic() - started
        if run is None:
            return Outcome(stage.name, stage.title, "skipped", why="no time was left")
        why = _reason(run.found)
        if stage.attempts and len(tried) > 1:
            began = f"started with {tried[-1]}" if "start" in run.found else "never started"
            why = f"{began} after {', '.join(tried[:-1])} had failed{why and '; ' + why}"
        found = {**run.found, "tried": tried} if stage.attempts else run.found
        return Outcome(
            stage.name, stage.title, run.status, seconds, why, found, self._made_on, run.log.name,
        )  # fmt: skip

    def _try(self, stage: Stage, attempt: Attempt, limit: float) -> _Run:
        name = f"{stage.name}-{attempt.label.replace(' ', '-')}".rstrip("-")
        findings, log = self._work / f"{name}.json", self._work / f"{name}.log"
        findings.unlink(missing_ok=True)
        command = stage.command(findings, self._common)
        if stage.attempts:
            command += ["--extra", json.dumps(attempt.extra)]
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | attempt.environment, cwd=self._root,
                start_new_session=True,
            )  # fmt: skip
            status = _ended(process, limit)
        found = json.loads(findings.read_text()) if findings.exists() else {}
        if status == "passed" and not found:
            status = "failed"
        return _Run(status, found, log)


def _ended(process: "subprocess.Popen[bytes]", limit: float) -> str:
    """Wait for a process, end it when its time is over, and end all that it has started."""
    try:
        code = process.wait(limit)
        return "passed" if code == 0 else "failed"
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        return "timed out"
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _reason(found: dict[str, Any]) -> str:
    """Return what a stage says is wrong, in a line, or what it did when it was ended."""
    running = found.get("running")
    ended = f"ended during {running}" if running else ""
    return "; ".join(filter(None, (str(found.get("wrong", ""))[:200], ended)))
