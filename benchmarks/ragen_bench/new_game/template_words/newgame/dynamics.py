"""The rules: what each action does. Nothing else knows them."""

import re
from functools import lru_cache

from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted

Coins = tuple[int, ...]
"""The coins that are left, in ascending order."""


def read_action(action: str) -> int | None:
    """Return the coin that an action pays with, or None if it is no such action."""
    match = re.fullmatch(r"\s*pay\s+([0-9]{1,4})\s*", action, re.IGNORECASE)
    return None if match is None else int(match[1])


def legality(coins: Coins, due: int, action: str) -> Legality:
    """Return whether an action may be played, and why not."""
    coin = read_action(action)
    if coin is None:
        return illegal(f"{quoted(action)} does not have the form pay 5")
    if coin not in coins:
        return illegal(f"there is no coin of {coin} left")
    return LEGAL if coin <= due else illegal(f"{coin} is more than the {due} that are due")


def step(coins: Coins, due: int, coin: int) -> tuple[Coins, int]:
    """Return the coins and the amount that are left after a payment."""
    rest = list(coins)
    rest.remove(coin)
    return tuple(rest), due - coin


@lru_cache(maxsize=1 << 16)
def fewest(coins: Coins, due: int) -> tuple[int, ...] | None:
    """Return the fewest coins that pay the amount, or None if that is impossible."""
    if due == 0:
        return ()
    plans = [
        (coin, *plan)
        for coin in sorted(set(coins))
        if coin <= due and (plan := fewest(*step(coins, due, coin))) is not None
    ]
    return min(plans, key=len, default=None)
