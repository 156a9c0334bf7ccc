"""The optimum of Countdown, and what random play is worth, by enumeration."""

from functools import lru_cache

from ragen_envs.game.oracle import Budget, RandomBaseline
from ragen_envs.games.countdown.dynamics import Numbers, Operation, operations, play


@lru_cache(maxsize=1 << 16)
def fewest(numbers: Numbers, target: int) -> int | None:
    """Return the fewest operations that make the target, or None if nothing makes it."""
    if target in numbers:
        return 0
    # Every operation leaves one number fewer, so that the recursion ends.
    rests = [fewest(play(numbers, each), target) for each in operations(numbers)]
    lengths = [length for length in rests if length is not None]
    return 1 + min(lengths) if lengths else None


def solution(numbers: Numbers, target: int) -> tuple[Operation, ...] | None:
    """Return the first of the shortest solutions, or None if there is none."""
    plan, left = [], fewest(numbers, target)
    if left is None:
        return None
    while left:
        left -= 1
        plan.append(next(o for o in operations(numbers) if fewest(play(numbers, o), target) == left))
        numbers = play(numbers, plan[-1])
    return tuple(plan)


@lru_cache(maxsize=1 << 16)
def random_chance(numbers: Numbers, target: int, actions: int) -> float:
    """Return the exact probability that uniformly random operations make the target."""
    if target in numbers:
        return 1.0
    choices = list(operations(numbers)) if actions else []
    if not choices:
        return 0.0
    chances = [random_chance(play(numbers, each), target, actions - 1) for each in choices]
    return sum(chances) / len(chances)


def random_baseline(numbers: Numbers, target: int, budget: Budget) -> RandomBaseline:
    """Return the value of uniformly random operations."""
    if target in numbers:
        return RandomBaseline(1.0, 0.0)
    chance = random_chance(numbers, target, min(budget.reach, len(numbers) - 1))
    return RandomBaseline(chance, chance)
