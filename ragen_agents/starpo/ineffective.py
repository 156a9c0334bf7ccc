"""Settings that have no effect beside others, of which a run warns at its start.

Estimators and policy losses of a user's own get their whole section, so that nothing is known of what they
read.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ragen_agents.starpo.config import Server, TrainConfig, Vllm
from ragen_agents.starpo.parts.aggregations import AGGREGATIONS
from ragen_agents.starpo.parts.estimators import ESTIMATORS
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES
from ragen_agents.starpo.parts.registry import is_projects


@dataclass(frozen=True)
class Run:
    """What decides which settings have an effect."""

    config: TrainConfig
    has_own_engine: bool = False
    """Whether the caller generates replies itself."""
    is_split: bool = False
    """Whether processes share the weights out."""
    has_own_reward: bool = False
    """Whether the caller scores turns itself."""


Reason = Callable[[Run], str | None]
"""Returns what takes a setting's effect away, or None if it has one."""


def ineffective_settings(run: Run) -> Iterator[str]:
    """Yield one line for each setting that differs from its default and has no effect."""
    for name, reason in REASONS.items():
        value = _value(run.config, name)
        if value != _value(_defaults(), name) and (why := reason(run)) is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield f"{name}={shown} has no effect with {why}"


@cache
def _defaults() -> TrainConfig:
    return TrainConfig()


def _value(config: TrainConfig, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _read_by(*estimators: str) -> Reason:
    """Return the reason for a setting that no other of the project's estimators reads."""

    def reason(run: Run) -> str | None:
        name = run.config.advantage.estimator
        return None if name in estimators or _has_own_estimator(run) else _estimator(run)

    return reason


def _has_own_estimator(run: Run) -> bool:
    return not is_projects(ESTIMATORS[run.config.advantage.estimator].function)


def _estimator(run: Run) -> str:
    return f"advantage.estimator={run.config.advantage.estimator}"


def _without_critic(run: Run) -> str | None:
    return None if run.config.has_critic else f"{_estimator(run)}, which has no critic"


def _whiten(run: Run) -> str | None:
    return None if _has_own_estimator(run) else _without_critic(run)


def _vf_coef(run: Run) -> str | None:
    separate = "critic.kind=separate" if run.config.critic.kind == "separate" else None
    return _without_critic(run) or separate


def _filter_kind(*kinds: str) -> Reason:
    def reason(run: Run) -> str | None:
        kind = run.config.filter.kind
        return f"filter.kind={kind}" if kind in kinds else None

    return reason


def _in_filter(run: Run) -> str | None:
    how = run.config.filter
    return None if how.reads_returns else f"filter.kind={how.kind}"


def _of_loss(reason: Reason) -> Reason:
    """Return the reason for a setting of the loss, of which a policy loss of the user's own knows."""

    def of_loss(run: Run) -> str | None:
        chosen = POLICY_LOSSES[run.config.loss.policy_loss]
        return reason(run) if is_projects(chosen.function) else None

    return of_loss


def _dual_clip(run: Run) -> str | None:
    name = run.config.loss.policy_loss
    return f"loss.policy_loss={name}" if name == "cispo" else None


def _kl_coef(run: Run) -> str | None:
    return "loss.kl=none" if run.config.loss.kl == "none" else None


def _kl(run: Run) -> str | None:
    return None if run.config.loss.kl_coef else "loss.kl_coef=0"


def _of_mismatch(run: Run) -> str | None:
    """Return the reason for a correction of what engine and trainer compute differently."""
    trusted = run.config.trusts_rollout_scores and not run.has_own_engine and not run.is_split
    same = "engine=transformers and update.precision=float32"
    return f"{same}, whose log-probabilities are the trainer's" if trusted else None


def _length_norm(run: Run) -> str | None:
    name = run.config.loss.agg_mode
    reads = name == "seq-mean-token-sum-norm" or not is_projects(AGGREGATIONS[name].function)
    return None if reads else f"loss.agg_mode={name}"


def _mis_level(run: Run) -> str | None:
    return "loss.mis_bounds=null" if run.config.loss.mis_bounds is None else None


def _float32_head(run: Run) -> str | None:
    precision = run.config.update.precision
    return "update.precision=float32" if precision == "float32" else None


def _old_logprobs(run: Run) -> str | None:
    config = run.config
    if run.has_own_engine or config.engine != "transformers":
        return _another_engine("transformers")(run)
    if config.update.precision != "float32":
        return f"update.precision={config.update.precision}"
    if config.has_critic and config.critic.kind == "shared":
        return "critic.kind=shared"
    return "fsdp=true" if run.is_split else None


def _another_engine(*engines: str) -> Reason:
    def reason(run: Run) -> str | None:
        if run.has_own_engine:
            return "an engine that is passed to the trainer"
        return None if run.config.engine in engines else f"engine={run.config.engine}"

    return reason


def _own_engine(run: Run) -> str | None:
    return _another_engine(run.config.engine)(run)


def _own_reward(run: Run) -> str | None:
    return "a reward that is passed to the trainer" if run.has_own_reward else None


def _evaluation(run: Run) -> str | None:
    return None if run.config.evaluation.every else "evaluation.every=0"


def _information(run: Run) -> str | None:
    return None if run.config.monitor.information_every else "monitor.information_every=0"


REASONS: Final[dict[str, Reason]] = {
    "advantage.gamma": _read_by("gae", "bilevel-gae"),
    "advantage.lam": _read_by("gae", "bilevel-gae"),
    "advantage.turn_gamma": _read_by("turn-gae", "bilevel-gae", "gigpo"),
    "advantage.turn_lam": _read_by("turn-gae", "bilevel-gae"),
    "advantage.whiten": _whiten,
    "critic.kind": _without_critic,
    "critic.vf_coef": _vf_coef,
    "filter.ratio": _filter_kind("none", "nonzero"),
    "filter.loss_weight": _filter_kind("none"),
    **{f"reward.{name}": _own_reward for name in ("game", "penalty", "format", "grounded")},
    "reward.in_filter": _in_filter,
    "loss.cliprange_value": _of_loss(_without_critic),
    "loss.dual_clip": _dual_clip,
    "loss.kl": _of_loss(_kl),
    "loss.kl_coef": _of_loss(_kl_coef),
    "loss.length_norm": _of_loss(_length_norm),
    "loss.mis_bounds": _of_mismatch,
    "loss.mis_level": _of_loss(_mis_level),
    "loss.tis_cap": _of_mismatch,
    "update.float32_head": _float32_head,
    "update.old_logprobs": _old_logprobs,
    "engine": _own_engine,
    **{f"vllm.{name}": _another_engine("vllm") for name in Vllm.model_fields},
    "vllm.max_model_len": _another_engine("vllm", "vllm-server"),
    **{f"server.{name}": _another_engine("vllm-server") for name in Server.model_fields},
    "evaluation.temperature": _evaluation,
    "monitor.information_prompts": _information,
    "monitor.retrieval_floor": _information,
}
"""What takes the effect of a setting away, by its name.

Left out are those that presets, scales and sweeps set for several methods at once:
``update.critic_learning_rate``, ``update.steps``, ``loss.kl_estimator`` and ``evaluation.episodes``.
"""
