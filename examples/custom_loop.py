"""The training loop written out: collect, filter, advantages, loss, step.

    python examples/custom_loop.py --game ragen/BanditText-v0 --iterations 30

`Trainer` adds a critic, evaluation, checkpoints, the echo-trap monitor and several processes to these lines.
"""

import argparse

import torch

from ragen_agents.engines.cpu.decoding import stop_token_ids
from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.collect import Collector
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, TurnReward, merged
from ragen_agents.starpo.rollout_step import filter_groups, learnable, training_groups
from ragen_agents.starpo.run.metrics import rollout_metrics
from ragen_agents.starpo.update.batch import TrainBatch, micro_batches, mini_batches
from ragen_agents.starpo.update.loss import batch_totals, policy_loss
from ragen_agents.starpo.update.models import ActorCritic, load_policy, score_trajectories
from ragen_agents.starpo.update.prepared import prepare
from ragen_envs.conversation import make

parser = argparse.ArgumentParser()
parser.add_argument("--game", default="ragen/BanditText-v0", help="a conversation env")
parser.add_argument("--iterations", type=int, default=30)
args = parser.parse_args()

config = TrainConfig(**merged(SCALES["laptop"], PRESETS["starpo-s-grpo"], {"game": args.game}))
policy, tokenizer = load_policy(config, torch.device("cpu"))
models = ActorCritic(policy, critic=None, temperature=config.rollout.temperature).eval()
optimizer = torch.optim.Adam(policy.parameters(), lr=config.update.learning_rate)

codec = ChatCodec(tokenizer, stop_token_ids(policy.generation_config, tokenizer))
engine = TransformersEngine(policy, codec.stop_token_ids, codec.pad, config.rollout.max_tokens)
collector = Collector(
    engine, codec, lambda: make(args.game), policy.config.max_position_embeddings,
    config.rollout.max_tokens, config.rollout.temperature, "rollout", TurnReward(config.reward),
)  # fmt: skip
cpu = torch.device("cpu")

for iteration in range(args.iterations):
    # Collect: P levels, N episodes from each, as token ids with the model's own tokens marked.
    engine.sync(policy, iteration)
    trajectories = collector.collect(training_groups(config, iteration), iteration)
    metrics = rollout_metrics(trajectories)

    # Filter: keep the quarter of the groups whose returns differ most.
    chosen = learnable(trajectories, filter_groups(config, trajectories, iteration))
    if chosen:
        batch = TrainBatch.of(chosen, codec.pad)

        # Advantages: by the registered estimator, from scores under the current policy.
        with torch.no_grad():
            scores = score_trajectories(models, batch, range(len(chosen)), cpu)
        prepared = prepare(config, batch, scores, reference_logprobs=None)

        # Loss and step: mini-batches of E trajectories, cut into micro-batches that fit memory.
        steps = -(-len(chosen) // config.update.mini_batch_size)
        for mini in mini_batches(len(chosen), steps, config.update.epochs, seed=iteration):
            totals = batch_totals(config, prepared.inputs, mini)
            for part in micro_batches(batch.sizes, mini, config.update.micro_batch_tokens):
                scores = score_trajectories(models, batch, part, cpu)
                inputs = prepared.inputs.part(part, batch.columns(part), cpu)
                loss, _ = policy_loss(config, scores, inputs, totals)
                loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), config.update.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
    print(
        f"{iteration + 1:3d}  success {metrics['success']:.3f}  return {metrics['return']:.3f}",
        flush=True,
    )
