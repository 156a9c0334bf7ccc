"""A game of your own whose agents' thoughts are checked: the corridor, with claims in 15 lines."""

import re
from collections.abc import Sequence
from typing import Any

from corridor import LENGTH, CorridorEnv

from ragen_envs import GameSpec, register_game
from ragen_envs.game.claims import MOVE, Claim, made, read_steps
from ragen_envs.game.text import OwnText


class HonestText(OwnText):
    """Reads "coin at 7" and plans such as "Right to 4, Right to 5"."""

    def claims(self, env: Any, thought: str, executed: Sequence[int], names: tuple[str, ...]) -> list[Claim]:
        claims, player = [], env.player
        for match in re.finditer(r"coin (?:is )?at (\d+)", thought):
            claims.append(made("place coin", match, int(match[1]) == env.coin, f"coin {env.coin}"))
        for match, action in read_steps(thought, names, r" to \d+"):
            player = min(max(player + (1 if action else -1), 0), LENGTH - 1)
            true = int(match["said"].split()[-1]) == player if match["said"] else None
            claims.append(made(MOVE, match, true, f"{names[action]} to {player}", action))
        return claims


class HonestCorridorEnv(CorridorEnv):
    """The corridor, with checked thoughts."""

    text = HonestText()


register_game(
    GameSpec(
        "HonestCorridor", "honest_corridor:HonestCorridorEnv", "walk to the coin", 100,
        namespace="mine",
    )
)  # fmt: skip
