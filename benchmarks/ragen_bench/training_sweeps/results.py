"""The result of a task: one small record from which all tables and figures are made."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import write_atomically
from ragen_agents.run_files.yaml_files import differences_of, explain
from ragen_agents.starpo.math.losses import Term
from ragen_agents.starpo.run.metrics import BUCKETS
from ragen_bench.training_sweeps.tasks import SweepTask
from ragen_envs.errors import RagenError

RESULT: Final = "result.json"
TRAIN: Final = Path("train")
"""The run directory in a task's folder."""
CURVES: Final = (
    "success", "return", "reward_std", "entropy", "grad_norm", "valid", "reply_tokens",
    "thought_characters", "template_share", "clip_fraction", "optimizer_steps", "kept_groups",
    "claims/places", "claims/move_1", "claims/ends", "claims/plan",
    "validation/success", "seconds/total", "seconds/evaluation",
    "information/turns/thought/mutual_information", "information/turns/thought/conditional_entropy",
    "information/turns/thought/retrieval@1", "information/turns/thought/z_score",
    "information/first/reply/mutual_information", "information/first/reply/conditional_entropy",
    "information/first/reply/retrieval@1", "information/first/reply/z_score",
    *(
        f"gradient/bucket{k}/{name}"
        for k in range(1, BUCKETS + 1)
        for name in ("reward_std", *get_args(Term))
    ),
)  # fmt: skip
"""The training metrics that are kept; docs/training-metrics.md explains them."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Outcome(_Record):
    """Results of an agent on one test, level by level."""

    success: str = Field(pattern="^[01]+$")
    """Whether each level was solved."""
    levels: list[int] | None = None
    """Number of the distinct level that each one is, where some are the same; None where none are."""
    optimal: float | None
    """Mean over levels of the best possible chance of success under the same budget."""
    random: float | None = None
    """The same mean of random play, exactly; None where it is not available, and in older records."""
    mean_return: float
    valid: float
    """Share of replies without a defect."""
    reply_tokens: float | None
    """Mean tokens of a reply; None for agents without tokens."""


class TaskResult(_Record):
    """A task that is done."""

    task: SweepTask
    outcomes: dict[str, dict[str, Outcome]]
    """Outcomes by agent and test."""
    curves: dict[str, list[float | None]] = Field(default_factory=dict)
    """Values by metric, one for each line of the run's metrics, of which the first may be iteration 0."""
    iterations: list[int] = Field(default_factory=list)
    """The iteration of each line."""
    ended: str | None = None
    """Reason for an end before the last iteration, or None."""
    weights: str | None = None
    """Hash of the weights that were tested."""
    seconds: dict[Literal["train", "test"], float]
    """Seconds of all its iterations, and of the tests in its last process."""
    made_with: dict[str, Any]
    """Versions, machine, commit."""
    seeds: int | None = None
    """Number of seeds of its cell when verdicts were first made with it; None before that, and for
    controls."""


def outcome_of(episodes: Iterable[Episode]) -> Outcome:
    """Return the record of an agent's episodes of one test, in the order of the levels."""
    played = sorted(episodes, key=lambda episode: episode.instance.index or 0)
    numbers: dict[str, int] = {}
    levels = [numbers.setdefault(e.instance.key, len(numbers)) for e in played]
    turns = [turn for episode in played for turn in episode.turns]
    tokens = [turn.reply_tokens for turn in turns if turn.reply_tokens is not None]
    return Outcome(
        success="".join(str(int(episode.success)) for episode in played),
        levels=levels if len(numbers) < len(played) else None,
        optimal=_mean_of(played, "optimal_success"),
        random=_mean_of(played, "random_success"),
        mean_return=_rounded(sum(e.episode_return for e in played) / len(played)),
        valid=_rounded(sum(not turn.defects for turn in turns) / max(len(turns), 1)),
        reply_tokens=_rounded(sum(tokens) / len(tokens)) if tokens else None,
    )


def _mean_of(played: list[Episode], field: str) -> float | None:
    """Return the mean of an exact expectation, or None if an episode lacks it."""
    known = [value for e in played if (value := getattr(e, field)) is not None]
    return _rounded(sum(known) / len(known)) if len(known) == len(played) else None


def curves_of(metrics: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Return the kept metrics of a run, line by line."""
    return {
        name: [_rounded(line[name]) if name in line else None for line in metrics]
        for name in CURVES
        if any(name in line for line in metrics)
    }


def write_result(folder: Path, result: TaskResult) -> None:
    """Write the record of a task; with it the task is done."""
    write_atomically(folder / RESULT, result.model_dump_json() + "\n")


def read_result(folder: Path, task: SweepTask) -> TaskResult | None:
    """Return the record of a task, or None if it is not done."""
    try:
        text = (folder / RESULT).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    result = parse_result(text, str(folder / RESULT))
    check_same(folder, result.task, task)
    return result


def parse_result(text: str, what: str) -> TaskResult:
    """Return a record from its JSON; ``what`` is how errors call it."""
    try:
        return _parsed(text)
    except ValidationError as error:
        raise RagenError(f"{what}: {explain(error, TaskResult)}") from error


def parse_task(path: Path) -> SweepTask:
    """Return the task of a file."""
    try:
        return SweepTask.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise RagenError(f"{path}: {explain(error, SweepTask)}; choose another --out") from error


@lru_cache(maxsize=4096)
def _parsed(text: str) -> TaskResult:
    """Return a record; the tables of all sweeps read the same ones again and again."""
    return TaskResult.model_validate_json(text)


def check_same(folder: Path, recorded: SweepTask, requested: SweepTask) -> None:
    """Raise `RagenError` if a folder holds another task than the given one."""
    differs = differences_of(recorded.settings, requested.settings)
    if differs is not None:
        raise RagenError(f"'{folder}' holds another task: {differs}; choose another --out")


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
