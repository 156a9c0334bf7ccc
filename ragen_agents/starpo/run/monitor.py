"""The echo-trap monitor: warns of collapse from what the paper found to announce it (section 4.1).

Early signs: the in-group deviation of the reward, and the token entropy, fall far below where they began.
Late sign: the gradient norm grows and stays. Collapse: success falls far below its best, for a whole window,
and so does the return, and with validation the last one agrees; or nothing is solved and the filter keeps
nothing.
Template collapse (RAGEN-2): replies can no longer be traced to their prompts, although their entropy stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, median, stdev
from typing import Literal, NamedTuple

from ragen_agents.starpo.config import Monitor

_FLOOR = 0.3
"""Share of its first value below which a deviation, an entropy or a retrieval rate is a sign."""
_SPIKE = 5.0
"""Multiple of its usual value above which a gradient norm is a sign, if it is above 1 too: less is not even
clipped by default."""
_LASTING = 3
"""Iterations that a spike of the gradient norm must last."""

Sign = Literal["reward_std", "entropy", "gradient", "template", "collapse"]

_TRACED = "information/first/reply/retrieval@1"
_CHANCE = "information/first/reply/chance@1"


class Level(NamedTuple):
    """Success and return of a policy."""

    success: float = 0.0
    returns: float = float("inf")


@dataclass
class EchoTrapMonitor:
    """Watches a run's metrics, iteration by iteration.

    A sign is reported when it appears, and again only after it has been gone. Where success is above 0.9 only
    a collapse is one: most groups then have no deviation, and the gradient is that of the few others.
    """

    config: Monitor
    history: list[Mapping[str, float]] = field(default_factory=list)
    best: Level = field(default_factory=Level)
    """Level of the best window, or of the first iteration. Rollbacks keep it."""
    initial: Level = field(default_factory=Level)
    """Level of the evaluation before the first iteration."""
    _seen: set[Sign] = field(default_factory=set)

    def begin(self, metrics: Mapping[str, float]) -> None:
        """Record the evaluation of the initial model."""
        self.initial = Level(metrics["validation/success"], metrics["validation/return"])

    def restart(self) -> None:
        """Forget all iterations but what the best of them achieved, after a rollback."""
        self.history.clear()
        self._seen.clear()

    def observe(self, metrics: Mapping[str, float]) -> dict[Sign, str]:
        """Record the metrics of the next iteration and return the new signs, with a message each."""
        self.history.append(dict(metrics))
        now = self._level()
        is_first = len(self.history) == 1 and self.best == Level()
        if (is_first or len(self.history) >= self.config.window) and now.success > self.best.success:
            self.best = now
        present = {sign: text for sign, text in self._signs() if text}
        new = {sign: text for sign, text in present.items() if sign not in self._seen}
        self._seen = set(present)
        return new

    @property
    def healthy(self) -> bool:
        """Whether no sign stands, and success is nearer to its best window's than to a collapse.

        The last iteration's too: a window's mean tells of a steep fall too late.
        """
        worst = min([self._level().success, *self._values("success")[-1:]])
        near = worst >= (1 + self.config.success_floor) / 2 * self.best.success
        return not self._seen and (near or not self.history)

    def _signs(self) -> list[tuple[Sign, str]]:
        window = self.config.window
        if len(self.history) < window:
            return []
        signs: list[tuple[Sign, str]] = [("collapse", self._collapse())]
        if len(self.history) >= 2 * window and self._level().success <= 0.9:
            signs += [
                ("reward_std", self._fallen("reward_std")),
                ("entropy", self._fallen("entropy")),
                ("gradient", self._spike()),
                ("template", self._template()),
            ]
        return signs

    def _fallen(self, name: str) -> str:
        window = self.config.window
        base, now = self._mean(name, 0, window), self._mean(name, -window, None)
        if base <= 0 or now >= _FLOOR * base:
            return ""
        return f"{name} fell to {now:.3g}, {100 * now / base:.0f}% of its first {window} iterations"

    def _spike(self) -> str:
        # Where all returns of each group are equal, nothing is learned, and the norm is no usual one.
        norms = [
            m["grad_norm"] for m in self.history
            if "grad_norm" in m and m.get("reward_std", 1.0) > 0
        ]  # fmt: skip
        window = self.config.window
        if len(norms) < window + _LASTING:
            return ""
        # A single iteration proves nothing: where few groups have a spread, its norm is one group's.
        now = min(norms[-_LASTING:])
        usual = median(norms[-window - _LASTING : -_LASTING])
        if usual <= 0 or now <= max(_SPIKE * usual, 1.0):
            return ""
        return f"gradient norm {now:.3g} is {now / usual:.1f} times its usual {usual:.3g}"

    def _template(self) -> str:
        above = [m[_TRACED] - m[_CHANCE] for m in self.history if _TRACED in m]
        if len(above) < 2 or above[0] <= 0 or self._fallen("entropy"):
            return ""
        if above[-1] >= _FLOOR * above[0]:
            return ""
        return (
            f"replies are traced to their prompts {100 * above[-1]:.0f} points above chance, at first "
            f"{100 * above[0]:.0f}, while entropy stays"
        )

    def _collapse(self) -> str:
        window, latest = self.config.window, self.history[-self.config.window :]
        if not any(m.get("success", 1.0) or m.get("kept_groups", 1.0) for m in latest):
            return f"nothing was solved and no group kept in {window} iterations"
        now, best = self._level(), max(self.best, self.initial)
        # Two standard errors, so that few trajectories are no collapse; and the policy must earn less, for in
        # a bandit success can be the worse arm.
        highest = now.success + 2 * _error(self._values("success")[-window:])
        validated = self._values("validation/success")
        floor = self.config.success_floor * max(self.initial.success, *validated, 0.0)
        if validated and validated[-1] >= floor:
            return ""  # what few levels say of each iteration is too noisy against a fixed set
        returns = self._values("return")[-window:]
        earns = bool(returns) and fmean(returns) + _error(returns) > best.returns
        fallen = highest < self.config.success_floor * best.success
        if best.success <= 0.05 or earns or not fallen:
            return ""
        return f"success fell to {now.success:.2f} over {window} iterations, from {best.success:.2f}"

    def _level(self) -> Level:
        """Return means over the last window, or what there is of it."""
        window = self.config.window
        returns = self._values("return")[-window:]
        success = self._mean("success", -window, None)
        return Level(success, fmean(returns)) if returns else Level(success)

    def _values(self, name: str) -> list[float]:
        return [metrics[name] for metrics in self.history if name in metrics]

    def _mean(self, name: str, start: int, stop: int | None) -> float:
        values: Sequence[float] = self._values(name)[start:stop]
        return fmean(values) if values else 0.0


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; 0 of a single value."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
