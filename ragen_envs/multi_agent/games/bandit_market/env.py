"""Define the market of bandits as a PettingZoo environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.game.arguments import Level, read_count, read_level
from ragen_envs.game.oracle import Advice
from ragen_envs.games.bandit.dynamics import pull
from ragen_envs.levels.splits import TRAIN
from ragen_envs.multi_agent.base import MultiAgentEnv
from ragen_envs.multi_agent.games.bandit_market import generator, image, text
from ragen_envs.multi_agent.games.bandit_market.dynamics import (
    counts_of,
    is_best_reply,
    pure_equilibrium,
    share,
)

MAX_ARMS = 6


class BanditMarketEnv(MultiAgentEnv):
    """Choose among arms whose payoff is shared by all who choose them.

    ## Description
    A repeated congestion game (Rosenthal 1973). Once per round, each arm pays its amount with its
    probability, shared equally by the players who chose it. The payoffs are known; the choices of the
    others are not.

    ## Action Space
    `Discrete(arms + 1)`: an arm, or the last action, which chooses none.

    ## Observation Space
    `Box(0, 1e6, (arms, 4), float32)`, one row per arm: amount, probability, number of players who chose
    it in the last round, what it paid then. The last two are 0 before the first round.

    ## Starting State
    Named arms of the split with mean payoffs from 0.1 to 1.2, paid with probability 1, 1/2 or 1/4.

    ## Rewards
    The seat's share of what its arm paid.

    ## Episode End
    Truncated after 5 rounds.

    ## Information
    `success` (bool): given the others' choices in the last round, no other choice would have paid the
    seat more on average; if it holds for all, they play an equilibrium. `action_is_effective` (bool):
    an arm was chosen. `rounds_left` (int).

    ## Oracle
    `oracle(seat)` is the seat's arm in a pure Nash equilibrium; its return is the seat's expected share
    over the rounds left.

    ## Arguments
    `players`: 1 to 8. `arms`: 2 to 6. `level`: a fixed market in the text form of `instance.level`.
    `max_cycles`: number of rounds, 5 by default.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {
        "name": "bandit_market_v0",
        "render_modes": ["human", "ansi", "rgb_array"],
        "is_parallelizable": True,
        "render_fps": 1,
    }
    text = text.BanditMarketText()
    usual_rounds = 5
    offers: tuple[generator.Offer, ...]
    """The named arms."""
    choices: tuple[int, ...] | None
    """Arms chosen in the last round, by seat; None before the first."""
    pots: tuple[float, ...]
    """Payments of the arms in the last round, before they were shared."""

    def __init__(
        self,
        players: int = 4,
        arms: int = 3,
        level: Level | None = None,
        max_cycles: int | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        self._fixed = None if level is None else text.decode_level(read_level("level", level))
        arms = arms if self._fixed is None else len(self._fixed)
        self.arms = arms = read_count("arms", arms, 2, MAX_ARMS)
        super().__init__(read_count("players", players, 1, 8), max_cycles, split, render_mode)
        self.distribution = f"bandit_market-{arms}-{self.players}"
        self._set_spaces(spaces.Box(0.0, 1e6, (arms, 4), np.float32), arms + 1)

    @property
    def means(self) -> tuple[float, ...]:
        """Mean payment of each arm."""
        return tuple(arm.mean for _, arm in self.offers)

    def oracle(self, seat: int) -> Advice:
        chosen = pure_equilibrium(self.means, self.players)
        counts = counts_of(chosen, self.arms)
        arm = chosen[seat]
        return Advice((arm,), 1.0, self.rounds_left * self.means[arm] / counts[arm])

    def success(self, seat: int) -> bool:
        return self.choices is not None and is_best_reply(self.means, self.choices, seat)

    def key(self, level: str) -> int:
        return generator.market_key(text.decode_level(level))

    def _start_fresh(self, split: str) -> None:
        self.offers = self._fixed or generator.generate(self.arms, self.rng, split)
        self.names = (*(name for name, _ in self.offers), text.PASS)
        self.choices = None
        self.pots = (0.0,) * self.arms

    @property
    def level(self) -> str:
        return text.encode_level(self.offers)

    def play(self, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
        pots = [pull(arm, self.rng.random()) for _, arm in self.offers]
        counts = counts_of(actions, self.arms)
        self.choices = tuple(actions)
        self._moved = [arm < self.arms for arm in actions]
        self.pots = tuple(pot if n else 0.0 for pot, n in zip(pots, counts, strict=True))
        return share(self.pots, self.choices), [False] * self.players

    def observe(self, seat: int) -> NDArray[np.float32]:
        counts = counts_of(self.choices or (), self.arms)
        rows = [
            (arm.pays, arm.chance, count, pot)
            for (_, arm), count, pot in zip(self.offers, counts, self.pots, strict=True)
        ]
        return np.array(rows, np.float32)

    def picture(self) -> NDArray[np.uint8]:
        return image.render(self.offers, self.choices, self.pots)
