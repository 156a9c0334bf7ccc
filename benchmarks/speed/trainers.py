"""Iterations a minute of the StarPO trainer and of TRL's GRPOTrainer, on the same tokens.

``python benchmarks/speed/trainers.py --game ragen/SokobanText-v0``

Both train the starter model in float32 on the same trajectories: the learning rate is so small that the
model stays what it is, and replies' seeds derive from the iteration. TRL gets a rollout function around
the same collector, so the rollouts cost the same and the difference is the update and what surrounds it.
``--rollout generate`` gives TRL the rollout function that its users write: ``model.generate``, turn by turn.
"""

import argparse
import os
import tempfile
import time
from itertools import pairwise
from typing import Any

import torch

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from datasets import Dataset
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from ragen_agents.engines.base import Completion, TokenRequest
from ragen_agents.rollout.collect import Collector
from ragen_agents.rollout.trajectory import CONTEXT
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.callbacks import ReportMetrics
from ragen_agents.starpo.rollout_step import training_groups
from ragen_agents.starpo.trainer import Trainer

STILL = 1e-12
"""A learning rate that leaves the model as it is."""


def config(game: str, iterations: int, **layers: Any) -> TrainConfig:
    """Return StarPO with group-relative advantages and no divergence: what TRL's defaults do."""
    fixed = {
        "game": game, "iterations": iterations, "loss": {"kl": "none", "entropy_coef": 0.0},
        "update": {"learning_rate": STILL}, "evaluation": {"every": 0}, "save_every": 10_000,
        "monitor": {"information_every": 0},
    }  # fmt: skip
    return TrainConfig(**merged(SCALES["laptop"], PRESETS["starpo-grpo"], fixed, layers))


def time_ours(settings: TrainConfig) -> tuple[list[float], list[dict[str, float]]]:
    """Return seconds and metrics of each iteration."""
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            settings, folder, callbacks=[ReportMetrics(lambda _, metrics: rows.append(metrics))]
        )
        trainer.run()
    return [row["seconds/total"] for row in rows], rows


class GenerateEngine:
    """The engine protocol by ``model.generate``: every turn reads its whole prompt again."""

    def __init__(self, model: Any, stop_token_ids: frozenset[int], pad: int, max_tokens: int) -> None:
        self.model, self.stop_token_ids, self.pad, self.max_tokens = (
            model,
            stop_token_ids,
            pad,
            max_tokens,
        )
        self._waiting: list[TokenRequest] = []

    def submit(self, requests: list[TokenRequest]) -> None:
        """Take requests in."""
        self._waiting += requests

    @torch.no_grad()
    def poll(self) -> list[Completion]:
        """Write the replies of everything that waits."""
        batch, self._waiting = self._waiting, []
        longest = max(len(r.ids) for r in batch)
        ids = torch.tensor([[self.pad] * (longest - len(r.ids)) + r.ids for r in batch])
        real = torch.tensor([[0] * (longest - len(r.ids)) + [1] * len(r.ids) for r in batch])
        output = self.model.generate(
            input_ids=ids, attention_mask=real, max_new_tokens=self.max_tokens, do_sample=True,
            temperature=batch[0].temperature, top_k=0, top_p=1.0, eos_token_id=list(self.stop_token_ids),
            pad_token_id=self.pad,
        )  # fmt: skip
        found = []
        for request, row in zip(batch, output[:, longest:].tolist(), strict=True):
            stop = next((i + 1 for i, t in enumerate(row) if t in self.stop_token_ids), None)
            reply = row[:stop]
            found.append(
                Completion(request.key, reply, [0.0] * len(reply), "length" if stop is None else "stop", 0)
            )  # fmt: skip
        return found

    def release(self) -> None:
        """Do nothing; nothing is kept."""


def time_trl(settings: TrainConfig, rollout: str) -> tuple[list[float], list[float]]:
    """Return seconds of each of TRL's iterations, and those that the rollouts took."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Trainer(settings, folder)
        collector: Collector = ours.collector
        if rollout == "generate":
            collector.engine = GenerateEngine(  # type: ignore[assignment]
                ours.learner.models.policy, ours.codec.stop_token_ids, ours.codec.pad,
                settings.rollout.max_tokens,
            )  # fmt: skip
        times, spent = [time.perf_counter()], []

        def play(prompts: list[str], _: GRPOTrainer) -> dict[str, Any]:
            started = time.perf_counter()
            specs = training_groups(settings, len(spent))
            assert len(prompts) == sum(spec.size for spec in specs)
            found = collector.collect(specs, len(spent))
            cuts = [t.turn_ids.index(0) for t in found]
            spent.append(time.perf_counter() - started)
            return {
                "prompt_ids": [t.ids[:cut] for t, cut in zip(found, cuts, strict=True)],
                "completion_ids": [t.ids[cut:] for t, cut in zip(found, cuts, strict=True)],
                "logprobs": [t.logprobs[cut:] for t, cut in zip(found, cuts, strict=True)],
                "env_mask": [
                    [int(turn != CONTEXT) for turn in t.turn_ids[cut:]]
                    for t, cut in zip(found, cuts, strict=True)
                ],
                "outcome": [t.episode_return for t in found],
            }  # fmt: skip

        def outcome(outcome: list[float], **_: Any) -> list[float]:
            return outcome

        groups, members = settings.rollout.prompts_per_iteration, settings.rollout.group_size
        arguments = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=settings.update.mini_batch_size,
            gradient_accumulation_steps=1, num_generations=members, max_steps=settings.iterations
            * (groups * members // settings.update.mini_batch_size), steps_per_generation=groups * members
            // settings.update.mini_batch_size, learning_rate=STILL, beta=0.0, temperature=1.0, bf16=False,
            use_cpu=True, save_strategy="no", report_to="none", logging_steps=10_000,
            disable_tqdm=True, max_completion_length=2000, lr_scheduler_type="constant",
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=ours.learner.models.policy, args=arguments, reward_funcs=outcome,
            processing_class=ours.tokenizer, rollout_func=play,
            train_dataset=Dataset.from_list([{"prompt": f"{i}"} for i in range(groups * 4)]),
        )  # fmt: skip
        steps_each = groups * members // settings.update.mini_batch_size
        _note_steps(trainer, times, steps_each)
        trainer.train()
    return [b - a for a, b in pairwise(times)], spent


def _note_steps(trainer: GRPOTrainer, times: list[float], steps_each: int) -> None:
    from transformers import TrainerCallback

    class Note(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            times[0] = time.perf_counter()

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step % steps_each == 0:
                times.append(time.perf_counter())

    trainer.add_callback(Note())


def rate(seconds: list[float]) -> str:
    """Return iterations a minute by the median, the first iteration left out, and its seconds."""
    middle = sorted(seconds[1:])[len(seconds[1:]) // 2]
    return f"{60 / middle:6.1f} iterations/min  {middle:6.2f} s"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", default="ragen/SokobanText-v0")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rollout", choices=("shared", "generate"), default="shared")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers_logging.set_verbosity_error()
    whole = config(args.game, args.iterations)
    seconds, rows = time_ours(whole)
    print(f"StarPO trainer, all groups      {rate(seconds)}   {phases(rows)}")
    part, rows = time_ours(config(args.game, args.iterations, filter={"kind": "std", "ratio": 0.25}))
    print(f"StarPO trainer, 25% by std      {rate(part)}   {phases(rows)}")
    found, spent = time_trl(whole, args.rollout)
    middle = sorted(spent[1:])[len(spent[1:]) // 2]
    print(f"TRL GRPOTrainer, {args.rollout:8} rollout {rate(found)}   rollout {middle:.2f}")


def phases(rows: list[dict[str, float]]) -> str:
    """Return the median seconds of the phases."""
    names = ("rollout", "games", "scores", "update")
    middle = {
        name: sorted(row.get(f"seconds/{name}", 0.0) for row in rows[1:])[len(rows[1:]) // 2]
        for name in names
    }
    return "  ".join(f"{name} {value:.2f}" for name, value in middle.items())


if __name__ == "__main__":
    main()
