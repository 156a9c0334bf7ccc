"""Tokens a second of the engine in this process, beside the model's own forward pass, and what bounds both.

``OMP_NUM_THREADS=1 python benchmarks/speed/decoding.py``

Episodes are played once. Then each turn's prompts are decoded again by both passes, one after the other and
with the same seeds, so that load on the machine meets both alike; processor time counts. The limit is that of
the matrix products with the weights for as many tokens as were written; reading prompts is not in it.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from transformers.utils import logging as transformers_logging

from ragen_agents.engines import Completion
from ragen_agents.engines.cpu.decoding import Decoder
from ragen_agents.engines.cpu.engine import PrefixCache, TransformersEngine
from ragen_agents.engines.cpu.forward import Forward, ModuleForward
from ragen_agents.rollout.chat import ChatCodec, stop_token_ids
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.starpo.config import Reward
from ragen_agents.starpo.parts.rewards import TurnReward
from ragen_agents.starpo.update.models import load_model
from ragen_envs.conversation import make

ROWS = 128
"""Rows of a matrix product whose time is the limit."""


class Turn(NamedTuple):
    """What an engine is asked at once."""

    prompts: list[list[int]]
    seeds: list[int]


class RecordingEngine(TransformersEngine):
    """Notes what it is asked."""

    turns: list[Turn]

    def poll(self) -> list[Completion]:
        """Answer what is queued, and note it."""
        if self._queue:
            self.turns.append(Turn([r.ids for r in self._queue], [r.seed for r in self._queue]))
        return super().poll()


class ModuleDecoder(Decoder):
    """A decoder that always takes the model's own forward pass."""

    @property
    def _forward(self) -> Forward:
        return ModuleForward(self.model, windowed=not self.reads_in_parts)


def recorded(model: Any, codec: ChatCodec, args: argparse.Namespace) -> list[Turn]:
    """Play episodes and return what the engine was asked, turn by turn."""
    engine = RecordingEngine(model, codec.stop_token_ids, codec.pad, args.max_tokens)
    engine.turns = []
    collector = Collector(
        engine, codec, lambda: make(args.game), model.config.max_position_embeddings,
        args.max_tokens, 1.0, "decoding", TurnReward(Reward()),
    )  # fmt: skip
    collector.collect([GroupSpec(k, 16, {"seed": k}) for k in range(args.groups)], 0)
    return engine.turns


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return processor seconds and the result."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def limit(model: Any) -> float:
    """Return processor seconds of the matrix products with the weights, a token."""
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    states = {m.in_features: torch.randn(ROWS, m.in_features, dtype=m.weight.dtype) for m in linears}

    def products() -> None:
        for linear in linears:
            linear(states[linear.in_features])

    with torch.inference_mode():
        products()
        return min(seconds(products)[0] for _ in range(10)) / ROWS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", default="ragen/SokobanText-v0")
    parser.add_argument("--model", default="starter")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--groups", type=int, default=8, help="of 16 episodes")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(1)
    model, tokenizer = load_model(args.model)
    model.to(getattr(torch, args.dtype))
    codec = ChatCodec(tokenizer, stop_token_ids(model.generation_config, tokenizer))
    turns = recorded(model, codec, args)
    settings = (model, codec.stop_token_ids, codec.pad, 1.0, args.max_tokens)
    decoders = {"direct": Decoder(*settings), "module": ModuleDecoder(*settings)}
    best = {name: [float("inf")] * len(turns) for name in decoders}
    for _ in range(args.rounds):
        caches = {name: PrefixCache() for name in decoders}
        tokens = 0
        for place, turn in enumerate(turns):
            for name, decoder in decoders.items():
                took, samples = seconds(partial(caches[name].sample, decoder, *turn))
                best[name][place] = min(best[name][place], took)
            tokens += sum(len(sample.ids) for sample in samples)
    bound = 1 / limit(model)
    print("| pass | rollout tokens a second | share of the limit |\n|---|--:|--:|")
    for name, times in best.items():
        rate = tokens / sum(times)
        print(f"| {name} | {rate:,.0f} | {100 * rate / bound:.0f}% |")
    print(f"| matrix products alone | {bound:,.0f} | |")


if __name__ == "__main__":
    main()
