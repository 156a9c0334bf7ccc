"""Fit a training run to its device: the size of micro-batches, and what to change where nothing fits."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final

from ragen_agents.run_files.yaml_files import merged
from ragen_agents.starpo.config import MOST_TOKENS, TrainConfig
from ragen_agents.starpo.memory.training_memory import GIB, MemoryPlan

Planner = Callable[[TrainConfig], MemoryPlan]
"""Plans a config for a given model, game and device."""
_STEP: Final = 256
"""Chosen numbers of tokens are multiples of this."""
_MOST_ON_GPU: Final = 65_536
"""Most tokens of a chosen micro-batch; larger passes gain nothing."""
_FILLED: Final = 0.85
"""Share of a GPU up to which more than ``MOST_TOKENS`` are chosen."""
_ENOUGH: Final = 8192
"""Tokens with which a pass keeps a GPU busy, so that layers need not be recomputed for more."""
_Applies = Callable[[TrainConfig, MemoryPlan], bool]
_REMEDIES: Final[tuple[tuple[str, dict[str, Any], _Applies], ...]] = (
    (
        "update.gradient_checkpointing=true", {"update": {"gradient_checkpointing": True}},
        lambda config, _: not config.update.gradient_checkpointing,
    ),
    ("fsdp=true", {"fsdp": True}, lambda config, plan: plan.devices > 1 and not config.fsdp),
    (
        "update.precision=bfloat16", {"update": {"precision": "bfloat16"}},
        lambda config, _: config.update.precision == "float32",
    ),
    (
        "engine=vllm", {"engine": "vllm"},
        lambda config, plan: config.engine == "transformers" and plan.device.is_cuda
        and plan.devices == 1 and not config.fsdp,
    ),
    (
        "engine=vllm-server", {"engine": "vllm-server"},
        lambda config, plan: config.engine
        == ("transformers" if config.fsdp or plan.devices > 1 else "vllm"),
    ),
    ("lora.rank=64", {"lora": {"rank": 64, "alpha": 64}}, lambda config, _: config.lora is None),
)  # fmt: skip
"""Settings that make a run smaller, beside its micro-batches, and when each does; the first changes results
least."""
_DOING: Final = {
    "rollout": "to generate replies",
    "scores": "to score trajectories",
    "update": "for its update",
    "step": "for an optimizer step",
}


def fitted(config: TrainConfig, planner: Planner) -> TrainConfig:
    """Return a config that says what it left to the plan: tokens of a micro-batch, and checkpointing.

    Both depend on all memory of the device, not on what is free, so that they are the same at each start.
    Layers are only recomputed where less than ``_ENOUGH`` tokens fit without. Where nothing fits on a GPU,
    the config is the smallest; without one, a micro-batch has ``MOST_TOKENS``.
    """
    if config.update.gradient_checkpointing != "auto":
        return _with_fitting_tokens(config, planner)
    kept, again = (
        _with_fitting_tokens(_with_update(config, gradient_checkpointing=recompute), planner)
        for recompute in (False, True)
    )
    enough = min(_ENOUGH, again.update.micro_batch_tokens)
    is_enough = kept.update.micro_batch_tokens >= enough
    return kept if is_enough and planner(kept).fits else again


def _with_fitting_tokens(config: TrainConfig, planner: Planner) -> TrainConfig:
    if config.update.max_tokens_per_micro_batch is not None:
        return config
    is_cuda = planner(config).device.is_cuda
    tokens = most_tokens(config, planner) if is_cuda else None
    chosen = tokens or (_STEP if is_cuda else MOST_TOKENS)
    return _with_update(config, max_tokens_per_micro_batch=chosen)


def refusal(config: TrainConfig, planner: Planner) -> str | None:
    """Return why a run does not fit, and with which settings it would; None if it fits."""
    plan = planner(fitted(config, planner))
    if plan.fits:
        return None
    needed, memory = plan.least[plan.worst] / GIB, plan.device.memory / GIB
    name = "GPU" if plan.device.is_cuda else "machine"
    return (
        f"the run needs {needed:.1f} GiB {_DOING[plan.worst]}, but the {name} has {memory:.1f}; "
        f"{advice(config, planner)}"
    )


def advice(config: TrainConfig, planner: Planner) -> str:
    """Return with which settings a run that does not fit would, as a part of a message."""
    if config.update.gradient_checkpointing == "auto":
        config = _with_update(config, gradient_checkpointing=True)
    for names, changed in _smaller(config, planner):
        tokens = most_tokens(changed, planner)
        if tokens is None:
            continue
        given = config.update.max_tokens_per_micro_batch
        if given is None and not planner(changed).device.is_cuda:
            given = MOST_TOKENS  # what `fitted` takes there
        if given is not None and tokens < given:
            names = [*names, f"update.max_tokens_per_micro_batch={tokens}"]
        return f"it would fit with {' '.join(names)}"
    fewest = {"rollout": {"prompts_per_iteration": 1, "group_size": 2}, "evaluation": {"episodes": 1}}
    if config.episodes > 2 and most_tokens(_changed(config, fewest), planner) is not None:
        evaluated = ", evaluation.episodes" if config.evaluation.every else ""
        return f"lower rollout.group_size{evaluated} or rollout.prompts_per_iteration"
    return "lower rollout.max_tokens, or take a smaller model or several GPUs with fsdp=true"


def most_tokens(config: TrainConfig, planner: Planner) -> int | None:
    """Return the largest micro-batch with which a run fits, up to what is set or by default; None if none.

    More than ``MOST_TOKENS`` must leave a share of the device free, since they gain little and plans can be
    wrong.
    """
    given = config.update.max_tokens_per_micro_batch
    most = given or (_MOST_ON_GPU if planner(config).device.is_cuda else MOST_TOKENS)

    def fits(tokens: int) -> bool:
        plan = planner(_with_update(config, max_tokens_per_micro_batch=tokens))
        needed, memory = plan.least[plan.worst], plan.device.memory
        is_bold = given is None and tokens > MOST_TOKENS
        return needed <= (memory * _FILLED if is_bold else memory)

    if fits(most):
        return most
    steps = range(1, most // _STEP + 1)
    return bisect_left(steps, True, key=lambda count: not fits(count * _STEP)) * _STEP or None


def _smaller(config: TrainConfig, planner: Planner) -> Iterator[tuple[list[str], TrainConfig]]:
    """Yield configs that need less, and what is changed: nothing, each remedy, then all up to each."""
    plan = planner(config)
    remedies = [(name, change) for name, change, applies in _REMEDIES if applies(config, plan)]
    yield [], config
    for name, change in remedies:
        yield [name], _changed(config, change)
    for count in range(2, len(remedies) + 1):
        names, changes = zip(*remedies[:count], strict=True)
        yield list(names), _changed(config, merged(*changes))


def _changed(config: TrainConfig, change: dict[str, Any]) -> TrainConfig:
    return TrainConfig(**merged(config.model_dump(), change))


def _with_update(config: TrainConfig, **changes: int | bool) -> TrainConfig:
    return config.model_copy(update={"update": config.update.model_copy(update=changes)})
