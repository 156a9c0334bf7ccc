"""Write the market in words."""

from collections.abc import Sequence
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.text import OwnText, Symbols
from ragen_envs.games.bandit.dynamics import Arm
from ragen_envs.multi_agent.games.bandit_market.generator import Offer

PASS: Final = "Pass"


class BanditMarketText(OwnText):
    """The text face of the market; its state has one form, whatever is asked for."""

    def rules(self, env: Any) -> str:
        return (
            f"You are player_{env.seat} of {env.game.players} at a market of "
            f"{len(env.game.offers)} arms. Each turn, all players choose an arm at the same time. "
            "Each arm pays its amount with its probability and otherwise nothing; the players who "
            f"chose it share what it pays equally. {PASS}, or a reply without a valid action, chooses "
            "no arm. You succeed if, in the last turn, no other arm would have paid you more on average, "
            "given what the others chose. Rewards: your share."
        )

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        game = env.game
        return "\n".join(
            f"{name}: pays {arm.pays:g} with probability {arm.chance:g}{_last(game, number)}"
            for number, (name, arm) in enumerate(game.offers)
        )


def _last(game: Any, number: int) -> str:
    if game.choices is None:
        return ""
    agents = [f"player_{seat}" for seat, choice in enumerate(game.choices) if choice == number]
    if not agents:
        return "; nobody chose it last turn"
    return f"; last turn it paid {game.pots[number]:g} in total to {', '.join(agents)}"


def encode_level(offers: Sequence[Offer]) -> str:
    """Return the text form of a market: name=amount@probability, joined by /."""
    return "/".join(f"{name}={arm.pays!r}@{arm.chance!r}" for name, arm in offers)


def decode_level(level: str) -> tuple[Offer, ...]:
    """Return the arms of a market in text form.

    Raises:
        InstanceError: It is not the text form of a market.
    """
    offers = []
    try:
        for part in level.split("/"):
            name, _, numbers = part.rpartition("=")
            pays, chance = (float(number) for number in numbers.split("@"))
            # A reply could not choose an arm whose name has spaces around it or a separator in it.
            readable = name == name.strip() != "" and "||" not in name
            if not readable or name.casefold() == PASS.casefold() or not (0 < pays < 1e6 and 0 < chance <= 1):
                raise ValueError
            offers.append((name, Arm(pays, chance)))
        if len({name.casefold() for name, _ in offers}) < len(offers):
            raise ValueError
    except ValueError:
        raise InstanceError(
            f"level {level!r} must be different arms, name=amount@probability, joined by /"
        ) from None
    return tuple(offers)
