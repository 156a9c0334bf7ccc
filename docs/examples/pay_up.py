"""A game of your own whose actions are words: pay an amount with the coins of a purse."""

from itertools import combinations

from ragen_envs import GameSpec, register_game
from ragen_envs.game import LEGAL, Legality, Rng, WordGameEnv, illegal


class PayUpEnv(WordGameEnv):
    """Pay coin by coin until nothing is due."""

    rules = "Pay the amount exactly; you get no change. Rewards: 1 when it is paid, otherwise 0."
    action_names = ("pay <coin>",)
    deterministic = True

    def draw_level(self, rng: Rng) -> str:
        coins = sorted(rng.choice((1, 2, 5, 10, 20, 50)) for _ in range(6))
        due = sum(rng.sample(coins, rng.integers(1, 6)))
        return f"{due}: {' '.join(map(str, coins))}"

    def start(self, level: str) -> None:
        due, coins = level.split(":")
        self.due, self.coins = int(due), [int(coin) for coin in coins.split()]

    def available(self) -> tuple[str, ...]:
        return tuple(f"pay {coin}" for coin in sorted(set(self.coins)) if coin <= self.due)

    def legality(self, action: str) -> Legality:
        return LEGAL if action in self.available() else illegal("you cannot pay that coin")

    def play(self, action: str) -> tuple[float, bool, bool]:
        coin = int(action.removeprefix("pay "))
        self.coins.remove(coin)
        self.due -= coin
        return float(self.success), self.success or not self.available(), True

    @property
    def success(self) -> bool:
        return self.due == 0

    def observe(self) -> str:
        return f"Due: {self.due}\nCoins: {' '.join(map(str, self.coins))}"

    def solution(self) -> list[str] | None:
        plans = (plan for count in range(7) for plan in combinations(self.coins, count))
        return next(([f"pay {c}" for c in plan] for plan in plans if sum(plan) == self.due), None)


GAME = GameSpec("PayUp", "pay_up:PayUpEnv", "pay an amount exactly", 20, namespace="mine")
register_game(GAME)
