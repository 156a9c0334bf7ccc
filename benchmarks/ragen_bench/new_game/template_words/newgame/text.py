"""The game in words."""

from collections.abc import Mapping
from typing import Any

from ragen_envs.game.text import Symbols


class NewGameText:
    """The text face; its methods read the env and change nothing."""

    vocabularies: Mapping[str, Symbols] = {"standard": {}}

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""
        return (
            "You pay an amount exactly with the coins of your purse. Each action pays with one coin, for "
            "example pay 5. You cannot pay more than is due, and get no change. The game ends when the "
            "amount is paid or no coin fits any more. Rewards: 1 when the amount is paid, otherwise 0."
        )

    def legend(self, symbols: Symbols) -> str:
        """Return "": there is no board."""
        return ""

    def actions(self, env: Any) -> tuple[str, ...]:
        """Return the forms of the actions."""
        return ("pay <coin>",)

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the state in words."""
        return f"Due: {env.due}\nCoins: {' '.join(map(str, env.coins))}"
