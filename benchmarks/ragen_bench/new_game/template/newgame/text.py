"""The game in words."""

from collections.abc import Mapping
from typing import Any

from newgame.dynamics import ACTION_NAMES
from ragen_envs.game.text import BOTH, COORDINATES, Symbols

STANDARD = {"empty": "_", "coin": "C", "player": "P"}


class NewGameText:
    """The text face; its methods read the env and change nothing."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""
        return (
            f"You walk along a corridor of {env.length} cells, one cell per action. Reach the coin; "
            "then the game ends. A move off either end leaves you where you are but still counts as "
            "an action. Rewards: 1 at the coin, otherwise 0."
        )

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols."""
        return ", ".join(f"{sign} {name}" for name, sign in symbols.items())

    def actions(self, env: Any) -> tuple[str, ...]:
        """Return the names of the actions, in the order of their numbers."""
        return ACTION_NAMES

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the state as a grid, as coordinates, or as both."""
        cells = [symbols["empty"]] * env.length
        cells[env.coin] = symbols["coin"]
        cells[env.player] = symbols["player"]
        grid = "".join(cells)
        places = f"Cells are numbered from 0 at the left.\nplayer: {env.player}\ncoin: {env.coin}"
        return {COORDINATES: places, BOTH: f"{grid}\n{places}"}.get(form, grid)
