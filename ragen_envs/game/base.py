"""The base of every game: seeds, splits, levels, and the record of the level being played."""

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Final, Generic, SupportsInt, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ragen_envs.errors import GenerationError, InstanceError, RagenError, ResetNeededError
from ragen_envs.game.arguments import Level, Levels, read_choice, read_count, read_level
from ragen_envs.game.free_text import FreeText
from ragen_envs.game.grids import BoardText, oriented
from ragen_envs.game.oracle import ANY_LENGTH, Action, Advice, Budget, RandomBaseline, as_budget
from ragen_envs.game.text import GRID, OwnText
from ragen_envs.levels import seeding
from ragen_envs.levels.instances import has_pack, load_pack
from ragen_envs.levels.keys import hashed
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN, read_split, split_of
from ragen_envs.pictures.png import encode_png
from ragen_envs.pictures.tiles import TileSet

__all__ = ["GameEnv", "Instance", "read_action"]

ObsT = TypeVar("ObsT")
MAX_STATE_CHARACTERS: Final = 1 << 17
"""Length of the longest observation that is a text."""
MAX_DRAWS: Final = 10_000
"""Levels that are drawn to find one of a split."""
_OPTIONS: Final = ("split", "index", "noise")


@dataclass(frozen=True)
class Instance:
    """The current level and its origin.

    It is sufficient to replay an episode that began with a seeded reset or on a frozen instance. After an
    unseeded reset it holds the level, but not the random numbers of the game, such as slips on ice.
    """

    distribution: str
    """Name of the level distribution, which is also the name of its frozen packs."""
    split: str
    """The split that the env was asked for. A fixed level need not be of it: its key decides, or the names of
    a bandit's arms."""
    index: int | None
    """Number of the level in its split, or None for a level drawn from a seed."""
    seed: int | None
    """Seed of the last seeded reset, or None for a level by index or an unseeded episode."""
    noise: int
    """Number of the independent noise draw; with equal seed or index, equal ones give equal episodes."""
    level: str
    """The level in its canonical text form."""
    key: str
    """Hexadecimal key of the level, equal for levels equal up to symmetry."""


class GameEnv(gym.Env[ObsT, Any], ABC, Generic[ObsT]):
    """Base of the games.

    ``reset(seed=s)`` starts an endless sequence of fresh levels of the env's split; ``reset()``
    continues it. ``reset(options={"index": 7})`` loads the level of that number: the frozen one, or, where
    the level distribution has no pack, one that is drawn by its number. With the option ``noise`` (an
    integer >= 0, 0 by default) the same level is played under another independent draw of the game's
    randomness. With an index, a seed changes nothing but ``np_random``.

    The split is the one that the constructor was given, until ``reset(options={"split": "test"})``
    selects another one. Every later reset, seeded or not, then stays in that split.

    A game of your own defines these parts; ``docs/examples/corridor.py`` is one:

    - ``rules``: the goal, the rules and the rewards in words;
    - ``action_names``: the names of the actions, in the order of their numbers;
    - ``draw_level(rng)``: a random level, as text;
    - ``start(level)``: sets the state to a level;
    - ``play(action)``: changes the state; returns the reward, whether the game has ended, and whether the
      state has changed;
    - ``success``: whether the goal is reached;
    - ``observe()``: the state as text, or, with an ``observation_space`` and a text face, as numbers;
    - ``solution()``: the shortest actions to success; or, for a game with chance, ``oracle(budget)``.

    The other methods have defaults: ``level_key`` where several levels are the same up to symmetry,
    ``info`` for more than success, ``picture``, and the text face ``text`` for several forms of the state.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    rules: str
    """The goal, the rules and the rewards in a few sentences."""
    action_names: tuple[str, ...] = ()
    """Names of the actions, in the order of their numbers."""
    text: ClassVar[OwnText] = OwnText()
    """The text face; the default says ``rules``, ``action_names`` and what ``observe`` returns."""
    tile_set: ClassVar[TileSet | None] = None
    """The pictures of the cells that the text face names, of a game on a board."""
    distribution: str
    """Name of the level distribution. Settings that change the levels belong into it."""
    deterministic: ClassVar[bool] = False
    """Whether success depends on the actions alone, so that ``turn_value`` can play them on a copy."""
    has_packs: ClassVar[bool] = False
    """Whether the suite freezes levels of this game; a distribution without a pack is drawn by the index."""
    rng: Rng
    """The random numbers of the present episode, for chance in ``play``."""
    split: str = TRAIN
    """Split that the next level is of, unless ``reset`` is asked for another one."""

    orientation: int = 0
    """Rotation or reflection that is applied to each level of a game on grids; see `oriented`."""
    own_levels: tuple[str, ...] = ()
    """The levels that the constructor was given, in text form, which resets play; () if levels are drawn."""
    _level: str
    _over: bool = True
    """Whether no episode is running."""
    _origin: tuple[str, int | None, int | None, int] | None = None
    """Split, index, seed and noise of the episode; None before the first reset."""

    def __init__(
        self,
        split: str = TRAIN,
        render_mode: str | None = None,
        level: Level | None = None,
        levels: Levels | None = None,
    ) -> None:
        """Check the arguments that every game has.

        Args:
            split: Split of the levels, until a reset asks for another.
            render_mode: One of those in ``metadata``, or None.
            level: A level that every reset plays: a list of rows, or a text, such as ``instance.level``.
            levels: Several such levels, or a file of them; resets draw one, or take the one of an index.

        Raises:
            RagenError: There is no such split or file, the game does not have the render mode, or a level is
                neither rows nor a text.
        """
        self.split = read_split(split)
        if level is not None and levels is not None:
            raise RagenError("level is one level and levels are several; give one of the arguments")
        self.own_levels = self.level_texts(levels) if level is None else (read_level("level", level),)
        modes = (None, *self.metadata["render_modes"])
        self.render_mode = read_choice("render_mode", render_mode, modes)
        if not hasattr(type(self), "distribution"):
            self.distribution = type(self).__name__
        self.observation_space: spaces.Space[Any] = FreeText(MAX_STATE_CHARACTERS)
        if self.action_names:
            self.action_space: spaces.Space[Any] = spaces.Discrete(len(self.action_names))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, dict[str, Any]]:
        """Start an episode; see the class for ``options``.

        Raises:
            InstanceError: An option is unknown, or names a split or an instance that does not exist.
            GenerationError: No level of the split is found.
            RagenError: The option ``index`` or ``noise`` is no integer >= 0.
            gymnasium.error.Error: The seed is no integer of Python, or below 0.
        """
        if seed is not None:  # without one, it does nothing
            super().reset(seed=seed)
        split, index, noise = self._read_options(options) if options else (self.split, None, 0)
        if index is not None:
            self._reset_numbered(split, index, noise)
        else:
            self._reset_fresh(split, seed, noise)
        if self.orientation:
            self._load(oriented(self.level, self.orientation))
        self.split = split
        self._over = False
        return self.observe(), self.info(effective=False)

    def _read_options(self, given: dict[str, Any]) -> tuple[str, int | None, int]:
        for name in given:
            if name not in _OPTIONS:
                raise InstanceError(f"unknown reset option '{name}'; known are {', '.join(_OPTIONS)}")
        split = read_split(given.get("split", self.split))
        noise = read_count("noise", given.get("noise", 0), 0)
        index = given.get("index")
        return split, None if index is None else read_count("index", index, 0), noise

    def _reset_numbered(self, split: str, index: int, noise: int) -> None:
        level = self.numbered_level(split, index)
        self._origin = (split, index, None, noise)
        if level is not None:
            self.rng = Rng(seeding.new_stream(split, self.distribution, index, noise))
            self._load(level)
            return
        self.rng = Rng(seeding.new_stream(split, f"level {self.distribution}", index))
        self._start_drawn(split)
        self.rng.stream = seeding.jump(self.rng.stream, noise)

    def numbered_level(self, split: str, index: int) -> str | None:
        """Return the level of a number, one's own or a frozen one; None if it must be drawn.

        A single level of one's own has every number.

        Raises:
            InstanceError: There are fewer levels.
        """
        if len(self.own_levels) == 1:
            return self.own_levels[0]
        levels: Sequence[Any] = self.own_levels
        if not levels and self.has_packs and has_pack(self.distribution, split):
            levels = load_pack(self.distribution, split)
        if not levels:
            return None
        if index >= len(levels):
            subject = "levels has" if self.own_levels else f"split '{split}' of '{self.distribution}' has"
            raise InstanceError(f"index is {index}, but {subject} instances 0 to {len(levels) - 1}")
        chosen = levels[index]
        return chosen if isinstance(chosen, str) else str(chosen.level)

    def _reset_fresh(self, split: str, seed: int | None, noise: int) -> None:
        if seed is None and self._origin is None:
            seed = int(self.np_random.integers(2**31))
        self._origin = (split, None, seed, noise)
        if seed is not None:
            self.rng = Rng(seeding.new_stream(split, self.distribution, seed))
        self._start_fresh(split)
        if noise:
            self.rng.stream = seeding.jump(self.rng.stream, noise)

    def _start_fresh(self, split: str) -> None:
        """Start one of the levels that the constructor was given, or a fresh one of a split.

        Raises:
            GenerationError: None of ``MAX_DRAWS`` levels belongs to the split.
        """
        if levels := self.own_levels:
            self._load(levels[0] if len(levels) == 1 else self.rng.choice(levels))
        else:
            self._start_drawn(split)

    def _start_drawn(self, split: str) -> None:
        """Draw levels until one belongs to the split, and start it.

        A game whose generator asks for the split itself overrides this.
        """
        for _ in range(MAX_DRAWS):
            level = self.draw_level(self.rng)
            if split_of(self.key(level)) == split:
                return self._load(level)
        raise GenerationError(
            f"none of {MAX_DRAWS} generated levels belongs to the split '{split}'; the levels have too "
            "few different keys"
        )

    def _load(self, level: str) -> None:
        self._level = level
        self.start(level)

    def step(self, action: Any) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """Play one action; see the class.

        Raises:
            RagenError: The game has no such action.
            ResetNeededError: The episode has not begun or has ended.
        """
        reward, terminated, effective = self.act(action)
        return self.observe(), reward, terminated, False, self.info(effective)

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Play one action by the rules, without computing observation and info.

        Returns:
            The reward, whether the game has ended, whether the action changed the state.

        Raises:
            RagenError: The game has no such action.
            ResetNeededError: The episode has not begun or has ended.
        """
        if self._over:
            raise self._reset_needed()
        number = read_action(action, self.text.actions(self))
        reward, self._over, effective = self.play(number)
        return reward, self._over, effective

    def _reset_needed(self) -> ResetNeededError:
        """Return the error of an action where no episode is running."""
        if self._origin is None:
            return ResetNeededError("call reset() before the first action")
        return ResetNeededError("the episode has ended; call reset() before the next action")

    def render(self) -> Any:
        """Return the state as text or as an RGB array (h, w, 3), as the render mode asks.

        Raises:
            ResetNeededError: No episode has begun.
        """
        if self._origin is None:
            raise ResetNeededError("call reset() before render()")
        return self._frame()

    def _frame(self) -> Any:
        if self.render_mode == "ansi":
            face = self.text
            return face.observation(self, GRID, face.vocabularies["standard"])
        return self.picture() if self.render_mode == "rgb_array" else None

    def _repr_png_(self) -> bytes | None:
        """Return the present state as a PNG file, which notebooks show; None for a game without pictures."""
        tiles = self.tile_set is not None and isinstance(self.text, BoardText)
        drawn = tiles or type(self).picture is not GameEnv.picture
        if self._origin is None or not drawn:
            return None
        return encode_png(self.picture())

    @classmethod
    def read_levels(cls, path: str | PathLike[str]) -> tuple[str, ...]:
        """Return the levels of a file in text form, in its order.

        Raises:
            InstanceError: A level is wrong, or the file cannot be read.
        """
        raise InstanceError(f"{cls.__name__} reads no level files, such as '{path}'")

    @classmethod
    def level_texts(cls, levels: Levels | None) -> tuple[str, ...]:
        """Return the argument ``levels`` in text form: the levels of a file or of a list.

        Raises:
            RagenError: It is neither, or the file is wrong.
        """
        if levels is None:
            return ()
        if isinstance(levels, str | PathLike):
            return cls.read_levels(levels)
        if not isinstance(levels, Sequence) or not levels:
            raise RagenError(f"levels is {levels!r:.80}, but must be a file or a list of levels")
        return tuple(read_level(f"levels[{i}]", level) for i, level in enumerate(levels))

    @property
    def instance(self) -> Instance:
        """The level being played and where it comes from.

        Raises:
            ResetNeededError: No episode has begun.
        """
        if self._origin is None:
            raise ResetNeededError("call reset() before reading the instance")
        split, index, seed, noise = self._origin
        level = self.level
        key = f"{self.key(level):016x}"
        return Instance(self.distribution, split, index, seed, noise, level, key)

    @property
    def level(self) -> str:
        """The initial level of this episode in text form."""
        return self._level

    def draw_level(self, rng: Rng) -> str:
        """Return a random level in text form, of any split."""
        raise NotImplementedError

    @abstractmethod
    def start(self, level: str) -> None:
        """Set the state to a level in text form.

        Raises:
            InstanceError: The text is not a level of this game.
        """

    def level_key(self, level: str) -> str | bytes | int:
        """Return a key that a level shares with all levels that are equivalent to it, such as rotations.

        Levels with the same one are always in the same split. By default, it is the level itself.
        """
        return level

    def key(self, level: str) -> int:
        """Return the key of a level, in [0, 2^63): a hash of ``level_key``.

        A game whose compiled generator computes keys overrides this, and returns what that computes.
        """
        return hashed(self.level_key(level))

    def play(self, action: Any) -> tuple[float, bool, bool]:
        """Change the state by an action that the game has, while an episode runs.

        Returns:
            The reward, whether the game has ended, whether the action changed the state.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def success(self) -> bool:
        """Whether the goal is reached."""

    @abstractmethod
    def observe(self) -> ObsT:
        """Return the observation of the present state as a fresh object."""

    def info(self, effective: bool) -> dict[str, Any]:
        """Return the info of the present state.

        Args:
            effective: Whether the last action changed the state; False after reset.
        """
        return {"success": self.success, "action_is_valid": True, "action_is_effective": effective}

    def picture(self) -> Any:
        """Return the present state as a fresh RGB array: by default, of its board in the game's tiles."""
        face = self.text
        if self.tile_set is None or not isinstance(face, BoardText):
            raise RagenError(f"{type(self).__name__} has no pictures; its render mode is ansi")
        cells, width = face.cells(self)
        return self.tile_set.render(np.frombuffer(cells, np.uint8).reshape(-1, width))

    def solution(self) -> Sequence[Action] | None:
        """Return a shortest sequence of actions from here to success, or None if there is none.

        It is called while an episode runs. Games whose success depends on chance have an ``oracle`` instead.
        """
        raise NotImplementedError

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the exact optimum from here, and leave the game as it is; called while an episode runs.

        By default it follows ``solution``, also where that does not fit the budget.

        Args:
            budget: What is left to the agent; an integer is a number of single, observed steps;
                None is 100 of them.
        """
        limits, plan = as_budget(budget), self.solution()
        if plan is None:
            return Advice((), 0.0, 0.0)
        game = copy.deepcopy(self)
        rewards = [game.play(action)[0] for action in plan[: limits.reach]]
        fits = float(len(plan) <= limits.reach)
        return Advice(tuple(plan[: limits.this_turn]), fits, float(sum(rewards)))

    def measures(self) -> dict[str, float]:
        """Return exact numbers of the level by name; called at the start of an episode.

        ``solution_length`` is the number of actions of a shortest solution, of a level that has one. A game
        adds what else grows with its levels.

        Raises:
            SolverLimitError: The oracle reached its limit.
        """
        if not self.deterministic:
            return {}
        advice = self.oracle(Budget(ANY_LENGTH, 1, ANY_LENGTH))
        return {"solution_length": len(advice.actions)} if advice.value == 1 else {}

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline | None:  # noqa: ARG002
        """Return the exact success probability and expected return of uniformly random actions.

        The agent is the random policy: in each turn it plays as many actions as the limits allow, each
        uniform and independent of the others. So ``budget.reach`` actions are played unless the
        game ends earlier, and it does not matter how they are divided into turns.

        Args:
            budget: As for ``oracle``.

        Returns:
            The baseline, or None if it is not available: the game does not compute it, or it has too
            many states within reach.
        """
        return None

    def turn_value(self, actions: Sequence[Any], budget: Budget) -> float | None:
        """Return the value of a turn that plays some actions, before chance events are known.

        That is the largest probability of success that any agent can still have after the turn, in
        expectation over chance events within it. For the oracle's actions it is the oracle's value.

        Args:
            actions: Played in order until the game ends, without observing in between; may be empty.
            budget: Remaining actions and turns before the turn.

        Returns:
            The value in [0, 1], or None if the game is not ``deterministic`` and does not compute it.

        Raises:
            SolverLimitError: The oracle reached its limit.
        """
        if not self.deterministic:
            return None
        game = copy.deepcopy(self)
        for action in actions:
            if game.act(action)[1]:
                return float(game.success)
        rest = Budget(budget.actions - len(actions), budget.turns - 1, budget.actions_per_turn)
        return game.oracle(rest).value

    def max_return(self, budget: Budget | int | None = None) -> float:
        """Return the largest expected sum of rewards of agents that play an action or more in every turn.

        It is that of the oracle, unless maximising rewards differs from maximising success: such a
        game overrides this method.

        Args:
            budget: As for ``oracle``.
        """
        return self.oracle(budget).expected_return


def read_action(action: SupportsInt, names: Sequence[str], what: str = "action") -> int:
    """Return the action's number, or raise `RagenError` if the game has no such action."""
    if type(action) is int and 0 <= action < len(names):
        return action
    try:
        number = operator.index(action)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < len(names):
        choices = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
        raise RagenError(f"{what} is {action!r}, but must be one of {choices}")
    return number
