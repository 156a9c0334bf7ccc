"""What all single-player games share: seeding, splits, frozen instances, records of the instance."""

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, SupportsInt, TypeVar

import gymnasium as gym

from ragen_envs.game.arguments import read_render_mode
from ragen_envs.game.before_reset import after_reset, check_methods
from ragen_envs.game.errors import GenerationError, InstanceError, RagenError, ResetNeededError
from ragen_envs.game.oracle import Action, Advice, Budget, RandomBaseline
from ragen_envs.game.text import GRID, TextFace
from ragen_envs.levels import seeding
from ragen_envs.levels.keys import hashed
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import MAX_DRAWS, TRAIN, read_split, split_of

if TYPE_CHECKING:
    from ragen_envs.pictures.tiles import TileSet

__all__ = [
    "GameEnv",
    "Instance",
    "read_action",
    "read_integer",
]

ObsT = TypeVar("ObsT")
_OPTIONS = ("split", "index", "noise")


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
    """Index in the frozen pack, or None for a level drawn from a seed."""
    seed: int | None
    """Seed of the last seeded reset, or None for a frozen instance or an unseeded episode."""
    noise: int
    """Number of the independent noise draw; with equal seed or index, equal ones give equal episodes."""
    level: str
    """The level in its canonical text form."""
    key: str
    """Hexadecimal key of the level, equal for levels equal up to symmetry."""


class GameEnv(gym.Env[ObsT, Any], ABC, Generic[ObsT]):
    """Base of the games. A subclass adds the rules, a generator, an oracle and a text face.

    ``reset(seed=s)`` starts an endless sequence of fresh levels of the env's split; ``reset()``
    continues it. ``reset(options={"index": 7})`` loads a frozen instance of that split. With the
    option ``noise`` (an integer >= 0, 0 by default) the same level is played under another
    independent draw of the game's randomness. With an index, a seed changes nothing but ``np_random``.

    The split is the one that the constructor was given, until ``reset(options={"split": "test"})``
    selects another one. Every later reset, seeded or not, then stays in that split.
    """

    text: ClassVar[TextFace]
    """The text face: rules, legend, actions and observations in words."""
    numbered: ClassVar[bool] = False
    """Whether levels that no frozen pack holds are drawn by their index, for games without packs."""
    distribution: str
    """Name of the level distribution that this env's settings select."""
    split: str = TRAIN
    """Split that the next level is of, unless ``reset`` is asked for another one."""

    _fixed: str | None = None
    """The level that every reset plays instead of drawn ones, in text form; None for none."""
    _level: str
    _over: bool = True
    """Whether no episode is running."""
    _stream: int | None = None
    _origin: tuple[str, int | None, int | None, int] = (TRAIN, None, None, 0)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        check_methods(cls, "oracle", "random_baseline", "turn_value", "max_return")

    def __init__(self, split: str = TRAIN, render_mode: str | None = None) -> None:
        """Check the arguments that every game has.

        Raises:
            RagenError: There is no such split, or the game does not have the render mode.
        """
        self.split = read_split(split)
        self.render_mode = read_render_mode(render_mode, self.metadata["render_modes"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, dict[str, Any]]:
        """Start an episode; see the class for ``options``.

        Raises:
            InstanceError: An option is unknown, or names an instance that does not exist.
        """
        if seed is not None:  # without one, it does nothing
            super().reset(seed=seed)
        if options:
            split, index, noise = self._read_options(options)
        else:
            split, index, noise = self.split, None, 0
        if index is not None:
            self._reset_frozen(split, index, noise)
        else:
            self._reset_fresh(split, seed, noise)
        self.split = split
        self._over = False
        return self.observe(), self.info(effective=False)

    def _read_options(self, given: dict[str, Any]) -> tuple[str, int | None, int]:
        for name in given:
            if name not in _OPTIONS:
                raise InstanceError(
                    f"unknown reset option '{name}'; known are {', '.join(_OPTIONS)}"
                )
        split = read_split(given.get("split", self.split))
        noise = read_integer("noise", given.get("noise", 0))
        index = given.get("index")
        return split, None if index is None else read_integer("index", index), noise

    def _reset_frozen(self, split: str, index: int, noise: int) -> None:
        from ragen_envs.levels.instances import load_pack

        if self._fixed is not None:
            raise InstanceError("index cannot be combined with level, which fixes the level")
        if self.numbered:
            stream = seeding.new_stream(split, f"level {self.distribution}", index)
            self._stream = seeding.jump(self._start_fresh(stream, split), noise)
            self._origin = (split, index, None, noise)
            return
        pack = load_pack(self.distribution, split)
        if index >= len(pack):
            raise InstanceError(
                f"index is {index}, but split '{split}' of '{self.distribution}' has instances "
                f"0 to {len(pack) - 1}"
            )
        self._stream = seeding.new_stream(split, self.distribution, index, noise)
        self._load(pack[index].level)
        self._origin = (split, index, None, noise)

    def _reset_fresh(self, split: str, seed: int | None, noise: int) -> None:
        if seed is None and self._stream is None:
            seed = int(self.np_random.integers(2**31))
        if seed is not None:
            self._stream = seeding.new_stream(split, self.distribution, seed)
        assert self._stream is not None
        stream = self._start_fresh(self._stream, split)
        self._stream = seeding.jump(stream, noise) if noise else stream
        self._origin = (split, None, seed, noise)

    def _start_fresh(self, stream: int, split: str) -> int:
        """Start a fresh level of a split, or the fixed one, and return the advanced stream.

        A game whose generator knows the splits itself overrides this.
        """
        if self._fixed is not None:
            self._load(self._fixed)
            return stream
        rng = Rng(stream)
        for _ in range(MAX_DRAWS):
            level = self.draw_level(rng)
            if split_of(self.key(level)) == split:
                self._load(level)
                return rng.stream
        raise GenerationError(
            f"none of {MAX_DRAWS} generated levels belongs to the split '{split}'; a game needs levels "
            "with many different keys"
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
        if self._over:
            raise self._reset_needed()
        reward, terminated, effective = self.act(action)
        self._over = terminated
        return self.observe(), reward, terminated, False, self.info(effective)

    def render(self) -> Any:
        """Return the state as text or as an RGB array (h, w, 3), as the render mode asks.

        Raises:
            ResetNeededError: No episode has begun.
        """
        if self._stream is None:
            raise ResetNeededError("call reset() before render()")
        return self._frame()

    def _frame(self) -> Any:
        if self.render_mode == "ansi":
            face = self.text
            return face.observation(self, GRID, face.vocabularies["standard"])
        return self.picture() if self.render_mode == "rgb_array" else None

    @classmethod
    def tile_set(cls) -> "TileSet | None":
        """Return the pictures of the cells that the text face names, for a game on a board."""
        return None

    @property
    def fixed_key(self) -> str | None:
        """The key of the fixed level, or None if levels are drawn."""
        return None if self._fixed is None else f"{self.key(self._fixed):016x}"

    def without_fixed_level(self) -> Self:
        """Return a copy that draws its levels, even if this env has a fixed level."""
        drawing = copy.deepcopy(self)
        drawing._fixed = None
        return drawing

    @property
    @after_reset
    def instance(self) -> Instance:
        """The level being played and where it comes from.

        Raises:
            ResetNeededError: No episode has begun.
        """
        split, index, seed, noise = self._origin
        level = self.level
        key = f"{self.key(level):016x}"
        return Instance(self.distribution, split, index, seed, noise, level, key)

    @abstractmethod
    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Play one action by the rules, without computing observation and info.

        Returns:
            The reward, whether the game has ended, whether the action changed the state.

        Raises:
            RagenError: The game has no such action.
            ResetNeededError: The episode has not begun or has ended, where the game checks it here.
        """

    @abstractmethod
    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the exact optimum from here, and leave the game as it is; called while an episode runs.

        Args:
            budget: What is left to the agent; an integer is a number of single, observed steps;
                None is the game's usual time limit.

        Raises:
            ResetNeededError: No episode has begun.
        """

    def random_baseline(
        self,
        budget: Budget | int | None = None,  # noqa: ARG002
    ) -> RandomBaseline | None:
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

    def turn_value(
        self,
        actions: Sequence[Any],  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
    ) -> float | None:
        """Return the value of a turn that plays some actions, before chance events are known.

        That is the largest probability of success that any agent can still have after the turn, in
        expectation over chance events within it. For the oracle's actions it is the oracle's value.

        Args:
            actions: Played in order until the game ends, without observing in between; may be empty.
            budget: Remaining actions and turns before the turn.

        Returns:
            The value in [0, 1], or None if the game does not compute it.

        Raises:
            SolverLimitError: The oracle reached its limit.
        """
        return None

    def _value_without_chance(self, actions: Sequence[Action], budget: Budget) -> float:
        """Return ``turn_value`` of a game in which success does not depend on chance, by playing a copy."""
        game = copy.deepcopy(self)
        for action in actions:
            if game.act(action)[1]:
                return float(game.info(effective=True)["success"])
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
        """Return what a level shares with all levels that are equivalent to it, such as its rotations.

        Levels with the same one are always in the same split. By default, it is the level itself.
        """
        return level

    def key(self, level: str) -> int:
        """Return the key of a level, in [0, 2^63): a hash of ``level_key``.

        A game whose compiled generator computes keys overrides this, and returns what that computes.
        """
        return hashed(self.level_key(level))

    @property
    def level(self) -> str:
        """The initial level of this episode in text form."""
        return self._level

    @abstractmethod
    def observe(self) -> ObsT:
        """Return the observation of the present state as a fresh object."""

    @abstractmethod
    def info(self, effective: bool) -> dict[str, Any]:
        """Return the info of the present state."""

    def _reset_needed(self) -> ResetNeededError:
        """Return the error of an action where no episode is running."""
        if self._stream is None:
            return ResetNeededError("call reset() before the first action")
        return ResetNeededError("the episode has ended; call reset() before the next action")

    def picture(self) -> Any:
        """Return the present state as a fresh RGB array; games without pictures leave it out."""
        raise RagenError(f"{type(self).__name__} has no pictures; its render mode is ansi")


def read_action(action: SupportsInt, names: Sequence[str]) -> int:
    """Return the action's number, or raise `RagenError` if the game has no such action."""
    if type(action) is int and 0 <= action < len(names):
        return action
    try:
        number = operator.index(action)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < len(names):
        choices = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
        raise RagenError(f"action is {action!r}, but must be one of {choices}")
    return number


def read_integer(name: str, value: Any) -> int:
    """Return an integer that is not negative, or raise `InstanceError`."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise InstanceError(f"{name} is {value!r}, but must be an integer >= 0")
    return number
