"""One row a turn: its true advantage, and what each estimator assigns to it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class AuditedTurn:
    """One turn of a trajectory of the policy."""

    group: int
    """Which level."""
    member: int
    """Which of the level's trajectories."""
    turn: int
    """Number, from 0."""
    reward: float
    """What it was paid, in the units of the return."""
    to_go: float
    """The trajectory's return from this turn on."""
    before: tuple[float, float]
    """Value of the state before it under the policy: means over two halves of the continuations."""
    after: tuple[float, float]
    """The same after it; 0 where the episode has ended."""
    before_error: float
    """Standard error of the mean of ``before``."""
    after_error: float
    """Standard error of the mean of ``after``."""
    oracle: float
    """Chance of success that the turn cost, by the exact oracle: <= 0."""
    assigned: dict[str, float]
    """The mean over its tokens of what each estimator assigns, by label."""

    @property
    def halves(self) -> tuple[float, float]:
        """Its advantage under the policy, measured twice."""
        return tuple(self.reward + b - a for a, b in zip(self.before, self.after, strict=True))  # type: ignore[return-value]

    @property
    def advantage(self) -> float:
        """Its advantage under the policy, from all continuations."""
        return sum(self.halves) / 2

    @property
    def error(self) -> float:
        """Standard error of ``advantage``."""
        return float((self.before_error**2 + self.after_error**2) ** 0.5)

    def as_dict(self) -> dict[str, Any]:
        """Return its fields as JSON writes them, rounded to six places."""
        return {name: _rounded(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "AuditedTurn":
        """Return a turn from its fields."""
        pairs = {name: tuple(fields[name]) for name in ("before", "after")}
        return cls(**{**fields, **pairs})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value
