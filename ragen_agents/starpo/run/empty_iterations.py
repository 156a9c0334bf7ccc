"""The end of a run that has nothing to learn from."""

from collections.abc import Sequence
from typing import Final

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.parts.filters import group_std
from ragen_agents.starpo.run.metrics import group_returns
from ragen_envs.game.errors import RagenError

EMPTY_LIMIT: Final = 10
"""Consecutive iterations with nothing to learn from after which a run stops."""


class NothingKeptError(RagenError):
    """Too many consecutive iterations had nothing to learn from; the weights did not change in them."""


class BrokenGamesError(RagenError):
    """Every game failed in too many consecutive iterations."""


def empty_error(trajectories: Sequence[Trajectory], kind: str, iterations: int) -> RagenError:
    """Return the error of a run that has had nothing to learn from, with the cause.

    Args:
        trajectories: Of the last iteration.
        kind: The filter's name.
        iterations: How many in a row were empty.
    """
    lasting = f"in {iterations} iterations in a row"
    broken = [t.error for t in trajectories if t.error is not None]
    if len(broken) == len(trajectories):
        return BrokenGamesError(f"every game broke {lasting}: {broken[0]}")
    if not any(t.written for t in trajectories):
        return NothingKeptError(
            f"no prompt fit the model's context {lasting}, so the model generated nothing"
        )
    equal = not group_std(group_returns(trajectories)).any()
    why = ": the members of each group all have the same return" if equal else ""
    return NothingKeptError(f"the filter '{kind}' kept nothing {lasting}{why}")
