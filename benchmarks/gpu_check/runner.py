"""Runs stages one after another, whatever becomes of each, and keeps what they found."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_check.stages import Stage

_GRACE = 10.0
"""Seconds between asking a stage to end and killing it."""


@dataclass(frozen=True)
class Outcome:
    """How a stage ended."""

    name: str
    title: str
    status: str
    """"passed", "failed" or "timed out"."""
    seconds: float
    found: dict[str, Any] = field(default_factory=dict)
    """Its findings; empty if it left none."""
    log: str = ""
    """File with all that it said."""


def run_all(
    stages: Sequence[Stage], root: Path, work: Path, made_on: dict[str, str]
) -> list[Outcome]:
    """Run the stages that have not passed yet, and return all outcomes.

    Args:
        stages: In their order.
        root: Of the checkout, where they are run.
        work: Folder for results. What other hardware or another commit has left there is removed.
        made_on: The hardware and versions.
    """
    _clear(work, made_on)
    outcomes = []
    for number, stage in enumerate(stages, 1):
        head = f"[{number}/{len(stages)}] {stage.title}"
        outcome = _kept(stage, work)
        if outcome is not None:
            print(f"{head}: passed before, kept", flush=True)
        else:
            print(f"{head}: at most {stage.limit / 60:.0f} minutes", flush=True)
            outcome = _run(stage, root, work)
            print(f"{head}: {outcome.status} after {outcome.seconds:.0f} s", flush=True)
        outcomes.append(outcome)
    return outcomes


def _clear(work: Path, made_on: dict[str, str]) -> None:
    note = work / "made-on.json"
    here = json.dumps(made_on, indent=1)
    if not note.exists() or note.read_text() != here:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        note.write_text(here)


def _kept(stage: Stage, work: Path) -> Outcome | None:
    try:
        outcome = Outcome(**json.loads(_file(stage, work).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return outcome if outcome.status == "passed" else None


def _run(stage: Stage, root: Path, work: Path) -> Outcome:
    log = work / f"{stage.name}.log"
    if stage.leaves is not None:
        stage.leaves.unlink(missing_ok=True)
    started = time.monotonic()
    status = _status(stage, root, log)
    found: dict[str, Any] = {}
    try:
        found = stage.read()
    except (OSError, ValueError, KeyError) as error:
        print(f"  no result: {error}", flush=True)
        status = "failed" if status == "passed" else status
    seconds = time.monotonic() - started
    outcome = Outcome(stage.name, stage.title, status, seconds, found, str(log))
    _file(stage, work).write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    return outcome


def _file(stage: Stage, work: Path) -> Path:
    return work / f"{stage.name}.json"


def _status(stage: Stage, root: Path, log: Path) -> str:
    """Run a stage's command, show what it says and write it down; returns how it ended."""
    late = threading.Event()
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            stage.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=os.environ | stage.environment, cwd=root, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        watch = threading.Timer(stage.limit, _end, (process, late))
        watch.start()
        try:
            for line in process.stdout or ():
                file.write(line)
                file.flush()
                print(f"  {line}", end="", flush=True)
            code = process.wait()
        finally:
            watch.cancel()
            _signal(process, signal.SIGKILL)  # also what it has left running
    if late.is_set():
        return "timed out"
    return "passed" if code == 0 else "failed"


def _end(process: "subprocess.Popen[str]", late: threading.Event) -> None:
    late.set()
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    _signal(process, signal.SIGKILL)


def _signal(process: "subprocess.Popen[str]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
