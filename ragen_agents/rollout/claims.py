"""Summarise what thoughts claim: one definition for the metrics of training and the tables of runs."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ragen_envs.conversation import TurnResult
from ragen_envs.game.claims import AFTER, END, MOVE, PLACE, Claim
from ragen_envs.game.oracle import Action

MOVES: Final = 5
"""Positions of the plan with a column of their own."""
SHARES: Final = (
    "made", "per_thought", "places", *(f"move_{n + 1}" for n in range(MOVES)), "ends", "others",
    "plan", "predicted", "after",
)  # fmt: skip
"""Names of the measures of a thought, in the order of the tables."""


class CheckedThought(NamedTuple):
    """What a thought claims, and what the reply did."""

    claims: tuple[Claim, ...]
    actions: tuple[Action, ...]
    """The actions of the answer, as they were read."""

    @property
    def moves(self) -> list[Claim]:
        """The steps of the plan."""
        return [claim for claim in self.claims if claim.kind == MOVE]

    def measures(self) -> dict[str, float]:
        """Return the measures that are defined for this thought.

        ``made`` whether it claims anything, ``per_thought`` how much; the share of true claims among ``places``,
        ``ends`` and ``others``, and whether the outcome of the nth move is, ``move_1`` to ``move_5``; ``plan``
        whether the answer is the plan; ``predicted`` whether it has the line behind the thought that the setting
        ``claims`` asks for, and ``after`` the share of true ones there.
        """
        kinds: dict[str, list[bool]] = {}
        for claim in self.claims:
            if claim.true is not None and claim.kind != MOVE:
                name = {PLACE: "places", END: "ends", AFTER: "after"}.get(claim.kind, "others")
                kinds.setdefault(name, []).append(claim.true)
        moves = self.moves
        decided = sum(claim.true is not None for claim in self.claims)
        measures = {"made": float(decided > 0)}
        if decided:
            measures |= {"per_thought": float(decided), "predicted": float("after" in kinds)}
        measures |= {name: sum(values) / len(values) for name, values in kinds.items()}
        measures |= {
            f"move_{n + 1}": float(move.true)
            for n, move in enumerate(moves[:MOVES])
            if move.true is not None
        }
        if moves:
            measures["plan"] = float(tuple(move.action for move in moves) == self.actions)
        return measures


def read_thought(result: TurnResult) -> CheckedThought:
    """Return the checked thought of a reply that was played with its claims."""
    return CheckedThought(result.claims, result.parsed.actions)


def claim_shares(thoughts: Sequence[CheckedThought]) -> dict[str, float]:
    """Return the mean of each measure over the thoughts for which it is defined; without claims only ``made``."""
    measured = [thought.measures() for thought in thoughts]
    columns = {name: [m[name] for m in measured if name in m] for name in SHARES}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}
