"""Iterations at the paper's scale, with random weights of Qwen2.5-0.5B's shape: seconds by phase, memory.

``python benchmarks/speed/paper_scale.py --engine vllm`` on a GPU takes the paper's settings as they are:
8 initial states, 16 episodes each, replies of up to 256 tokens. A machine without one takes fewer:

``python benchmarks/speed/paper_scale.py --prompts-per-iteration 2 --group-size 2 --max-tokens 4``

The weights mean nothing, so a reply says nothing that a game could read, and is as long as it may be:
such an iteration costs at least what one of a trained model does. All returns are then the same, which
the filter of StarPO-S would drop; a random share of the same size takes its place. Nothing is downloaded;
the tokenizer is the starter's, the embedding as large as Qwen's.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging as transformers_logging

from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.callbacks import ReportMetrics
from ragen_agents.starpo.config import Filter
from ragen_agents.starpo.memory.fitting import fitted
from ragen_agents.starpo.memory.planning import Sizes, this_device
from ragen_agents.starpo.memory.training_memory import GIB
from ragen_agents.starpo.memory.training_memory import PHASES as PLANNED
from ragen_agents.starpo.setup import env_factory
from ragen_agents.starpo.trainer import Trainer
from ragen_agents.starter import STARTER

PHASES = ("rollout", "games", "scores", "update", "sync", "total")


SHAPES: dict[str, dict[str, int]] = {
    "qwen2.5-0.5b": {
        "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2,
    },
    "tiny": {
        "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1,
    },
}  # fmt: skip


def make_model(folder: Path, shape_name: str) -> None:
    """Write a model folder with random weights: 494 million in the shape of Qwen2.5-0.5B."""
    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    shape = Qwen2Config(
        **SHAPES[shape_name], max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(shape)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights / 1e6:.0f} million weights", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def settings(args: argparse.Namespace, model: Path) -> TrainConfig:
    """Return the paper's settings, with those of the command line."""
    own: dict[str, Any] = {
        "game": args.game, "model": str(model), "iterations": args.iterations, "engine": args.engine,
        "rollout": {
            "prompts_per_iteration": args.prompts_per_iteration, "group_size": args.group_size,
            "max_tokens": args.max_tokens,
        },
        "update": {
            "mini_batch_size": min(32, args.prompts_per_iteration * args.group_size),
            "max_tokens_per_micro_batch": args.max_tokens_per_micro_batch,
        },
        "lora": {"rank": 64, "alpha": 64} if args.lora else None,
        "evaluation": {"every": 0}, "monitor": {"information_every": 0}, "save_every": 10_000,
    }  # fmt: skip
    config = TrainConfig(**merged(SCALES["paper"], PRESETS[args.preset], own))
    if config.filter.kind != "std":
        return config
    return config.model_copy(update={"filter": Filter(kind="random", ratio=config.filter.ratio)})


class Memory:
    """The most memory that was held, in GiB: by this process, and on its GPU by PyTorch and by all."""

    def __init__(self) -> None:
        self._device = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the GPU five times a second, for vLLM keeps memory of which PyTorch does not know."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                free, total = torch.cuda.mem_get_info()
                self._device = max(self._device, (total - free) / 2**30)

        thread = threading.Thread(target=watch, daemon=True)
        if torch.cuda.is_available():
            thread.start()
        yield
        ended.set()

    def peaks(self) -> dict[str, float | None]:
        """Return the peaks by name; None for those of a GPU where there is none."""
        cuda = torch.cuda.is_available()
        return {
            "host_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "torch_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
            "device_gib": self._device if cuda else None,
        }


def findings(rows: list[dict[str, Any]], episodes: int, memory: Memory) -> dict[str, Any]:
    """Return medians of the iterations but the first, as `gpu_check` reads them."""
    timed = rows[1:] or rows
    seconds = {
        phase: statistics.median(row.get(f"seconds/{phase}", 0.0) for row in timed)
        for phase in PHASES
    }
    rates = [written(row, episodes) / row["seconds/rollout"] for row in timed]
    return {
        "iterations": len(timed), "seconds": seconds, "tokens_per_second": statistics.median(rates),
        **memory.peaks(),
    }  # fmt: skip


def written(metrics: dict[str, Any], episodes: int) -> float:
    """Return the tokens that an iteration has written."""
    return float(metrics["reply_tokens"] * metrics["turns"] * episodes)


def main() -> None:
    """Measure and print."""
    paper = TrainConfig(**SCALES["paper"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", default="ragen/SokobanText-v0")
    parser.add_argument("--preset", default="starpo-s", choices=list(PRESETS))
    parser.add_argument("--engine", default="transformers", choices=("transformers", "vllm"))
    parser.add_argument(
        "--prompts-per-iteration", type=int, default=paper.rollout.prompts_per_iteration
    )
    parser.add_argument("--group-size", type=int, default=paper.rollout.group_size)
    parser.add_argument("--max-tokens", type=int, default=paper.rollout.max_tokens)
    parser.add_argument(
        "--max-tokens-per-micro-batch", type=int, help="the most that fits by default"
    )
    parser.add_argument("--iterations", type=int, default=3, help="the first one warms up")
    parser.add_argument("--lora", action="store_true", help="adapters of rank 64")
    parser.add_argument("--shape", default="qwen2.5-0.5b", choices=list(SHAPES))
    parser.add_argument(
        "--model",
        type=Path,
        help="folder of the weights, made if it is not there; removed by default",
    )
    parser.add_argument("--json", type=Path, help="file for medians and peaks")
    args = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()

    episodes = args.prompts_per_iteration * args.group_size
    rows: list[dict[str, Any]] = []
    memory = Memory()

    def show(iteration: int, metrics: dict[str, Any]) -> None:
        rows.append(metrics)
        spent = "  ".join(f"{name} {metrics.get(f'seconds/{name}', 0.0):.1f}" for name in PHASES)
        tokens = written(metrics, episodes)
        print(f"iteration {iteration}: {spent} s, {tokens:.0f} tokens written", flush=True)
        learned = {name: metrics[name] for name in ("grad_norm", "optimizer_steps", "entropy")}
        print(
            "  " + ", ".join(f"{name} {value:.4g}" for name, value in learned.items()), flush=True
        )
        if (
            args.json is not None
        ):  # at once: the checkpoint at the end may take longer than there is time
            args.json.write_text(json.dumps(findings(rows, episodes, memory)) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        model, run = args.model or Path(folder, "model"), Path(folder, "run")
        if not (model / "tokenizer.json").exists():  # which is written last
            make_model(model, args.shape)
        config = settings(args, model)
        planner = Sizes(config, env_factory(config, None)).on(this_device())
        plan = planner(fitted(config, planner))
        planned = ", ".join(f"{phase} {plan.total(phase) / GIB:.1f}" for phase in PLANNED)
        print(f"planned at most, GiB: {planned}", flush=True)
        trainer = Trainer(config, run, callbacks=[ReportMetrics(show)])
        # Not before: while vLLM captures its graphs, no other thread may call CUDA.
        with memory.watched():
            trainer.run()
        saved = sum(f.stat().st_size for f in run.rglob("*") if f.is_file())
        held = ", ".join(f"{k} {v:.1f}" for k, v in memory.peaks().items() if v is not None)
        print(f"at most {held}, checkpoint {saved / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
