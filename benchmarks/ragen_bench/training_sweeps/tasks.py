"""Plan the tasks of a sweep: one for each game, cell and seed, and one for the controls of each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ragen_agents.policies import CONTROLS, VLLM
from ragen_agents.run_files.yaml_files import validate
from ragen_agents.sft import SftConfig
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.config import resources_of
from ragen_bench.config.own_levels import own_level_count, with_level_texts
from ragen_bench.config.suites import SamplingSettings, Suite, Task
from ragen_bench.training.train_settings import layered_config
from ragen_bench.training_sweeps.sweep_config import Cell, ScaleName, Sweep, core_tasks
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError

INITIAL: Final = "initial"
"""Name in tables of the model before training."""
POLICY: Final = "policy"
"""And the one after it."""
CONTROLS_ROW: Final = "controls"
"""Name of the row of the controls in the table of costs."""

_LEVELS: Final = 256
_QUICK_LEVELS: Final = 64
_SCALES: Final[dict[ScaleName, dict[str, Any]]] = {
    # As many trajectories and optimizer steps as the paper, with the rates of the small models' recipes.
    "laptop": {
        "rollout": {"prompts_per_iteration": 8, "group_size": 16, "max_tokens": 48},
        "update": {"mini_batch_size": 32, "learning_rate": 5e-4, "critic_learning_rate": 1.7e-3},
        "evaluation": {"every": 10, "episodes": 256},
        # What the results that are kept were made with. No cell reads turn_gamma, and only warnings window.
        "advantage": {"turn_gamma": 1.0},
        "monitor": {"window": 10, "information_every": 0},
    },
    "paper": {"engine": "vllm", "evaluation": {"every": 10, "episodes": 256}},
}
_CONVERSATIONS: Final[dict[ScaleName, dict[str, Any]]] = {"laptop": {"think": False}, "paper": {}}
_MODELS: Final[dict[ScaleName, dict[str, str]]] = {
    "laptop": {
        "FrozenLake": "small-ice",
        "FrozenLakeDeterministic": "small-lake",
        "Sokoban": "small-sokoban",
    },
    "paper": {},
}


class SweepTask(BaseModel):
    """Everything that decides what a task does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    """Version of the folder's layout."""
    suite_version: int = SUITE_VERSION
    sweep: str
    version: int
    """Version of the sweep."""
    scale: str
    """Name of the scale, with "-quick" after it for a quick look."""
    game: str
    """Game of training: a task of the suite ``core``."""
    cell: str
    seed: int | None
    """None for the controls, which are played once for all seeds."""
    train: TrainConfig
    """Training config; for controls, which do not train, that of the first seed."""
    supervised: SftConfig | None = None
    """The supervised run that takes the place of training."""
    suite: Suite
    """The tests."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that decide its result, as plain data: all but what affects memory and speed only."""
        return self.model_dump(mode="json", exclude={"train": resources_of(self.train)})

    @property
    def iterations(self) -> int:
        """Number of iterations that it trains."""
        return 0 if self.seed is None or self.supervised is not None else self.train.iterations

    @property
    def steps(self) -> int:
        """Number of parts of about equal length of its training: iterations, or one supervised run."""
        return 1 if self.supervised is not None else self.iterations

    @property
    def path(self) -> Path:
        """Folder, below that of all sweeps."""
        last = "controls" if self.seed is None else f"seed{self.seed}"
        return Path(self.sweep, self.scale, self.game, self.cell, last)

    @property
    def agents(self) -> dict[str, str]:
        """The agents that the controls consist of, by what tables call them."""
        prefix = VLLM if self.train.engine == "vllm" else ""
        controls = {name: name for name in CONTROLS if name != "noop"}
        return {**controls, INITIAL: prefix + self.train.model}


@dataclass(frozen=True)
class Choice:
    """Part of a sweep to run, and its size."""

    scale: ScaleName = "laptop"
    quick: bool = False
    seeds: int = 6
    games: tuple[str, ...] = ()
    """Empty for those of the scale."""
    model: str | None = None
    """Instead of the scale's: "starter", "smollm2", a model folder, a GGUF file, or "hf:NAME"."""

    @property
    def name(self) -> str:
        """Part of paths and of the names of results."""
        return f"{self.scale}-quick" if self.quick else self.scale

    @property
    def levels(self) -> int:
        """Number of test levels of each game."""
        return _QUICK_LEVELS if self.quick else _LEVELS


def plan(sweep: Sweep, choice: Choice) -> list[SweepTask]:
    """Return all tasks: the controls, then the first seed of every cell, then the second."""
    if choice.scale not in sweep.scales:
        raise RagenError(
            f"sweep '{sweep.name}' has no scale '{choice.scale}', only {', '.join(sweep.scales)}"
        )
    games = _games(sweep, choice)
    cells = sweep.scales[choice.scale].cells or list(sweep.cells)
    shared = dict.fromkeys(controls_cell(sweep, cell) for cell in cells)
    first = {
        (game, cell): _first_task(sweep, choice, game, cell)
        for game in games
        for cell in dict.fromkeys([*shared, *cells])
    }
    controls = [
        first[game, cell].model_copy(update={"seed": None, "supervised": None})
        for game in games
        for cell in shared
    ]
    return controls + [
        _with_seed(first[game, cell], seed)
        for seed in range(choice.seeds)
        for game in games
        for cell in cells
    ]


def controls_cell(sweep: Sweep, cell: str) -> str:
    """Return the first cell with the same conversation settings, whose controls it shares."""
    settings = sweep.cells[cell].settings
    return next(name for name, other in sweep.cells.items() if other.settings == settings)


def _games(sweep: Sweep, choice: Choice) -> list[str]:
    scale = sweep.scales[choice.scale]
    if not choice.games:
        return scale.games or list(sweep.games)
    known = core_tasks()
    squeezed = {name.lower(): name for name in known}
    for game in choice.games:
        if game.lower() not in squeezed:
            raise RagenError(
                f"unknown game '{game}'; known are {', '.join(known)}. On others, use ragen train"
            )
    return list(dict.fromkeys(squeezed[game.lower()] for game in choice.games))


def _first_task(sweep: Sweep, choice: Choice, game: str, name: str) -> SweepTask:
    cell = sweep.cells[name]
    try:
        train = _train(sweep, choice, game, cell)
        suite = _suite(sweep, choice, game, cell, train)
        for env in dict.fromkeys([train.game, *(test.env for test in suite.tasks.values())]):
            make(env, **train.env_kwargs)  # refuses wrong ones
        supervised = None
        if cell.supervised is not None:
            given = {
                "game": train.game, "model": train.model, "seed": train.seed,
                "env_kwargs": train.env_kwargs, **sweep.scales[choice.scale].supervised, **cell.supervised,
            }  # fmt: skip
            supervised = validate(SftConfig, given, "supervised")
    except RagenError as error:
        raise RagenError(f"sweep '{sweep.name}', cell '{name}': {error}") from error
    return SweepTask(
        sweep=sweep.name, version=sweep.version, scale=choice.name, game=game, cell=name, seed=train.seed,
        train=train, supervised=supervised, suite=suite,
    )  # fmt: skip


def _with_seed(first: SweepTask, seed: int) -> SweepTask:
    """Return a task with another seed, without checking again what all seeds share."""
    update = {"seed": seed}
    supervised = first.supervised
    return first.model_copy(
        update={
            "seed": seed,
            "train": first.train.model_copy(update=update),
            "supervised": None if supervised is None else supervised.model_copy(update=update),
            "suite": first.suite.model_copy(update=update),
        }
    )


def _train(sweep: Sweep, choice: Choice, game: str, cell: Cell) -> TrainConfig:
    scale = sweep.scales[choice.scale]
    iterations = max(1, (scale.quick if choice.quick else scale.iterations) // cell.iterations_divisor)
    size = _SCALES[choice.scale]
    if choice.quick:
        size = merged(size, {"evaluation": {"every": iterations, "episodes": 32}})
    base = merged(SCALES[choice.scale], PRESETS[cell.preset or sweep.preset], size, scale.train)
    derived = _derived(validate(TrainConfig, base, "config"), cell)
    model = choice.model or {**_MODELS[choice.scale], **scale.models}.get(game)
    own = {
        "game": core_tasks()[game].env,
        "env_kwargs": conversation_settings(sweep, choice.scale, cell),
        "seed": 0,
        "iterations": iterations,
        **({"model": model} if model else {}),
    }
    return layered_config(base, derived, sweep.train, cell.train, own)


def conversation_settings(sweep: Sweep, scale: ScaleName, cell: Cell) -> dict[str, Any]:
    """Return the conversation settings of a cell at a scale, in training and in the tests."""
    return {**_CONVERSATIONS[scale], **sweep.scales[scale].settings, **cell.settings}


def _derived(base: TrainConfig, cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell that depend on those of its scale."""
    names = ("learning_rate", "critic_learning_rate")
    rates = {name: cell.learning_rate_factor * getattr(base.update, name) for name in names}
    if cell.group_size is None:
        return {"update": rates}
    if base.episodes % cell.group_size:
        raise RagenError(
            f"group_size is {cell.group_size}, but must divide the {base.episodes} trajectories of an "
            "iteration"
        )
    shape = {"prompts_per_iteration": base.episodes // cell.group_size, "group_size": cell.group_size}
    return {"update": rates, "rollout": shape}


def _suite(sweep: Sweep, choice: Choice, game: str, cell: Cell, train: TrainConfig) -> Suite:
    settings = conversation_settings(sweep, choice.scale, cell)
    envs = {name: core_tasks()[name].env for name in sweep.games.get(game, [game])}
    tasks = {name: Task(env=env, settings=with_level_texts(env, settings)) for name, env in envs.items()}
    own = [own_level_count(task.settings) for task in tasks.values() if "levels" in task.settings]
    return Suite(
        name=sweep.name,
        version=sweep.version,
        episodes=min([choice.levels, *own]),
        seed=train.seed,
        sampling=SamplingSettings(max_tokens=train.rollout.max_tokens),
        tasks=tasks,
    )


def cells_of(tasks: list[SweepTask]) -> dict[tuple[str, str], list[SweepTask]]:
    """Return the tasks of each game and cell, in their order, and those of the controls of each game."""
    groups: dict[tuple[str, str], list[SweepTask]] = {}
    for task in tasks:
        cell = CONTROLS_ROW if task.seed is None else task.cell
        groups.setdefault((task.game, cell), []).append(task)
    return groups
