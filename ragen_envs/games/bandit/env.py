"""The two-armed bandits as Gymnasium environments."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import Level, read_choice, read_number
from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Advice, Budget, RandomBaseline, as_budget
from ragen_envs.games.bandit import generator, image, text
from ragen_envs.games.bandit.dynamics import RISKY, SAFE, Arm, pull
from ragen_envs.levels.splits import TRAIN

ROLES = ("sounds_risky", "sounds_safe")


class BanditEnv(GameEnv[NDArray[np.int64]]):
    """Pull one of two arms, whose names hint at which is the gamble.

    ## Description
    One pull, two named arms. The *sure arm* always pays the same; the *gamble* pays more or nothing. In
    `ragen/Bandit-v0` the risky-sounding name is the gamble, and is better on average. In
    `ragen/BanditRev-v0` the safe-sounding name is the (better) gamble. In `ragen/BanditTrap-v0` the
    risky-sounding name is the gamble, but is worse: a control for methods that learn to prefer
    variance. All three show the same prompts, and in the last two the opposite answer is right.
    Averages over games leave them out.

    ## Action Space
    `Discrete(2)`: the arm to pull, in the order shown.

    ## Observation Space
    `MultiDiscrete([names + 1, names + 1])`: the indices of the two names, in the order shown, in
    `ragen_envs.games.bandit.all_names()`; the last index stands for any other name.

    ## Starting State
    A safe-sounding and a risky-sounding name of the split, in random order: 9,216 pairs for training,
    1,024 for validation and 2,304 for test, which have no name in common. A frozen instance has a
    frozen payoff; the option `noise` of `reset` chooses another draw.

    ## Rewards
    What the arm pays: 0.15 for sure, or 1 with probability 0.25 (0.10 in `BanditTrap`).

    ## Episode End
    Terminates after the pull.

    ## Information
    `success` (bool): the arm with the higher mean was pulled, whatever it paid. `action_is_effective`
    (bool): an arm was pulled. `gambled` (bool): the gamble was pulled.

    ## Arguments
    `sure`: payoff of the sure arm. `jackpot`, `chance`: payoff of the gamble and its probability.
    `gamble`: which name is the gamble, "sounds_risky" or "sounds_safe". `level`: fixed arms, two names
    in the order shown; the first is the risky-sounding one if it is in the list of such names, else the
    second.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}
    text = text.BanditText()
    has_packs = True
    deterministic = True
    distribution = "bandit"
    names: tuple[str, str]
    """The names of the arms, in the order shown."""
    chosen: int | None
    """The arm that was pulled, or None."""
    paid: float | None
    """Its reward, or None."""

    def __init__(
        self,
        sure: float = 0.15,
        jackpot: float = 1.0,
        chance: float = 0.25,
        gamble: str = "sounds_risky",
        level: Level | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode, level)
        self.arms = {
            SAFE: Arm(read_number("sure", sure), 1.0),
            RISKY: Arm(read_number("jackpot", jackpot), read_number("chance", chance, 0, 1)),
        }
        if self.arms[SAFE].mean == self.arms[RISKY].mean:
            raise RagenError(f"both arms pay {self.arms[SAFE].mean:g} on average; change sure")
        self.gamble = read_choice("gamble", gamble, ROLES)
        for own in self.own_levels:
            text.decode_level(own)
        count = len(generator.all_names()) + 1
        self.observation_space = spaces.MultiDiscrete([count, count])
        self.action_space = spaces.Discrete(2)

    def play(self, action: int) -> tuple[float, bool, bool]:
        self.chosen = action
        self.paid = pull(self.arms[self._kinds[action]], self.rng.random())
        return self.paid, True, True

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the arm with the higher mean; value is 1 and the return its mean."""
        if self.chosen is not None or as_budget(budget).reach == 0:
            return Advice((), float(self.success), 0.0)
        better = self._better()
        return Advice((self._kinds.index(better),), 1.0, self.arms[better].mean)

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline:
        if self.chosen is not None or as_budget(budget).reach == 0:
            return RandomBaseline(float(self.success), 0.0)
        return RandomBaseline(0.5, sum(arm.mean for arm in self.arms.values()) / 2)

    def key(self, level: str) -> int:
        return generator.pair_key(text.decode_level(level))

    @property
    def sure_arm(self) -> int:
        """The index, in the order shown, of the arm that always pays the same."""
        return self._kinds.index(SAFE)

    def _better(self) -> int:
        return max(self.arms, key=lambda kind: self.arms[kind].mean)

    @property
    def success(self) -> bool:
        return self.chosen is not None and self._kinds[self.chosen] == self._better()

    def _start_drawn(self, split: str) -> None:
        names, self.rng.stream = generator.generate(self.rng.stream, split)
        self._load("/".join(names))

    def start(self, level: str) -> None:
        self.names = text.decode_level(level)
        risky = 1 if self.names[0] not in generator.risky_names() else 0
        gamble = risky if self.gamble == "sounds_risky" else 1 - risky
        self._kinds = (RISKY, SAFE) if gamble == 0 else (SAFE, RISKY)
        self.chosen = None
        self.paid = None

    def observe(self) -> NDArray[np.int64]:
        known, unknown = generator.name_indices(), len(generator.all_names())
        return np.array([known.get(name, unknown) for name in self.names])

    def info(self, effective: bool) -> dict[str, Any]:
        gambled = self.chosen is not None and self._kinds[self.chosen] == RISKY
        return {**super().info(effective), "gambled": gambled}

    def picture(self) -> NDArray[np.uint8]:
        return image.render(self.names, self.chosen, self.paid)
