"""An optimizer step of 32 made-up trajectories at the paper's sizes: seconds, use of the card, memory."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from gpu_check.ceilings import wait
from gpu_check.findings import Findings, stage_parser
from gpu_check.flops import update_flops
from gpu_check.hardware import peak_tflops
from gpu_check.phase_memory import PhaseMemory
from gpu_check.variants import BFLOAT16, MORE, Variant
from gpu_check.workload import (
    PAPER,
    TINY,
    TINY_LENGTHS,
    TINY_RUN,
    made_up,
    model_config,
    paper_settings,
    random_model,
)
from ragen_agents.engines.device import avoid_cudnn_attention
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.memory.fitting import fitted
from ragen_agents.starpo.memory.planning import Sizes, this_device
from ragen_agents.starpo.setup import env_factory, make_accelerator
from ragen_agents.starpo.update.adapters import with_adapters
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner

TURNS = 5


def main() -> None:
    """Measure and write the findings."""
    parser = stage_parser(__doc__ or "")
    parser.add_argument("--variants", default="bfloat16", choices=("bfloat16", "more"))
    args = parser.parse_args()
    findings, bench = Findings(args.json), Bench(args.tiny)
    failed = False
    for variant in BFLOAT16 if args.variants == "bfloat16" else MORE:
        try:
            row = bench.measure(variant)
        except (RuntimeError, ValueError) as error:  # the others may do
            failed, row = True, {"error": f"{type(error).__name__}: {error}"[:300]}
        findings.add(variant.name, row)
        gc.collect()
        torch.cuda.empty_cache()
    if failed:
        findings.add("wrong", "a variant failed")
        raise SystemExit(1)


class PartTimer:
    """Seconds of forward and backward passes by the part that they compute.

    Args:
        using: `ActorCritic.using`, in whose blocks a part is passed.
        device: Of the models.
    """

    def __init__(self, using: Callable[[Any], AbstractContextManager[None]], device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._using, self._device, self._depth = using, device, 0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Pass a part; blocks within a block are not counted again."""
        self._depth += 1
        if self._depth == 1:
            wait(self._device)
        started = time.perf_counter()
        try:
            with self._using(part):
                yield
        finally:
            self._depth -= 1
        if self._depth == 0:
            wait(self._device)
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started


class Bench:
    """Measures variants of an update on the same trajectories.

    Args:
        tiny: Whether sizes are those of a rehearsal.
    """

    def __init__(self, tiny: bool) -> None:
        avoid_cudnn_attention()
        self._model = model_config(TINY if tiny else PAPER)
        self._layer, self._tiny = TINY_RUN if tiny else {}, tiny
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def measure(self, variant: Variant) -> dict[str, Any]:
        """Return the seconds of a second update, operations a second, and peaks against the plan."""
        config = paper_settings("starpo-s", self._layer, variant.settings)
        sizes = Sizes(config, env_factory(config, None), model=self._model)
        planner = sizes.on(this_device())
        config = fitted(config, planner)
        rows = min(32, config.episodes)
        lengths = TINY_LENGTHS if self._tiny else sizes.conversations(config.rollout.max_tokens)
        trajectories = made_up(
            min(8, rows), max(1, rows // 8), lengths, TURNS, sizes.shape.vocab_size
        )  # fmt: skip
        policy = random_model(self._model, self._device)
        if config.lora is not None:
            base = policy.bfloat16() if config.update.precision == "bfloat16" else policy
            policy = with_adapters(base, config.lora.rank, config.lora.alpha, config.seed)
        learner = Learner(config, policy, None, make_accelerator(config))
        batch = TrainBatch.of(trajectories, pad=0)
        with variant.arithmetic():
            learner.update(learner.prepare(batch), 0)
            timer = PartTimer(learner.models.using, self._device)
            learner.models.using = timer  # type: ignore[method-assign]
            memory = PhaseMemory()
            memory.attach(learner)
            memory.begin("rollout")
            started = self._now()
            prepared = learner.prepare(batch)
            scored = self._now()
            timer.seconds.clear()
            metrics = learner.update(prepared, 1)
            total = self._now() - scored
        seconds = {**timer.seconds, "step": total - sum(timer.seconds.values()), "update": total}
        if "grad_norm" not in metrics:
            raise ValueError("a gradient was not finite, so the step was skipped")
        plan = planner(config)
        return {
            "seconds": _rounded({"scores": scored - started, **seconds}),
            "tokens": sum(len(t.ids) for t in trajectories),
            "micro_batch": config.update.micro_batch_tokens,
            "grad_norm": metrics["grad_norm"],
            **_speed(sizes, trajectories, timer.seconds, is_lora=config.lora is not None),
            "memory": {phase: row for phase, row in memory.against(plan).items() if phase != "rollout"},
        }

    def _now(self) -> float:
        wait(self._device)
        return time.perf_counter()


def _speed(
    sizes: Sizes, trajectories: Sequence[Trajectory], seconds: dict[str, float], is_lora: bool
) -> dict[str, Any]:
    """Return TFLOP/s of policy and critic, and as a share of the card's peak, where it is known.

    Not with adapters: the frozen weights get no gradient, so that the count would be another.
    """
    if is_lora:
        return {}
    counts = update_flops(sizes.shape, trajectories)._asdict()
    rates = {part: counts[part] / seconds[part] / 1e12 for part in counts if part in seconds}
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    peak = peak_tflops(name)
    both = sum(counts.values()) / sum(seconds.values()) / 1e12
    found: dict[str, Any] = {"tflops": _rounded({**rates, "both": both})}
    if peak is not None:
        found["mfu"] = _rounded({part: rate / peak for part, rate in {**rates, "both": both}.items()})
    return found


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in numbers.items()}


if __name__ == "__main__":
    main()
