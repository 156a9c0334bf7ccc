"""The training loop written out: collect, filter, advantages, loss, step.

    python examples/custom_loop.py --game ragen/BanditText-v0 --iterations 30

`Trainer` adds evaluation, checkpoints, the echo-trap monitor and several processes to these lines.
"""

import argparse

import torch
from accelerate import Accelerator

from ragen_agents.engines.decoding import stop_token_ids
from ragen_agents.engines.transformers_engine import TransformersEngine
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo import (
    PRESETS, SCALES, Collector, GroupSpec, Learner, TrainBatch, TrainConfig, group_returns,
    keep_groups, merged, rollout_metrics,
)  # fmt: skip
from ragen_agents.starpo.update.models import load_policy
from ragen_agents.starpo.parts.rewards import TurnReward
from ragen_envs.conversation import make

parser = argparse.ArgumentParser()
parser.add_argument("--game", default="ragen/BanditText-v0", help="a conversation env")
parser.add_argument("--iterations", type=int, default=30)
args = parser.parse_args()

config = TrainConfig(**merged(SCALES["laptop"], PRESETS["starpo-s-grpo"], {"game": args.game}))
policy, tokenizer = load_policy(config, torch.device("cpu"))
codec = ChatCodec(tokenizer, stop_token_ids(policy.generation_config, tokenizer))
learner = Learner(config, policy, None, Accelerator(cpu=True))
engine = TransformersEngine(policy, codec.stop_token_ids, codec.pad, config.rollout.max_tokens)
collector = Collector(
    engine, codec, lambda: make(args.game), policy.config.max_position_embeddings,
    config.rollout.max_tokens, config.rollout.temperature, "rollout", TurnReward(config.reward),
)  # fmt: skip

for iteration in range(args.iterations):
    # Collect: P initial states, N episodes from each, as token ids with the model's own tokens marked.
    engine.sync(policy, iteration)
    seeds = range(iteration * 8, iteration * 8 + 8)
    groups = [GroupSpec(i, 16, {"seed": seed}) for i, seed in enumerate(seeds)]
    trajectories = collector.collect(groups, iteration)
    metrics = rollout_metrics(trajectories)

    # Filter: keep the quarter of the groups whose returns differ most.
    kept = keep_groups(group_returns(trajectories), "std", 0.25, seed=iteration)
    learnable = [t for t in trajectories if t.group in kept and t.written]
    if learnable:
        # Advantages: score the tokens under the present policy and ask the registered estimator.
        prepared = learner.prepare(TrainBatch.of(learnable, codec.pad))
        # Loss and step: mini-batches of 32 trajectories, clipped surrogate, Adam.
        metrics |= learner.update(prepared, iteration)
    print(
        f"{iteration + 1:3d}  success {metrics['success']:.3f}  return {metrics['return']:.3f}",
        flush=True,
    )
