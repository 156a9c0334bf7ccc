"""NewGame as a Gymnasium environment."""

from newgame.dynamics import fewest, legality, read_action, step
from newgame.text import NewGameText
from ragen_envs.game.arguments import read_count
from ragen_envs.game.errors import InstanceError
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN
from ragen_envs.game.word_game import Legality, WordGameEnv

VALUES = (1, 2, 5, 10, 20, 50)


class NewGameEnv(WordGameEnv):
    """Pay an amount exactly with the coins of a purse.

    ## Description
    An amount is due. Coins are paid one by one, without change. Deterministic.

    ## Action Space
    `FreeText(4096)`: `pay 5` pays with a coin of 5.

    ## Observation Space
    `FreeText(131072)`: what is due, and the coins that are left.

    ## Starting State
    Coins, and an amount that some of them make.

    ## Rewards
    1 when the amount is paid, else 0.

    ## Episode End
    Terminates when the amount is paid or no coin fits; truncated by the registered time limit.

    ## Information
    `success` (bool): the amount is paid. `action_is_valid` (bool): the action was legal.
    `action_is_effective` (bool): a coin was paid. `reason` (str): why the action was illegal, or "".

    ## Arguments
    `coins`: number of coins, at least 3. `split`: "train", "validation" or "test", until a reset asks
    for another. `render_mode`: "ansi".

    ## Version History
    * v0: Initial version.
    """

    text = NewGameText()
    numbered = True

    def __init__(self, coins: int = 6, split: str = TRAIN, render_mode: str | None = None) -> None:
        super().__init__(split, render_mode)
        self.count = read_count("coins", coins, 3, 12)
        self.distribution = f"newgame-{coins}"

    @property
    def success(self) -> bool:
        """Whether the amount is paid."""
        return self.due == 0

    def legality(self, action: str) -> Legality:
        """Return whether an action may be played in the current state, and if not, why."""
        return legality(self.coins, self.due, action)

    def available(self) -> tuple[str, ...]:
        """Return every legal action of the present state."""
        return tuple(f"pay {coin}" for coin in sorted(set(self.coins)) if coin <= self.due)

    def play_legal(self, action: str) -> tuple[float, bool, bool]:
        """Return reward, whether the game has ended, whether the state changed."""
        coin = read_action(action)
        assert coin is not None
        self.coins, self.due = step(self.coins, self.due, coin)
        return float(self.success), self.success or not self.available(), True

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the fewest coins that pay the amount; the value is 1 if they fit the budget."""
        limits = as_budget(budget)
        plan = fewest(self.coins, self.due)
        actions = tuple(f"pay {coin}" for coin in plan or ())
        value = float(plan is not None and len(plan) <= limits.reach)
        return Advice(actions[: limits.this_turn], value, 0.0 if self.success else value)

    def draw_level(self, rng: Rng) -> str:
        """Return a random level in text form."""
        coins = sorted(rng.choice(VALUES) for _ in range(self.count))
        due = sum(coin for coin in coins if rng.integers(2)) or coins[0]
        return f"{due}: {' '.join(map(str, coins))}"

    def start(self, level: str) -> None:
        """Set the state to a level in text form."""
        due, colon, coins = level.partition(": ")
        if not colon or not due.isdecimal():
            raise InstanceError(
                f"level {level!r} must be an amount and coins, such as '7: 1 2 5 5'"
            )
        self.due, self.coins = int(due), tuple(sorted(map(int, coins.split())))
