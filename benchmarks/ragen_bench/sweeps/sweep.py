"""A sweep of fixed models as a YAML file: axes of points, each of which becomes a task of a suite."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from pydantic import Field, JsonValue, model_validator

from ragen_bench.config.bundled import load_named
from ragen_bench.config.game_names import short_names, text_id_of
from ragen_bench.config.suites import Name, SamplingSettings, Split, StrictModel, Suite, Task, at_least_one
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.game.base import GameEnv
from ragen_envs.levels.instances import has_pack, load_pack
from ragen_envs.levels.splits import TEST
from ragen_envs.registration import text_ids

STANDARD: Final = "standard"
_MOST_DRAWS: Final = 100
"""Levels drawn at most for each one that no pack holds."""


class Point(StrictModel):
    """Games at one point of an axis."""

    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Settings of the conversation or the game, over those of its id."""
    games: dict[Name, dict[str, JsonValue]] = Field(default_factory=dict)
    """Further settings by game; the point is then left out for games that are not named."""
    split: Split = TEST
    """Split of the frozen levels."""
    drawn: bool = False
    """Play levels of the split that are drawn now and are not frozen, instead of frozen ones."""


class Axis(StrictModel):
    """Points that differ in one thing."""

    label: str
    """Property in which the points differ."""
    points: dict[Name, Point] = Field(min_length=1)
    reference: Name | None = None
    """The point that others are compared with; None for the standard of the sweep."""
    twins: bool = False
    """Whether all points are the same levels in another form, so that only the agent can tell them apart."""


class Place(NamedTuple):
    """A point of a game, as a task of the suite."""

    game: str
    axis: str
    point: str
    task: str
    reference: str
    """Task of the point with which this one is compared; its own for the reference."""
    reference_point: str


class Sweep(StrictModel):
    """Games of a sweep, and their axes."""

    name: Name
    version: int = Field(ge=1)
    """Raised with any change, because results of different versions are not comparable."""
    description: str
    """One sentence."""
    games: list[Name] = Field(min_length=1)
    """Games that are played by default."""
    episodes: int = Field(default=64, ge=1)
    """Levels at each point."""
    attempts: int = Field(default=1, ge=1, le=1024)
    """Attempts at each level."""
    sampling: SamplingSettings = SamplingSettings()
    standard: Point | None = None
    """The reference of all axes that do not have one of their own."""
    axes: dict[Name, Axis] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Sweep":
        for name, axis in self.axes.items():
            if axis.reference is None and self.standard is None:
                raise ValueError(f"axis '{name}' has no reference, and the sweep no standard")
            if axis.reference is not None and axis.reference not in axis.points:
                raise ValueError(f"axis '{name}': reference '{axis.reference}' is none of its points")
        return self

    @cached_property
    def varied(self) -> frozenset[str]:
        """Names of the settings that points set."""
        points = [point for axis in self.axes.values() for point in axis.points.values()]
        given = [each for point in points for each in (point.settings, *point.games.values())]
        return frozenset(name for settings in given for name in settings)

    @property
    def draws_levels(self) -> bool:
        """Whether there are points on levels that are drawn now."""
        points = [point for axis in self.axes.values() for point in axis.points.values()]
        return any(point.drawn for point in (*points, *([self.standard] if self.standard else [])))

    def places(self, tasks: Sequence[str]) -> list[Place]:
        """Return the points of all axes that are among the tasks of a suite, references first."""
        games = dict.fromkeys(task.partition(".")[0] for task in tasks)
        listed = []
        for game in games:
            for name, axis in self.axes.items():
                own = [(point, f"{game}.{name}.{point}") for point in axis.points]
                if axis.reference is None:
                    own.insert(0, (STANDARD, f"{game}.{STANDARD}"))
                first = axis.reference or STANDARD
                reference = dict(own)[first]
                listed += [
                    Place(game, name, point, task, reference, first) for point, task in own if task in tasks
                ]
        return listed

    def suite(self, games: Sequence[str], episodes: int | None, level_seed: int) -> Suite:
        """Return the suite whose tasks are all points.

        Without games or episodes, it has those of the sweep. The seed is that of the levels that are drawn
        now.
        """
        count = self.episodes if episodes is None else at_least_one("episodes", episodes)
        known = {text_id: name for name, text_id in short_names(text_ids()).items()}
        tasks: dict[str, Task] = {}
        for env in map(text_id_of, games or self.games):
            game = known.get(env, env).replace("/", "-").replace(".", "-")
            points = {STANDARD: self.standard} if self.standard is not None else {}
            for name, axis in self.axes.items():
                points |= {f"{name}.{point}": each for point, each in axis.points.items()}
            for place, point in points.items():
                own = {text_id_of(name): changes for name, changes in point.games.items()}
                if not own or env in own:
                    settings = {**point.settings, **own.get(env, {})}
                    if point.drawn:
                        settings["levels"] = draw_levels(env, settings, point.split, count, level_seed)
                    split = None if point.split == TEST else point.split
                    tasks[f"{game}.{place}"] = Task(env=env, settings=settings, split=split)
        return Suite(
            name=self.name, version=self.version, description=self.description, episodes=count,
            sampling=self.sampling, tasks=tasks,
        )  # fmt: skip


def draw_levels(env: str, settings: Mapping[str, Any], split: str, count: int, seed: int) -> list[JsonValue]:
    """Return levels that no pack holds, in text form, drawn in the order of the generator."""
    game = make(env, **settings).unwrapped
    if not isinstance(game, GameEnv) or not game.has_packs:
        raise RagenError(f"{env} has no frozen levels from which others could be told apart")
    packed = has_pack(game.distribution, split)
    frozen = {each.level for each in load_pack(game.distribution, split)} if packed else set()
    levels: dict[str, None] = {}
    game.reset(seed=seed, options={"split": split})
    for _ in range(_MOST_DRAWS * count):
        if game.level not in frozen:
            levels[game.level] = None
        if len(levels) == count:
            return list(levels)
        game.reset()
    raise RagenError(f"{env} has fewer than {count} levels that are not frozen; use --episodes")


def load_sweep(sweep: str) -> Sweep:
    """Load a sweep by its name or from a YAML file."""
    return load_named(Sweep, "sweeps", "sweep", sweep)
