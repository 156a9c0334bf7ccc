"""A sweep of training as a YAML file: the cells, what they train on, what they are tested on."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, model_validator

from ragen_agents.starpo import PRESETS
from ragen_bench.config.bundled import bundled_names, load_named
from ragen_bench.config.suites import Name, StrictModel, Task, load_suite

ScaleName = Literal["laptop", "paper"]

_SET_ELSEWHERE: Final = {
    "game": "games of the sweep",
    "env_kwargs": "settings of the cell",
    "iterations": "iterations of the scale, or iterations_divisor of the cell",
    "seed": "--seeds",
}
"""Fields of the training config that a sweep sets itself, and from what."""


class Cell(StrictModel):
    """One setting that is compared with the others."""

    design: Literal["as published", "controlled"] = "as published"
    """Whether this is how the paper did it, or how the question can be answered."""
    against: Name | None = None
    """The cell that this one is tested against; None for the sweep's reference."""
    preset: str | None = None
    """Key of the trainer's presets, instead of the sweep's."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Conversation settings, in training and in the tests."""
    train: dict[str, Any] = Field(default_factory=dict)
    """Fields of the training config, without those that the sweep sets: game, env_kwargs, iterations, seed,
    model."""
    group_size: int | None = Field(default=None, ge=1)
    """Episodes from each initial state, instead of the scale's; it divides the trajectories of an iteration,
    which stay as many, so there are more or fewer states."""
    iterations_divisor: int = Field(default=1, ge=1)
    """Iterations are divided by this, for cells that update more often in each."""
    learning_rate_factor: float = Field(default=1.0, gt=0)
    """Learning rates are multiplied by this, whatever the scale's are."""
    supervised: dict[str, Any] | None = None
    """Fields of a supervised run, which then takes the place of training with StarPO and its fields."""


class ScaleSettings(StrictModel):
    """Size of a sweep at a scale."""

    iterations: int = Field(ge=1)
    quick: int = Field(ge=1)
    """Iterations of the quick look."""
    models: dict[Name, str] = Field(default_factory=dict)
    """Initial models by game, instead of the scale's."""
    train: dict[str, Any] = Field(default_factory=dict)
    """Fields of the training config, which those of the sweep and the cells override."""
    supervised: dict[str, Any] = Field(default_factory=dict)
    """Fields of supervised runs, which those of the cells override."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Conversation settings, which those of the cells override."""
    games: list[Name] | None = None
    """The games that are trained on by default; None for all."""
    cells: list[Name] | None = None
    """The cells that are run, where all of them would take too long; None for all."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Measured seconds of an iteration on one thread, by game, or by "GAME/CELL" where a cell takes
    longer; of a whole supervised run for such a cell. What is missing was not measured."""


class Sweep(StrictModel):
    """Cells that differ in one thing."""

    name: Name
    version: int = Field(ge=1)
    """Raised with any change, because results of different versions are not comparable."""
    description: str
    """One sentence."""
    preset: str
    """Key of the trainer's presets."""
    train: dict[str, Any] = Field(default_factory=dict)
    """Fields of the training config that all cells have."""
    games: dict[Name, list[Name]] = Field(min_length=1)
    """Games of training, each with the tasks of the suite ``core`` on which the result is tested."""
    reference: Name
    """The cell that others are tested against."""
    cells: dict[Name, Cell] = Field(min_length=1)
    scales: dict[ScaleName, ScaleSettings]
    replaced: dict[str, int] = Field(default_factory=dict)
    """Number of verdicts on claims about a cell, by "GAME/CELL", that were given on runs since replaced.

    A time at which seeds were added before counts as one more.
    """

    @model_validator(mode="after")
    def _check(self) -> "Sweep":
        tasks = core_tasks()
        tests = [test for tests in self.games.values() for test in tests]
        default = [game for scale in self.scales.values() for game in scale.games or []]
        for game in [*self.games, *tests, *default]:
            if game not in tasks:
                raise ValueError(f"unknown game '{game}'; known are {', '.join(tasks)}")
        chosen = [cell for scale in self.scales.values() for cell in scale.cells or []]
        for cell in [self.reference, *chosen, *(c.against for c in self.cells.values() if c.against)]:
            if cell not in self.cells:
                raise ValueError(f"unknown cell '{cell}'; known are {', '.join(self.cells)}")
        for preset in [self.preset, *(c.preset for c in self.cells.values() if c.preset)]:
            if preset not in PRESETS:
                raise ValueError(f"unknown preset '{preset}'; known are {', '.join(PRESETS)}")
        _refuse(self.train, _SET_ELSEWHERE, "train")
        for size, scale in self.scales.items():
            _refuse(scale.train, _SET_ELSEWHERE, f"scale '{size}': train")
        for name, each in self.cells.items():
            _check_cell(name, each)
        return self

    def against(self, cell: str) -> str | None:
        """Return the cell that this one is tested against, or None if it is a reference itself."""
        other = self.cells[cell].against or self.reference
        return None if other == cell else other


def _check_cell(name: str, cell: Cell) -> None:
    # Cells share their controls, the initial model among them.
    _refuse(cell.train, {**_SET_ELSEWHERE, "model": "--model"}, f"cell '{name}': train")
    if cell.supervised is None:
        return
    own = {field: _SET_ELSEWHERE[field] for field in ("game", "seed")}
    _refuse(cell.supervised, own, f"cell '{name}': supervised")


def _refuse(given: Mapping[str, Any], elsewhere: Mapping[str, str], where: str) -> None:
    for field, instead in elsewhere.items():
        if field in given:
            raise ValueError(f"{where}.{field} is {given[field]!r:.80}, but the sweep sets it; use {instead}")


@lru_cache(maxsize=1)
def core_tasks() -> dict[str, Task]:
    """Return the games that can be trained on and tested: the tasks of the suite ``core``."""
    return load_suite("core").tasks


def bundled_sweeps() -> list[str]:
    """Return the names of the sweeps that come with the package."""
    return bundled_names("training_sweeps")


def load_sweep(sweep: str) -> Sweep:
    """Load a sweep by its name or from a YAML file."""
    return load_named(Sweep, "training_sweeps", "sweep", sweep)
