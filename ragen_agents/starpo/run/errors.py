"""Errors that end a training run, with the setting to change."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ragen_agents.engines.device import is_out_of_memory
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.parts.filters import group_std
from ragen_agents.starpo.run.metrics import group_returns
from ragen_envs.errors import RagenError

EMPTY_LIMIT: Final = 10
"""Consecutive iterations with nothing to learn from after which a run stops."""
_PLAYING: Final = ("rollout", "sync", "evaluation")
_SAME: Final = "the same command, with that changed, resumes the run"


class TrainingFailedError(RagenError):
    """Nothing can be learned: gradients are not finite, or the filter keeps nothing; the state is saved."""


class BrokenGamesError(RagenError):
    """Every game failed in too many consecutive iterations; the state is saved."""


class OutOfMemoryError(RagenError):
    """Memory ran out; the message says in what, and which setting to lower."""


class MemoryRanOutError(MemoryError):
    """Memory ran out in one of several processes; it is raised in all of them."""


def advice(config: TrainConfig, phase: str | None) -> str:
    """Return advice on the settings that lower the memory of a phase."""
    update, rollout = config.update, config.rollout
    if phase == "loading":
        smaller = "" if config.lora is not None else ", set lora.rank=64"
        return f"use a smaller model{smaller}, or split it between processes with fsdp=true"
    if phase == "evaluation":
        return f"lower evaluation.episodes ({config.evaluation.episodes}) in a new run"
    if phase in _PLAYING:
        cache = " or vllm.cache_gib" if config.engine == "vllm" else ""
        return (
            f"lower rollout.group_size ({rollout.group_size}), rollout.prompts_per_iteration "
            f"({rollout.prompts_per_iteration}){cache} in a new run"
        )
    if phase in (None, "resuming"):
        return f"close other programs; {_SAME.replace(', with that changed,', '')}"
    recompute = "" if update.recomputes else " or set update.gradient_checkpointing=true"
    return f"lower update.max_tokens_per_micro_batch ({update.micro_batch_tokens}){recompute}; {_SAME}"


@contextmanager
def reported(config: TrainConfig, phase: str) -> Iterator[None]:
    """Raise what says that memory ran out as an error for people.

    Raises:
        OutOfMemoryError: It did.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(f"out of memory in {phase}; {advice(config, phase)}") from error


def empty_error(trajectories: Sequence[Trajectory], kind: str, iterations: int) -> RagenError:
    """Return the error of a run that has had nothing to learn from, with the cause."""
    lasting = f"in {iterations} iterations in a row"
    broken = [t.error for t in trajectories if t.error is not None]
    if len(broken) == len(trajectories):
        return BrokenGamesError(f"every game broke {lasting}: {broken[0]}")
    if not any(t.written for t in trajectories):
        return TrainingFailedError(
            f"no prompt fit the model's context {lasting}, so the model generated nothing"
        )
    equal = not group_std(group_returns(trajectories)).any()
    why = ": the members of each group all have the same return" if equal else ""
    return TrainingFailedError(f"the filter '{kind}' kept nothing {lasting}{why}")
