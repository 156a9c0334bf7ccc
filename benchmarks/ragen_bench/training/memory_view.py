"""Show the memory of a run, phase by phase, and whether it fits: ``ragen train --plan``."""

from collections.abc import Iterator
from typing import Final

import pandas as pd
from rich.console import Console

from ragen_agents.starpo import TrainConfig
from ragen_agents.starpo.memory.fitting import fitted, refusal
from ragen_agents.starpo.memory.planning import Sizes, this_device
from ragen_agents.starpo.memory.training_memory import COMPONENTS, GIB, PHASES, Device, MemoryPlan
from ragen_agents.starpo.setup import check_shares, env_factory
from ragen_bench.console.formats import Format, Grid, print_table
from ragen_bench.console.tables import Table
from ragen_envs.errors import RagenError

_NAMES: Final = {
    "policy": "policy weights",
    "critic": "critic weights",
    "reference": "reference weights",
    "optimizer": "optimizer moments",
    "vLLM": "vLLM, without cache",
    "reserve": "reserve",
}
"""Components whose name in the table is longer."""
_HEADERS: Final = {"step": "optimizer\nstep"}


def print_memory_plan(config: TrainConfig, memory_gib: float | None, devices: int) -> bool:
    """Print the memory of each device in the phases of an iteration; returns whether the run fits."""
    if config.engine == "vllm" and devices > 1:
        raise RagenError(
            f"engine is vllm, which trains in one process; use engine=vllm-server with --devices {devices}"
        )
    check_shares(config, devices)
    device = this_device() if memory_gib is None else Device(int(memory_gib * GIB), True)
    sizes = Sizes(config, env_factory(config, None))
    planner = sizes.on(device, devices)
    fitted_config = fitted(config, planner)
    plan = planner(fitted_config)
    data = pd.DataFrame(plan.phases).fillna(0)
    what = f"{devices} GPUs of" if devices > 1 else "a GPU of" if device.is_cuda else "a CPU with"
    million = sizes.shape.parameters / 1e6
    weights = f"{million:,.0f} M" if million >= 1 else f"{million:.2f} M"
    title = f"{config.model} ({weights} weights) on {what} {device.memory / GIB:.1f} GiB"
    refused = refusal(config, planner)
    notes = [*_lengths(config, sizes), *([] if refused else _micro_batches(config, fitted_config))]
    print_table(Table.of(data, {title: memory_grid(plan)}, notes), Format.TABLE)
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(f"does not fit: {refused}" if refused else _verdict(plan))
    return refused is None


def memory_grid(plan: MemoryPlan) -> Grid:
    """Return the table of a plan in GiB; components that a run does not have are left out."""
    rows = [
        [_NAMES.get(name, name), *(_gib(plan.phases[phase].get(name, 0)) for phase in PHASES)]
        for name in COMPONENTS
        if any(plan.phases[phase].get(name, 0) for phase in PHASES)
    ]
    totals = [plan.total(phase) for phase in PHASES]
    rows.append(["total", *map(_gib, totals)])
    rows.append(["free", *(f"{(plan.device.memory - total) / GIB:.2f}" for total in totals)])
    return Grid(["peak, GiB", *(_HEADERS.get(phase, phase) for phase in PHASES)], rows, left=1, grouped=False)


def _gib(size: int) -> str:
    if not size:
        return "-"
    return f"{size / GIB:.2f}" if size >= GIB / 100 else "<0.01"


def _lengths(config: TrainConfig, sizes: Sizes) -> Iterator[str]:
    lengths = sizes.conversations(config.rollout.max_tokens)
    rows = f" in {lengths.rows} rows" if lengths.rows > 1 else ""
    yield f"conversations have up to {lengths.whole} tokens{rows}, {lengths.prompt} of them the first prompt"
    if not sizes.has_tokenizer:
        yield (
            "the model's tokenizer is not here: lengths are estimated with the starter's, which needs fewer "
            "tokens, so the run may need more memory than shown"
        )


def _micro_batches(config: TrainConfig, fitted_config: TrainConfig) -> Iterator[str]:
    chosen = "" if config.update.max_tokens_per_micro_batch else ", chosen by the plan"
    yield f"micro-batches of up to {fitted_config.update.micro_batch_tokens} tokens{chosen}"
    if fitted_config.update.recomputes and not config.update.recomputes:
        yield "layers are recomputed in the backward pass, chosen by the plan"


def _verdict(plan: MemoryPlan) -> str:
    if plan.always_fits:
        return "fits"
    return (
        "fits, unless most replies reach the token limit; in that case, lower evaluation.episodes or "
        "rollout.group_size"
    )
