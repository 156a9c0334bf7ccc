"""Summarise what thoughts claim: one definition for the metrics of training and the tables of runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ragen_envs.game.claims import END, MOVE, PLACE, Claim
from ragen_envs.game.oracle import Action

MOVES: Final = 5
"""Positions of the plan with a column of their own."""
SHARES: Final = (
    "made", "per_thought", "places", *(f"move_{n + 1}" for n in range(MOVES)), "ends", "others", "plan",
)  # fmt: skip
"""Names of the measures of a thought, in the order of the tables."""


class CheckedThought(NamedTuple):
    """Claims of a thought and actions of its reply."""

    claims: tuple[Claim, ...]
    actions: tuple[Action, ...]
    """The actions of the answer, as they were read."""

    @property
    def moves(self) -> list[Claim]:
        """The steps of the plan."""
        return [claim for claim in self.claims if claim.kind == MOVE]

    def measures(self) -> dict[str, float]:
        """Return the measures that are defined for this thought.

        ``made`` is 1 if it makes a claim that can be checked, and ``per_thought`` the number of these.
        ``places``, ``ends`` and ``others`` are shares of true claims, ``place box`` that of one thing, and
        ``move_1`` to ``move_5`` whether the outcome of that move is true. ``plan`` is whether the answer is
        the plan.
        """
        kinds: dict[str, list[bool]] = {}
        for claim in self.claims:
            if claim.true is not None and claim.kind != MOVE:
                kind = claim.kind.partition(" ")[0]
                name = {PLACE: "places", END: "ends"}.get(kind, "others")
                kinds.setdefault(name, []).append(claim.true)
                if kind == PLACE:
                    kinds.setdefault(claim.kind, []).append(claim.true)
        moves = self.moves
        decided = sum(claim.true is not None for claim in self.claims)
        measures = {"made": float(decided > 0)}
        if decided:
            measures["per_thought"] = float(decided)
        measures |= {name: sum(values) / len(values) for name, values in kinds.items()}
        measures |= {
            f"move_{n + 1}": float(move.true) for n, move in enumerate(moves[:MOVES]) if move.true is not None
        }
        if moves:
            measures["plan"] = float(tuple(move.action for move in moves) == self.actions)
        return measures


def claim_shares(thoughts: Sequence[CheckedThought]) -> dict[str, float]:
    """Return the mean of each measure over the thoughts for which it is defined; "place box" is place/box."""
    measured = [thought.measures() for thought in thoughts]
    columns = {name: [m[name] for m in measured if name in m] for name in names_of(measured)}
    return {name.replace(" ", "/"): sum(values) / len(values) for name, values in columns.items()}


def names_of(measured: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the measures that some thought has: those of ``SHARES`` in their order, then those of things."""
    names = {name for each in measured for name in each}
    return [*(name for name in SHARES if name in names), *sorted(names - {*SHARES})]
