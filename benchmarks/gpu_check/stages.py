"""What is run: each stage is a command of its own, so that its failure or its memory is nobody else's."""

import json
import statistics
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

PHASES: Final = ("rollout", "games", "scores", "update", "sync", "total")
REHEARSAL: Final = "RAGEN_GPU_REHEARSAL"
"""Environment variable under which the tests run on a CPU, without what only CUDA has."""


@dataclass(frozen=True)
class Stage:
    """A command and what is read of what it leaves behind."""

    name: str
    title: str
    limit: int
    """Seconds after which it is ended."""
    command: list[str]
    read: Callable[[], dict[str, Any]]
    """Returns the findings, as JSON; may raise `OSError` or `ValueError` if there are none."""
    leaves: Path | None = None
    """A file with the findings, which an earlier try may have left."""
    environment: dict[str, str] = field(default_factory=dict)


def all_stages(root: Path, work: Path, rehearsal: bool, engine: str | None = None) -> list[Stage]:
    """Return the stages in their order.

    Args:
        root: Of the checkout.
        work: Folder for what they write.
        rehearsal: Whether they are run on a CPU, as small as they can be, to see that they run at all.
        engine: What generates rollouts; None: vLLM, which a rehearsal does without where it is missing.
    """
    if engine is None:
        engine = "transformers" if rehearsal and find_spec("vllm") is None else "vllm"
    return [
        _tests(root, work, rehearsal),
        _starter(work, rehearsal, engine),
        *(
            _paper(root, work, rehearsal, engine, name, title, limit, more)
            for name, title, limit, more in (
                ("paper-all", "all trajectories kept", 340, ["--preset", "starpo-ppo"]),
                ("paper-kept", "a quarter kept", 280, ["--preset", "starpo-s"]),
                ("paper-lora", "a quarter kept, LoRA", 280, ["--preset", "starpo-s", "--lora"]),
            )
        ),
    ]


def _tests(root: Path, work: Path, rehearsal: bool) -> Stage:
    report = work / "tests.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(root / "tests/gpu"),
        "-ra",
        f"--junit-xml={report}",
    ]
    environment = {REHEARSAL: "1"} if rehearsal else {}
    return Stage(
        "tests", "CUDA tests", 400, command, lambda: read_tests(report), report, environment
    )  # fmt: skip


def _starter(work: Path, rehearsal: bool, engine: str) -> Stage:
    run = work / "starter"
    command = [
        sys.executable, "-m", "ragen_bench", "train", "sokoban", "--preset", "starpo-s",
        "--out", str(run), f"engine={engine}", "evaluation.every=0",
        *(_few(4, 24) if rehearsal else ["iterations=10"]),
    ]  # fmt: skip
    title = f"StarPO-S on the starter, ten iterations, engine={engine}"
    return Stage("starter", title, 200, command, lambda: read_run(run))


def _paper(
    root: Path, work: Path, rehearsal: bool, engine: str, name: str, title: str, limit: int,
    more: list[str],
) -> Stage:  # fmt: skip
    """Return a stage of random weights; vLLM finds by their folder what it has compiled."""
    found = work / f"{name}-found.json"
    command = [
        sys.executable, str(root / "benchmarks/speed/paper_scale.py"), "--engine", engine,
        "--json", str(found), "--model", str(work / "model"), *more,
    ]  # fmt: skip
    if rehearsal:
        command += ["--shape", "tiny", "--prompts-per-iteration", "2", "--group-size", "2"]
        command += ["--max-tokens", "4", "--iterations", "2"]
    return Stage(
        name,
        f"Paper's settings, {title}, engine={engine}",
        limit,
        command,
        lambda: json.loads(found.read_text()),
        found,
    )


def _few(group: int, tokens: int) -> list[str]:
    return [
        "iterations=2", "rollout.prompts_per_iteration=2", f"rollout.group_size={group}",
        f"rollout.max_tokens={tokens}", "update.mini_batch_size=4", "filter.kind=none",
    ]  # fmt: skip


def read_tests(report: Path) -> dict[str, Any]:
    """Return how each test of a JUnit report ended: its name, "passed", "failed" or "skipped", and why."""
    rows = []
    for case in ET.parse(report).getroot().iter("testcase"):
        ended = {child.tag: child.get("message", "") for child in case}
        outcome = "passed"
        if "failure" in ended or "error" in ended:
            outcome = "failed"
        elif "skipped" in ended:
            outcome = "skipped"
        why = next((ended[tag] for tag in ("failure", "error", "skipped") if tag in ended), "")
        rows.append({"test": case.get("name", ""), "outcome": outcome, "why": why.split("\n")[0]})
    if not rows:
        raise ValueError("no test was run")
    return {"tests": rows}


def read_run(run: Path) -> dict[str, Any]:
    """Return the median seconds by phase of a run's iterations but the first, which loads and compiles."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [line for line in lines if line["iteration"] > 0][1:]
    if not rows:
        raise ValueError("fewer than two iterations were finished")
    seconds = {
        phase: statistics.median(row.get(f"seconds/{phase}", 0.0) for row in rows)
        for phase in PHASES
    }
    return {"iterations": len(rows), "seconds": seconds}
