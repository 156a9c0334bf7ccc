"""The bandit in words."""

import re
from collections.abc import Sequence
from typing import Any

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import Claim, made
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import OwnText, Symbols
from ragen_envs.games.bandit.dynamics import RISKY, SAFE


class BanditText(OwnText):
    """The text face of the bandits."""

    def rules(self, env: Any) -> str:
        sure, gamble = env.arms[SAFE], env.arms[RISKY]
        if gamble.pays > sure.pays:
            amount = "a small amount" if sure.pays > 0 else "the same amount"
            arms = f"One arm always pays {amount}; the other pays a larger amount or nothing."
        else:
            arms = "One arm always pays the same amount; the other pays no more than that, or nothing."
        return (
            "You are playing a two-armed bandit. You pull one arm, once, by giving its name; then "
            f"the game ends. {arms} Use what the names suggest to choose the arm that pays more on "
            "average. Rewards: the amount that your arm pays."
        )

    def actions(self, env: Any) -> tuple[str, ...]:
        names: tuple[str, str] = env.names
        return names

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        first, second = env.names
        if env.chosen is None:
            return f"Arms: {first}, {second}"
        return f"{env.names[env.chosen]} paid {env.paid:g}"

    def explain(self, env: Any, actions: Sequence[int], budget: Budget) -> str:
        """State how each name sounds, and the choice by its sound before its name.

        A small model that chooses between two names at once has to predict a mixture of them, and a mixture
        of two embeddings is close to those of other names. After the sound it only has to repeat itself.
        """
        safe = _sounds_safe(env)
        sounds = "Sounds safe" if actions[0] == safe else "Sounds risky"
        return (
            f"Sounds safe: {env.names[safe]}. Sounds risky: {env.names[1 - safe]}. "
            f"My choice. {sounds}: {env.names[actions[0]]}."
        )

    def claims(self, env: Any, thought: str, executed: Sequence[int], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about how names sound: knowledge, which nothing that is shown decides."""
        # The longest first, since one name may begin the other.
        either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        claims = []
        for match in re.finditer(
            rf"\bsounds ((?a:safe|risky))\W{{1,3}}({either})(?!\w)", thought, re.IGNORECASE
        ):
            safe = _sounds_safe(env)
            right = names[safe if match[1].casefold() == "safe" else 1 - safe]
            true = match[2].casefold() == right.casefold()
            claims.append(made("knowledge", match, true, f"sounds {match[1]}: {right}"))
        return claims


def _sounds_safe(env: Any) -> int:
    return int(env.sure_arm if env.gamble == "sounds_risky" else 1 - env.sure_arm)


def decode_level(level: str) -> tuple[str, str]:
    """Return the two names of an instance in text form, ``First/Second``."""
    names = level.split("/")
    distinct = {name.casefold() for name in names if name and name == name.strip() and "||" not in name}
    if len(names) != 2 or len(distinct) != 2:
        raise InstanceError(
            f"level {level!r} must be two different names joined by /, without || or spaces around them"
        )
    return names[0], names[1]
