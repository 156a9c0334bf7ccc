"""Warn of settings that a run would silently ignore, and of methods that are only half set."""

import json
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from ragen_agents.starpo.config import TrainConfig, parts_of
from ragen_agents.starpo.parts.estimators import ESTIMATORS
from ragen_agents.starpo.parts.registry import is_builtin

Reason = Callable[[TrainConfig], str | None]
"""Returns the setting because of which another one is ignored, or None if it is not."""


def setting_warnings(config: TrainConfig) -> Iterator[str]:
    """Yield a line for each setting that is ignored, or that is only half of a method."""
    for name, reason in IGNORED.items():
        value = attrgetter(name)(config)
        if value != attrgetter(name)(TrainConfig()) and (cause := reason(config)) is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield f"{name}={shown} has no effect with {cause}"
    for field, part in parts_of(config).items():
        for name, value in part.published.items():
            if (given := _setting(config, name, part.params)) != value:
                yield f"{field}={part.name} was published with {name}={value}, but it is {given}"
    for name in ("critic_warmup", "warmup_iterations"):
        if (length := getattr(config.update, name)) >= config.iterations:
            yield (
                f"update.{name} is {length}, but iterations is {config.iterations}: the policy "
                f"{'does not learn' if name == 'critic_warmup' else 'never has its full learning rate'}"
            )


def _setting(config: TrainConfig, name: str, defaults: Mapping[str, float]) -> Any:
    """Return the value of a setting, which may be a part's own with a default."""
    section, _, own = name.partition(".params.")
    return {**defaults, **getattr(config, section).params}[own] if own else attrgetter(name)(config)


def _read_by(*estimators: str) -> Reason:
    """Return the reason for a setting that only these of the built-in estimators read."""

    def reason(config: TrainConfig) -> str | None:
        estimator = ESTIMATORS[config.advantage.estimator]
        reads = estimator.name in estimators or not is_builtin(estimator)
        return None if reads else f"advantage.estimator={estimator.name}"

    return reason


def _discounts_no_turns(config: TrainConfig) -> str | None:
    # Settings of earlier versions, whose default was 1.0, are not in vain.
    discounts = config.advantage.turn_gamma < 1.0
    return _read_by("turn-gae", "bilevel-gae", "gigpo")(config) if discounts else None


def _without_critic(config: TrainConfig) -> str | None:
    if config.has_critic:
        return None
    return f"advantage.estimator={config.advantage.estimator}, which has no critic"


def _if_set(name: str, *values: object) -> Reason:
    """Return the reason for a setting that is ignored where another one has one of these values."""

    def reason(config: TrainConfig) -> str | None:
        value = attrgetter(name)(config)
        return f"{name}={value}" if value in values else None

    return reason


def _unbounded_below(config: TrainConfig) -> str | None:
    loss = config.loss
    unbounded = loss.policy_loss == "cispo" and not loss.params.get("lower")
    return f"loss.policy_loss={loss.policy_loss}" if unbounded or loss.policy_loss == "gpg" else None


IGNORED: Final[dict[str, Reason]] = {
    "advantage.gamma": _read_by("gae", "bilevel-gae", "reinforce++"),
    "advantage.lam": _read_by("gae", "bilevel-gae"),
    "advantage.turn_gamma": _discounts_no_turns,
    "advantage.turn_lam": _read_by("turn-gae", "bilevel-gae"),
    "advantage.whiten": _without_critic,
    "critic.kind": _without_critic,
    "filter.ratio": _if_set("filter.kind", "none", "nonzero"),
    "reward.in_filter": lambda c: None if c.filter.reads_returns else f"filter.kind={c.filter.kind}",
    "loss.cliprange_value": _without_critic,
    "loss.clip_ratio_low": _unbounded_below,
    "loss.clip_ratio_high": _if_set("loss.policy_loss", "gpg"),
    "loss.dual_clip": _if_set("loss.policy_loss", "cispo", "gmpo", "gpg"),
    "loss.kl": _if_set("loss.kl_coef", 0.0),
    "loss.kl_coef": _if_set("loss.kl", "none"),
}
"""The settings of the method that are easily set in vain, each with the reason."""
