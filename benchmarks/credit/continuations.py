"""The policy's own value of every state that it met, by playing on from it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from statistics import fmean, stdev
from typing import Final, NamedTuple

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory

_AT_ONCE: Final = 512
"""Episodes that are played at the same time."""


class Place(NamedTuple):
    """A state that the policy met."""

    group: int
    member: int
    """0 for the first state, which all members of a group share."""
    turn: int
    """Turns that were played before it."""


class Value(NamedTuple):
    """What the policy earns from a state on."""

    halves: tuple[float, float]
    """Mean of each half of the continuations."""
    error: float
    """Standard error of the mean of all."""


ENDED: Final = Value((0.0, 0.0), 0.0)
"""Of a state in which the episode has ended."""


def replies(trajectory: Trajectory) -> list[list[int]]:
    """Return the token ids of each reply."""
    found = defaultdict(list)
    for token, turn in zip(trajectory.ids, trajectory.turn_ids, strict=True):
        found[turn].append(token)
    return [found[turn] for turn in range(len(trajectory.turns))]


def values(
    collector: Collector, levels: Sequence[GroupSpec], trajectories: Sequence[Trajectory],
    copies: int, iteration: int, tick: Callable[[int, int], None],
) -> dict[Place, Value]:  # fmt: skip
    """Return the value of each state that was replied to.

    Args:
        collector: Plays with the policy. Its game must have no chance of its own, else the replies that
            lead to a state may lead elsewhere.
        levels: Of the trajectories, by their group.
        trajectories: Whole episodes.
        copies: How often each state is continued; even.
        iteration: Gives the continuations draws of their own.
        tick: Called with the states that are done and their number.
    """
    options = {level.group: level.options for level in levels}
    openings = _openings(trajectories)
    found: dict[Place, Value] = {}
    waiting = iter(openings.items())
    while chunk := list(islice(waiting, max(1, _AT_ONCE // copies))):
        specs = [
            GroupSpec(len(found) + k, copies, options[place.group], tuple(opening))
            for k, (place, opening) in enumerate(chunk)
        ]
        played = collector.collect(specs, iteration)
        for k, (place, _) in enumerate(chunk):
            members = played[k * copies : (k + 1) * copies]
            found[place] = _value([_to_go(member, place.turn) for member in members])
        tick(len(found), len(openings))
    return found


def _openings(trajectories: Sequence[Trajectory]) -> dict[Place, list[list[int]]]:
    return {place: opening for trajectory in trajectories for place, opening in _prefixes(trajectory)}


def _prefixes(trajectory: Trajectory) -> Iterator[tuple[Place, list[list[int]]]]:
    written = replies(trajectory)
    for turn in range(len(written)):
        member = trajectory.member if turn else 0
        yield Place(trajectory.group, member, turn), written[:turn]


def _to_go(trajectory: Trajectory, turn: int) -> float:
    return sum(each.reward for each in trajectory.turns[turn:])


def _value(returns: Sequence[float]) -> Value:
    half = len(returns) // 2
    error = stdev(returns) / len(returns) ** 0.5
    return Value((fmean(returns[:half]), fmean(returns[half:])), error)
