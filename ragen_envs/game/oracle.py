"""The questions to oracles and random baselines, and their answers."""

from dataclasses import dataclass
from typing import Any, Final

from ragen_envs.game.arguments import read_count

__all__ = ["ANY_LENGTH", "DEFAULT_STEPS", "Advice", "Budget", "RandomBaseline", "as_budget"]

Action = int | str
"""Action of an agent: its number, or a text in games whose actions are words."""


@dataclass(frozen=True)
class Budget:
    """The remaining actions and turns; an episode ends when either is used up."""

    actions: int
    """Actions left, >= 0."""
    turns: int
    """Turns left, >= 0. Within a turn the agent commits to its actions without seeing their effect."""
    actions_per_turn: int
    """Most actions in one turn, >= 1."""

    @classmethod
    def closed_loop(cls, steps: int) -> "Budget":
        """Return the budget of an agent that sees the state before each of ``steps`` actions."""
        return cls(actions=steps, turns=steps, actions_per_turn=1)

    @property
    def this_turn(self) -> int:
        """Maximum number of actions in the next turn."""
        return min(self.reach, self.actions_per_turn)

    @property
    def reach(self) -> int:
        """Maximum number of actions that can still be executed."""
        return min(self.actions, self.turns * self.actions_per_turn)


@dataclass(frozen=True)
class Advice:
    """The exact optimum from the current state under a budget; oracles maximise success, not the return."""

    actions: tuple[Any, ...]
    """The actions to play in this turn, at most ``actions_per_turn``; empty if nothing is left to do."""
    value: float
    """Largest probability of success that any agent can have under the budget, in [0, 1]."""
    expected_return: float
    """Expected sum of the rewards to come when the oracle is followed to the end; ``GameEnv.max_return`` is
    the largest one."""

    @property
    def action(self) -> Any:
        """The first action, or None if there is nothing left to do."""
        return self.actions[0] if self.actions else None


@dataclass(frozen=True)
class RandomBaseline:
    """The exact value of uniformly random actions from the current state under a budget."""

    success: float
    """Probability of success, in [0, 1]."""
    expected_return: float
    """Expected sum of the rewards to come."""


DEFAULT_STEPS = 100
"""Horizon of ``env.oracle()`` without a budget, in single steps."""
ANY_LENGTH: Final = 1 << 20
"""Actions that are enough for every solution of a game without chance."""


def as_budget(budget: Budget | int | None) -> Budget:
    """Return a budget from a budget, a number of closed-loop steps, or None for the default horizon.

    Raises:
        RagenError: It is none of these.
    """
    if isinstance(budget, Budget):
        return budget
    if budget is None:
        return Budget.closed_loop(DEFAULT_STEPS)
    return Budget.closed_loop(read_count("budget", budget, 0))
