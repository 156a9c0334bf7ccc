"""The results of all stages in one small file, and the ends of their logs in another."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from gpu_check.hardware import same_machine
from ragen_agents.run_files.files import write_atomically

RESULTS: Final = "results.json"
LOGS: Final = "logs.txt"
_LOG_TAIL: Final = 60_000
"""Characters of each log that are kept."""


@dataclass(frozen=True)
class Outcome:
    """How a stage ended."""

    name: str
    title: str
    status: str
    """"passed", "failed", "timed out" or "skipped"."""
    seconds: float = 0.0
    why: str = ""
    """What is wrong, in a line."""
    found: dict[str, Any] = field(default_factory=dict)
    """Its findings."""
    made_on: dict[str, str] = field(default_factory=dict)
    """Hardware and versions."""
    log: str = ""
    """Name of the file with all that it printed, in the folder for large files."""


class Results:
    """The outcomes so far, in a folder that comes back and in one that stays on the machine.

    Args:
        folder: For the small files: the outcomes and the ends of the logs. Nothing else in it is touched.
        work: For large files; it has a copy of the outcomes, from which a second call continues if its
            ``folder`` is new.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder, self._work = folder, work
        for each in (folder, work):
            each.mkdir(parents=True, exist_ok=True)
        before = read_results(folder) or read_results(work)
        self._outcomes = {outcome.name: outcome for outcome in before}

    @property
    def outcomes(self) -> list[Outcome]:
        """All, in the order in which they first came."""
        return list(self._outcomes.values())

    def passed_before(self, name: str, made_on: dict[str, str]) -> bool:
        """Return whether a stage has passed on this kind of machine with this commit."""
        before = self._outcomes.get(name)
        is_same = before is not None and same_machine(before.made_on, made_on)
        return is_same and before is not None and before.status == "passed"

    def add(self, outcome: Outcome) -> None:
        """Add an outcome, in place of an earlier one, and write the files anew.

        A stage that was skipped does not replace what an earlier call found.
        """
        before = self._outcomes.get(outcome.name)
        if outcome.status != "skipped" or before is None or before.status == "skipped":
            self._outcomes[outcome.name] = outcome
        text = json.dumps([asdict(one) for one in self.outcomes], indent=1) + "\n"
        for folder in (self._work, self._folder):
            write_atomically(folder / RESULTS, text)
        write_atomically(self._folder / LOGS, self._logs())

    def _logs(self) -> str:
        parts = []
        for outcome in self.outcomes:
            if outcome.log and (log := self._work / outcome.log).exists():
                parts.append(f"==== {outcome.name}\n{tail(log, _LOG_TAIL)}\n")
        return "".join(parts)


def read_results(folder: Path) -> list[Outcome]:
    """Return the outcomes in a folder, none if it has none."""
    file = folder / RESULTS
    if not file.exists():
        return []
    return [Outcome(**fields) for fields in json.loads(file.read_text(encoding="utf-8"))]


def tail(log: Path, characters: int) -> str:
    """Return the end of a log, from the beginning of a line."""
    text = log.read_text(encoding="utf-8", errors="replace")
    if len(text) <= characters:
        return text
    return text[-characters:].partition("\n")[2]
