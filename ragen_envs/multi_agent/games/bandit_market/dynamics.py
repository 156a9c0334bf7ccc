"""Play the market: all who pull an arm share its payoff."""

from collections.abc import Sequence


def counts_of(choices: Sequence[int], arms: int) -> list[int]:
    """Count the players who pull each arm; a choice of ``arms`` is a pass."""
    return [sum(choice == arm for choice in choices) for arm in range(arms)]


def share(pots: Sequence[float], choices: Sequence[int]) -> list[float]:
    """Return the payoff of each player: its arm's pot in equal parts, and nothing for a pass."""
    counts = counts_of(choices, len(pots))
    return [pots[choice] / counts[choice] if choice < len(pots) else 0.0 for choice in choices]


def is_best_reply(means: Sequence[float], choices: Sequence[int], seat: int) -> bool:
    """Return whether no other choice would have paid the seat more on average, the others' given."""
    others = counts_of([c for s, c in enumerate(choices) if s != seat], len(means))
    worth = [mean / (count + 1) for mean, count in zip(means, others, strict=True)]
    got = worth[choices[seat]] if choices[seat] < len(means) else 0.0
    return got >= max(worth) - 1e-12


def pure_equilibrium(means: Sequence[float], players: int) -> tuple[int, ...]:
    """Return an arm for each seat, such that nobody gains by going elsewhere.

    One player after the other joins the arm that then pays most; as payoffs only fall with the number
    of players and everybody on an arm gets the same, the result is a Nash equilibrium.
    """
    chosen: list[int] = []
    for _ in range(players):
        counts = counts_of(chosen, len(means))
        worth = [mean / (count + 1) for mean, count in zip(means, counts, strict=True)]
        chosen.append(worth.index(max(worth)))
    return tuple(sorted(chosen))
