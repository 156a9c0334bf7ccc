"""Define the base of the multi-agent games: seats, seeding, splits, the budget of rounds."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from gymnasium import spaces
from pettingzoo import ParallelEnv

from ragen_envs.errors import InstanceError, ResetNeededError
from ragen_envs.game.arguments import read_choice, read_count
from ragen_envs.game.base import Instance, read_action
from ragen_envs.game.oracle import Advice
from ragen_envs.game.text import GRID, OwnText
from ragen_envs.levels import seeding
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import read_split

Infos = dict[str, dict[str, Any]]
Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]


class SeatView(NamedTuple):
    """A game as one seat sees it; what a text face is given in place of an env."""

    game: "MultiAgentEnv"
    seat: int

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions of the present level."""
        return self.game.names


class MultiAgentEnv(ParallelEnv[str, Any, Any], ABC):
    """Base of the games of several players, who act at the same time, once a round.

    Players sit on *seats*, numbered from 0; the agent of seat i is ``player_i``. The last action of
    every game does nothing. ``reset(seed=s)`` draws a fresh level and ``reset()`` continues from there.
    The option ``split`` selects the split of this and all later resets, and ``noise`` another
    independent draw of the game's randomness. There are no frozen levels, so
    the option ``index`` is refused; others are ignored, as PettingZoo's tests require.

    Args:
        players: Number of seats.
        max_cycles: Rounds after which everybody is truncated; None for the game's own budget.
        split: Split of the levels, until a reset asks for another.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: dict[str, Any]
    text: ClassVar[OwnText]
    """The text face; its methods receive a ``SeatView``."""
    distribution: str
    """Name of the level distribution that the settings select."""
    names: tuple[str, ...] = ()
    """Names of the actions of the present level; the last one does nothing."""
    usual_rounds: int
    """Rounds of an episode on the present level, if ``max_cycles`` is None."""
    rounds: int
    """Rounds played."""
    split: str
    """Split that the next level is of, unless ``reset`` is asked for another one."""

    rng: Rng
    """The random numbers of the present episode."""

    _origin: tuple[str, int | None, int] | None = None
    """Split, seed and noise of the episode; None before the first reset."""
    _moved: list[bool]
    """Whether the last action of each seat had an effect."""

    def __init__(self, players: int, max_cycles: int | None, split: str, render_mode: str | None) -> None:
        self.players = players
        self.max_cycles = None if max_cycles is None else read_count("max_cycles", max_cycles, 1)
        self.split = read_split(split)
        modes = (None, *self.metadata["render_modes"])
        self.render_mode = read_choice("render_mode", render_mode, modes)
        self.possible_agents = [f"player_{seat}" for seat in range(players)]
        self.agents: list[str] = []
        self.rounds = 0
        self.observation_spaces: dict[str, spaces.Space[Any]] = {}
        self.action_spaces: dict[str, spaces.Space[Any]] = {}

    def _set_spaces(self, observation: spaces.Space[Any], actions: int) -> None:
        for agent in self.possible_agents:
            self.observation_spaces[agent] = observation
            self.action_spaces[agent] = spaces.Discrete(actions)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space, which is the same for all seats."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of a seat."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], Infos]:
        """Start an episode; see the class.

        Raises:
            InstanceError: There is no such split, or the option ``index`` is given.
            GenerationError: No level of the split is found.
            RagenError: The seed or the option ``noise`` is no integer >= 0.
        """
        given = options or {}
        if "index" in given:
            raise InstanceError(
                "games of several players have no frozen levels; reset(seed=...) repeats a level"
            )
        split = read_split(given.get("split", self.split))
        noise = read_count("noise", given.get("noise", 0), 0)
        if seed is None and self._origin is None:
            seed = secrets.randbelow(2**31)
        if seed is not None:
            seed = read_count("seed", seed, 0)
            self.rng = Rng(seeding.new_stream(split, self.distribution, seed))
        self._origin = (split, seed, noise)
        self._moved = [False] * self.players
        self._start_fresh(split)
        self.rng.stream = seeding.jump(self.rng.stream, noise)
        self.split = split
        self.rounds = 0
        self.agents = list(self.possible_agents)
        seats = range(self.players)
        return (
            {agent: self.observe(seat) for agent, seat in zip(self.agents, seats, strict=True)},
            {agent: self.info(seat) for agent, seat in zip(self.agents, seats, strict=True)},
        )

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round: the action of every agent that is still in the game.

        Raises:
            RagenError: An agent has an action that the game does not have. Nothing has changed then.
            ResetNeededError: Nobody is in the game: it has not begun, or it has ended.
        """
        if not self.agents:
            raise ResetNeededError("no player is in the game; call reset() first")
        playing = self.agents
        chosen = [len(self.names) - 1] * self.players
        for agent in playing:
            chosen[self.seat_of(agent)] = read_action(actions[agent], self.names, f"the action of {agent}")
        rewards, out = self.play(chosen)
        self.rounds += 1
        late = self.rounds >= self.limit
        seats = {agent: self.seat_of(agent) for agent in playing}
        self.agents = [] if late else [agent for agent in playing if not out[seats[agent]]]
        return (
            {agent: self.observe(seat) for agent, seat in seats.items()},
            {agent: rewards[seat] for agent, seat in seats.items()},
            {agent: out[seat] for agent, seat in seats.items()},
            {agent: late and not out[seat] for agent, seat in seats.items()},
            {agent: self.info(seat) for agent, seat in seats.items()},
        )

    def render(self) -> Any:
        """Return the state as text or as an RGB array (h, w, 3), or print the text, by the render mode.

        Raises:
            ResetNeededError: No episode has begun.
        """
        if self._origin is None:
            raise ResetNeededError("call reset() before render()")
        if self.render_mode in ("human", "ansi"):
            symbols = self.text.vocabularies["standard"]
            words = self.text.observation(SeatView(self, 0), GRID, symbols)
            if self.render_mode == "ansi":
                return words
            print(words)
            return None
        return self.picture() if self.render_mode == "rgb_array" else None

    def seat_of(self, agent: str) -> int:
        """Return the seat of an agent."""
        return self.possible_agents.index(agent)

    @property
    def limit(self) -> int:
        """Rounds that the present episode has at most."""
        return self.usual_rounds if self.max_cycles is None else self.max_cycles

    @property
    def rounds_left(self) -> int:
        """Rounds that can still be played."""
        return self.limit - self.rounds

    @property
    def instance(self) -> Instance:
        """The level being played and where it comes from."""
        if self._origin is None:
            raise ResetNeededError("call reset() before reading the instance")
        split, seed, noise = self._origin
        key = f"{self.key(self.level):016x}"
        return Instance(self.distribution, split, None, seed, noise, self.level, key)

    @abstractmethod
    def oracle(self, seat: int) -> Advice:
        """Return the exact optimum of a seat, under the rounds that are left; see the game.

        Args:
            seat: Number of the seat, from 0; ``seat_of`` returns that of an agent.
        """

    @abstractmethod
    def key(self, level: str) -> int:
        """Return the key of a level in text form, in [0, 2^63)."""

    @abstractmethod
    def success(self, seat: int) -> bool:
        """Return whether the seat has what the game is about, by now."""

    @abstractmethod
    def _start_fresh(self, split: str) -> None:
        """Start the fixed level, or a fresh one of a split."""

    @property
    @abstractmethod
    def level(self) -> str:
        """Return the initial level of this episode in text form."""

    @abstractmethod
    def play(self, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
        """Play one action a seat; return each seat's reward and whether it is out of the game."""

    @abstractmethod
    def observe(self, seat: int) -> Any:
        """Return the observation of a seat as a fresh object."""

    def info(self, seat: int) -> dict[str, Any]:
        """Return the info of a seat."""
        return {
            "success": self.success(seat),
            "action_is_effective": self._moved[seat],
            "rounds_left": self.rounds_left,
        }

    @abstractmethod
    def picture(self) -> Any:
        """Return the state as a fresh RGB array."""
