"""Iterations at the paper's scale, with random weights of Qwen2.5-0.5B's shape: seconds by phase, memory.

``PYTHONPATH=benchmarks python -m gpu_check.iterations --engine vllm`` on a GPU takes the paper's settings as
they are: 8 initial states, 16 episodes each, replies of up to 256 tokens. A machine without one takes fewer:

``python -m gpu_check.iterations --prompts-per-iteration 2 --group-size 2 --max-tokens 4``

The weights mean nothing, so a reply says nothing that a game could read, and is as long as it may be:
such an iteration costs at least what one of a trained model does. Nothing is downloaded, and no checkpoint is
written.
"""

import os
import resource
import statistics
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers.utils import logging as transformers_logging

from gpu_check.findings import Findings, stage_parser
from gpu_check.phase_memory import PhaseMemory
from gpu_check.workload import PAPER, SHAPES, TINY, TINY_RUN, model_folder, paper_settings
from ragen_agents.starpo import PRESETS, TrainConfig, merged
from ragen_agents.starpo.callbacks import Callback
from ragen_agents.starpo.memory.planning import Sizes, this_device
from ragen_agents.starpo.setup import env_factory
from ragen_agents.starpo.trainer import Trainer

PHASES: Final = ("rollout", "games", "scores", "update", "sync", "total")
_LEARNED: Final = ("grad_norm", "entropy", "mismatch_mean", "mismatch_max")


class EnoughError(Exception):
    """The last iteration that is wanted is done."""


class Stopwatch(Callback):
    """Keeps the metrics of each iteration and ends the run after the last one, before a checkpoint.

    Args:
        iterations: How many are wanted.
        report: Called after each with the metrics of all.
    """

    def __init__(self, iterations: int, report: Callable[[list[dict[str, Any]]], None]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._iterations, self._report = iterations, report

    def on_iteration_end(self, trainer: Trainer, iteration: int, metrics: dict[str, Any]) -> None:  # noqa: ARG002
        """Report, and end the run if it is time.

        Raises:
            EnoughError: It is.
        """
        self.rows.append(metrics)
        spent = "  ".join(f"{name} {metrics.get(f'seconds/{name}', 0.0):.2f}" for name in PHASES)
        print(f"iteration {iteration}: {spent} s", flush=True)
        self._report(self.rows)
        if iteration == self._iterations:
            raise EnoughError


def timed(trainer: Trainer, memory: PhaseMemory) -> None:
    """Run a trainer until its stopwatch ends it; both have to be its callbacks."""
    # The device is not watched before: while vLLM captures its graphs, no other thread may call CUDA.
    with memory.watched(), suppress(EnoughError):
        trainer.run()
    memory.begin("rollout")  # notes the peak since the update


def summary(rows: list[dict[str, Any]], config: TrainConfig) -> dict[str, Any]:
    """Return medians of the iterations but the first, which loads and compiles, and what was learned."""
    later = rows[1:] or rows
    seconds = {
        phase: statistics.median(row.get(f"seconds/{phase}", 0.0) for row in later) for phase in PHASES
    }
    tokens = statistics.median(row["reply_tokens"] * row["turns"] * config.episodes for row in later)
    return {
        "iterations": len(rows),
        "seconds": {phase: round(value, 3) for phase, value in seconds.items()},
        "totals": [round(row["seconds/total"], 2) for row in rows],
        "reply_tokens": round(tokens),
        "reply_tokens_per_second": round(tokens / seconds["total"]),
        "reply_tokens_per_second_of_rollout": round(tokens / seconds["rollout"]),
        "learned": {name: rows[-1][name] for name in _LEARNED if name in rows[-1]},
    }


def memory_plan(config: TrainConfig) -> Any:
    """Return the memory plan of a trainer's config on this device."""
    return Sizes(config, env_factory(config, None)).on(this_device())(config)


def own_settings(args: Any, model: Path) -> dict[str, Any]:
    """Return the settings that the command line changes."""
    given = {
        "prompts_per_iteration": args.prompts_per_iteration, "group_size": args.group_size,
        "max_tokens": args.max_tokens,
    }  # fmt: skip
    own: dict[str, Any] = {
        "model": str(model), "engine": args.engine, "iterations": args.iterations + 1,
        "rollout": {name: value for name, value in given.items() if value is not None},
    }  # fmt: skip
    if args.lora:
        own["lora"] = {"rank": 64, "alpha": 64}
    return merged(TINY_RUN if args.tiny else {}, own)


def main() -> None:
    """Measure and write the findings."""
    parser = stage_parser(__doc__ or "")
    parser.add_argument("--preset", default="starpo-s", choices=list(PRESETS))
    parser.add_argument("--engine", default="transformers", choices=("transformers", "vllm"))
    parser.add_argument("--prompts-per-iteration", type=int)
    parser.add_argument("--group-size", type=int)
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--iterations", type=int, default=3, help="the first one warms up")
    parser.add_argument("--lora", action="store_true", help="adapters of rank 64")
    parser.add_argument("--shape", choices=list(SHAPES))
    args = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    findings = Findings(args.json)
    shape = args.shape or (TINY if args.tiny else PAPER)
    model = model_folder(args.work / f"model-{shape}", shape)
    config = paper_settings(args.preset, own_settings(args, model))
    memory = PhaseMemory()

    def report(rows: list[dict[str, Any]]) -> None:
        for name, value in summary(rows, config).items():
            findings.add(name, value, shown=False)

    stopwatch = Stopwatch(args.iterations, report)
    trainer = Trainer(config, args.work / f"run-{os.getpid()}", callbacks=[stopwatch, memory])
    plan = memory_plan(trainer.config)
    timed(trainer, memory)
    findings.add("memory", memory.against(plan))
    for name, value in findings.values.items():
        print(f"{name}: {value}", flush=True)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    findings.add("host_gib", round(held, 2))
    if torch.cuda.is_available():
        findings.add("device", torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
