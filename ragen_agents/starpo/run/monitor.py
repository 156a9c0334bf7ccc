"""The echo-trap monitor: warns of collapse from what the paper found to announce it (section 4.1).

Early signs: the in-group deviation of the reward, and the token entropy, fall far below where they began.
Late sign: the gradient norm grows and stays. Collapse: success falls far below its best, for a whole window.
Template collapse (RAGEN-2): replies can no longer be traced to their prompts, although their entropy stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from ragen_agents.starpo.config import Monitor

_FLOOR = 0.3
"""Share of its first value below which a deviation, an entropy or a retrieval rate is a sign."""
_SPIKE = 5.0
"""Multiple of its usual value above which a gradient norm is a sign."""
_LASTING = 3
"""Iterations that a spike of the gradient norm must last."""

Sign = Literal["reward_std", "entropy", "gradient", "template", "collapse"]

_TRACED = "information/first/reply/retrieval@1"
_CHANCE = "information/first/reply/chance@1"


@dataclass(frozen=True)
class SignSeen:
    """One sign that was seen."""

    sign: Sign
    text: str
    """For people."""


@dataclass
class EchoTrapMonitor:
    """Watches a run's metrics, iteration by iteration.

    A sign is reported when it appears, and again only after it has been gone. Where success is above 0.9
    only a collapse is one: most groups then have no deviation, and the gradient is that of the few others.
    """

    config: Monitor
    history: list[Mapping[str, float]] = field(default_factory=list)
    _seen: set[Sign] = field(default_factory=set)

    def observe(self, metrics: Mapping[str, float]) -> list[SignSeen]:
        """Take in the metrics of the next iteration and return the signs that have newly appeared."""
        self.history.append(dict(metrics))
        present = {sign: text for sign, text in self._signs() if text}
        new = [SignSeen(sign, text) for sign, text in present.items() if sign not in self._seen]
        self._seen = set(present)
        return new

    @property
    def healthy(self) -> bool:
        """Whether no sign stands, and success is nearer to its best window's than to a collapse.

        The last iteration's too: a window's mean tells of a steep fall too late.
        """
        now, best = self._success()
        worst = min([now, *self._values("success")[-1:]])
        return not self._seen and worst >= (1 + self.config.success_floor) / 2 * best

    def _signs(self) -> list[tuple[Sign, str]]:
        window = self.config.window
        if len(self.history) < 2 * window:
            return []
        solved = self._mean("success", -window, None) > 0.9
        signs: list[tuple[Sign, str]] = [("collapse", self._collapse())]
        if not solved:
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
        norms = self._values("grad_norm")
        window = self.config.window
        if len(norms) < window + _LASTING:
            return ""
        # A single iteration proves nothing: where few groups have a spread, its norm is one group's.
        now = min(norms[-_LASTING:])
        usual = median(norms[-window - _LASTING : -_LASTING])
        if usual <= 0 or now <= _SPIKE * usual:
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
        now, best = self._success()
        if best <= 0.05 or now >= self.config.success_floor * best:
            return ""
        return f"success fell to {now:.2f} over {self.config.window} iterations, from {best:.2f}"

    def _success(self) -> tuple[float, float]:
        """Return mean success of the last window and of the best one; at first, of what there is."""
        success = self._values("success")
        window = max(1, min(self.config.window, len(success)))
        means = [fmean(success[i : i + window]) for i in range(len(success) - window + 1)]
        return (means[-1], max(means)) if means else (0.0, 0.0)

    def _values(self, name: str) -> list[float]:
        return [metrics[name] for metrics in self.history if name in metrics]

    def _mean(self, name: str, start: int, stop: int | None) -> float:
        values: Sequence[float] = self._values(name)[start:stop]
        return fmean(values) if values else 0.0
