"""Suites: which games are played, how many levels of each, and how language models decode."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ragen_agents.rollout.episode_runner import EpisodeSpec, make_env
from ragen_agents.run_files.yaml_files import validate
from ragen_bench.config.bundled import bundled_names, load_named
from ragen_bench.config.extensions import imported_extensions
from ragen_bench.config.game_names import FOR_SEVERAL, find_game, short_names, squeezed
from ragen_bench.config.own_levels import limits_for, own_level_count, with_level_texts
from ragen_envs.conversation import make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.levels.splits import read_split
from ragen_envs.registration import game_of, plain_id, spec_of, text_ids

__all__ = ["SamplingSettings", "Suite", "Task", "adapt_suite", "bundled_suites", "load_suite"]

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


Split = Literal["train", "validation", "test"]


class StrictModel(BaseModel):
    """Data without unknown fields, conversions of types, or numbers that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SamplingSettings(StrictModel):
    """Sampling settings of language models."""

    temperature: float = Field(default=0.5, ge=0, le=100)
    """0 is greedy decoding (paper: 0.5 in evaluation)."""
    max_tokens: int = Field(default=200, ge=1, le=1 << 20)
    """Most tokens of one reply."""


class Task(StrictModel):
    """One row of the table: a game in its text form."""

    env: str
    """Id of a conversation env, such as ``ragen/SokobanText-v0``, or of another environment of Gymnasium."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Conversation settings and keywords of the game that differ from those of the id."""
    split: Split | None = Field(default=None, exclude_if=lambda split: split is None)
    """Split of its levels, instead of the suite's; omitted if none."""


class Suite(StrictModel):
    """The games and settings of a benchmark."""

    name: Name
    """Part of the names of run directories."""
    version: int = Field(ge=1)
    """Raised with any change, because results of different versions are not comparable."""
    description: str = ""
    """One sentence."""
    split: Split = "test"
    """Split of the frozen levels."""
    episodes: int = Field(default=256, ge=1)
    """Levels of each task: the first ones of the split's pack."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the policies' draws; levels and their chance do not depend on it."""
    sampling: SamplingSettings = SamplingSettings()
    """Sampling settings of language models."""
    tasks: dict[Name, Task] = Field(min_length=1)
    """The rows of the table, in their order."""


def levels_title(suite: Suite) -> str:
    """Return the name and version of a suite, and whose levels are played."""
    own = all(own_level_count(task.settings) for task in suite.tasks.values())
    return f"{suite.name} {suite.version}, {'own' if own else suite.split} levels"


def at_least_one(name: str, count: int) -> int:
    """Return a count, or raise `RagenError` if it is not positive."""
    if count < 1:
        raise RagenError(f"{name} is {count}, but must be at least 1")
    return count


def bundled_suites() -> list[str]:
    """Return the names of the suites that come with the package."""
    return bundled_names("suites")


def load_suite(suite: str) -> Suite:
    """Load a suite by its name or from a YAML file.

    Raises:
        RagenError: There is no such suite, or the file is not a suite.
    """
    return load_named(Suite, "suites", "suite", suite)


def adapt_suite(
    suite: Suite,
    episodes: int | None,
    seed: int | None,
    games: list[str] | None,
    sampling: Mapping[str, float | None],
    settings: Mapping[str, Any],
    known: Sequence[str],
    levels: str | None = None,
    split: str | None = None,
) -> Suite:
    """Return the suite with other levels, seed, sampling, games or settings.

    What is None stays as it is. Games are names of the suite's tasks, or those of other games,
    which become tasks; ``known`` are the text ids that there are. The settings replace those of
    every task. Files of levels, such as ``levels`` for the only game, are replaced by their levels.
    """
    if episodes is not None:
        at_least_one("episodes", episodes)
    given = {"episodes": episodes, "seed": seed, "split": None if split is None else read_split(split)}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    decoding = {name: value for name, value in sampling.items() if value is not None}
    if decoding:
        changed = {**dict(suite.sampling), **decoding}
        changes["sampling"] = validate(SamplingSettings, changed, f"suite '{suite.name}', sampling")
    tasks = _choose(suite, games, known) if games else suite.tasks
    if levels is not None:
        settings = {**settings, "levels": levels}
        if len(tasks) != 1:
            raise RagenError("--levels needs one game: --game Sokoban or --game FrozenLake")
    changes["tasks"] = {
        name: validate(
            Task,
            {**dict(t), "settings": with_level_texts(t.env, {**t.settings, **settings})},
            f"suite '{suite.name}', task '{name}'",
        )
        for name, t in tasks.items()
    }
    if levels is not None:
        ((name, task),) = changes["tasks"].items()
        changes.setdefault("episodes", own_level_count(task.settings))
        fitted = {**task.settings, **limits_for(task.env, task.settings)}
        changes["tasks"] = {name: task.model_copy(update={"settings": fitted})}
    return validate(Suite, {**dict(suite), **changes}, f"suite '{suite.name}'")


def _choose(suite: Suite, games: list[str], known: Sequence[str]) -> dict[str, Task]:
    """Return the tasks that are named, the suite's own in the suite's order, then the others."""
    own: set[str] = set()
    added: dict[str, Task] = {}
    names = {squeezed(task): task for task in suite.tasks}
    for game in games:
        if game in suite.tasks:
            own.add(game)
        elif (task := names.get(squeezed(game))) is not None:
            own.add(task)
        elif (text_id := find_game(game, known) or plain_id(game)) is not None:
            added[_task_name(text_id)] = Task(env=text_id)
        else:
            raise RagenError(f"unknown game '{game}'; {_choices(game, suite, known)}")
    return {**{name: task for name, task in suite.tasks.items() if name in own}, **added}


def _choices(game: str, suite: Suite, known: Sequence[str]) -> str:
    namespace = game.partition("/")[0] if "/" in game else "ragen"
    if namespace != "ragen" and not any(name.startswith(f"{namespace}/") for name in known):
        if imports := imported_extensions():
            return (
                f"{', '.join(imports)} was imported, but does not register it with "
                "ragen_envs.register_game; see docs/add-a-game.md"
            )
        return (
            f"install the package that registers it, or name its module or file before the command: "
            f"ragen --import {namespace} bench"
        )
    played = {task.env for task in suite.tasks.values()}
    others = [name for name, text_id in short_names(known).items() if text_id not in played]
    own = f"suite '{suite.name}' has {', '.join(suite.tasks)}"
    return f"{own}, and these can be added: {', '.join(others)}{FOR_SEVERAL}" if others else own


def _task_name(text_id: str) -> str:
    """Return the name of the task that an id becomes, such as "Sokoban" or "mine.Corridor"."""
    name = text_id.removeprefix("ragen/").replace("/", ".").removesuffix("-v0")
    return name.removesuffix("Text").removesuffix("_text")


def check_suite(suite: Suite) -> None:
    """Make every game once, with the last level that it needs.

    Raises:
        RagenError: A game, a setting, or a level does not exist; the message names the task.
    """

    def check(name: str) -> None:
        _check_task(suite.tasks[name])
        try:
            make_env(task_spec(suite, name, suite.episodes - 1)).close()
        except InstanceError as error:
            make_env(task_spec(suite, name, 0)).close()  # raises where no level has a number
            raise InstanceError(f"episodes is {suite.episodes}: {error}") from error

    check_tasks(suite, check)


def check_tasks(suite: Suite, make: Callable[[str], None]) -> None:
    """Make every task by its name; an error becomes a `RagenError` that names the task."""
    for name in suite.tasks:
        try:
            make(name)
        except RagenError as error:
            raise RagenError(f"suite '{suite.name}', task '{name}': {error}") from error
        except TypeError as error:
            raise RagenError(
                f"suite '{suite.name}', task '{name}': a setting has a wrong type: {error}"
            ) from error


def task_spec(suite: Suite, name: str, index: int, attempt: int = 0) -> EpisodeSpec:
    """Return the episode of one level of a task; each attempt meets other slips of the ice."""
    task = suite.tasks[name]
    settings: dict[str, Any] = dict(task.settings)
    if own_level_count({"levels": settings.get("levels")}):
        levels = settings.pop("levels")
        if index >= len(levels):
            raise InstanceError(f"index is {index}, but levels has instances 0 to {len(levels) - 1}")
        settings["level"] = levels[index].split("/")
    split = task.split or suite.split
    return EpisodeSpec(name, task.env, index, split, attempt, attempt, settings)


def _check_task(task: Task) -> None:
    known = text_ids()  # those of installed packages are registered now
    if (game_of(task.env) or plain_id(task.env)) is None:
        raise RagenError(f"unknown game '{task.env}'; known are {', '.join(known)}{FOR_SEVERAL}")
    for setting in {"render_mode", "split"} & task.settings.keys():
        raise RagenError(f"unknown setting '{setting}': the suite itself sets it")
    make(task.env, **task.settings)  # refuses settings that the game does not have


def controls_of(tasks: Mapping[str, Task]) -> dict[str, str]:
    """Return the tasks whose games are controls of others, with the same prompts and the opposite answers.

    Each has the name of the game that it controls.
    """
    specs = {name: spec_of(task.env) for name, task in tasks.items()}
    return {name: spec.control_of for name, spec in specs.items() if spec and spec.control_of is not None}


def control_notes(tasks: Mapping[str, Task]) -> list[str]:
    """Return a note for each game that has controls among the tasks."""
    controls = controls_of(tasks)
    named = {
        game: [task for task, controlled in controls.items() if controlled == game]
        for game in dict.fromkeys(controls.values())
    }
    return [
        f"{' and '.join(names)}: the prompts are those of {game}, but the opposite answers are "
        "right; averages over games leave them out"
        for game, names in named.items()
    ]
