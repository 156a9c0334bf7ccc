"""The result of a task: one small record from which all tables and figures are made, and where it is kept.

Kept results are one file a sweep and scale, a task a line, small enough to be committed.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import opened_alone, read_text, write_atomically
from ragen_agents.run_files.yaml_files import differences_of, explain
from ragen_agents.starpo.config import resources_of
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


class Borrowed(NamedTuple):
    """A result of another sweep."""

    result: TaskResult
    """Result in the form of the task that it serves, without times."""
    source: SweepTask
    """The task that was done."""


def archive_path(root: Path, sweep: str, scale: str) -> Path:
    """Return the file of a sweep's results at a scale."""
    return root / scale / f"{sweep}.jsonl"


def read_archive(path: Path) -> list[TaskResult]:
    """Return the results of a file, or nothing if there is no such file."""
    lines = read_text(path).split("\n") if path.exists() else []
    return [parse_result(line, f"{path} line {n}") for n, line in enumerate(lines, 1) if line]


def read_archives(folder: Path) -> list[TaskResult]:
    """Return the results of all sweeps in a folder."""
    return [result for path in sorted(folder.glob("*.jsonl")) for result in read_archive(path)]


def matching(results: Iterable[TaskResult], tasks: Sequence[SweepTask]) -> dict[Path, TaskResult]:
    """Return the results of exactly these tasks, by path; those of other settings are left out."""
    wanted = {task.path: task.settings for task in tasks}
    return {
        result.task.path: result for result in results if wanted.get(result.task.path) == result.task.settings
    }


def check_archive(results: Iterable[TaskResult], tasks: Sequence[SweepTask], folder: Path) -> None:
    """Check that no archived result of other settings is in the place of a task's result."""
    wanted = {task.path: task for task in tasks}
    for result in results:
        task = wanted.get(result.task.path)
        if task is None:
            continue
        differs = differences_of(result.task.settings, task.settings)
        if differs is not None:
            raise RagenError(
                f"'{folder}' keeps a result of {task.path} under other settings: {differs}; give "
                "another --results, or move its file away"
            )


def borrowed(results: Iterable[TaskResult], tasks: Sequence[SweepTask]) -> dict[Path, Borrowed]:
    """Return the results of other sweeps that are results of these tasks too, by path.

    Sweeps share cells, such as the plain method. Training must be the same in everything, and all tests
    of the task among those that were played.
    """
    done: dict[str, list[TaskResult]] = {}
    for result in results:
        done.setdefault(_work_of(result.task), []).append(result)
    lent = {}
    for task in tasks:
        others = [r for r in done.get(_work_of(task), []) if r.task.path != task.path]
        tests = task.suite.tasks.items()
        twin = next((r for r in others if tests <= r.task.suite.tasks.items()), None)
        if twin is not None:
            lent[task.path] = Borrowed(_renamed(twin, task), twin.task)
    return lent


def _work_of(task: SweepTask) -> str:
    """Return all that a task does but its tests, as text. Controls do not train."""
    train = task.train
    controls = f"{train.model} {train.weights} {train.engine}"
    made = controls if task.seed is None else train.model_dump_json(exclude=resources_of(train))
    suite = task.suite.model_dump_json(exclude={"name", "version", "tasks"})
    return f"{task.suite_version} {task.seed} {made} {task.supervised} {suite}"


def _renamed(result: TaskResult, task: SweepTask) -> TaskResult:
    outcomes = {
        agent: {test: played[test] for test in task.suite.tasks} for agent, played in result.outcomes.items()
    }
    # Times of another command, perhaps on another machine, are not comparable.
    curves = {name: c for name, c in result.curves.items() if not name.startswith("seconds/")}
    return result.model_copy(update={"task": task, "outcomes": outcomes, "curves": curves})


def add_to_archive(path: Path, results: Iterable[TaskResult]) -> None:
    """Replace results of the same tasks; others stay.

    The file is in the order of paths, and there whole or not at all. It is not touched where nothing changes.
    Several processes may add results at once.
    """
    new = {result.task.path: result for result in results}
    archived = _by_path(path)
    if archived | new == archived:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_alone(path):
        all_results = _by_path(path) | new
        lines = [all_results[key].model_dump_json() + "\n" for key in sorted(all_results)]
        write_atomically(path, "".join(lines))


def _by_path(path: Path) -> dict[Path, TaskResult]:
    return {result.task.path: result for result in read_archive(path)}
