"""The training loop written out: collect, filter, advantages, loss, step.

    python examples/custom_loop.py --game ragen/BanditText-v0 --iterations 30

`Trainer.run` adds a critic's steps, evaluation, checkpoints and the echo-trap monitor to these lines.
"""

import argparse

import torch

from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, Trainer, merged

parser = argparse.ArgumentParser()
parser.add_argument("--game", default="ragen/BanditText-v0", help="a conversation env")
parser.add_argument("--iterations", type=int, default=30)
args = parser.parse_args()

config = TrainConfig(**merged(SCALES["laptop"], PRESETS["starpo-s-grpo"], {"game": args.game}))
trainer = Trainer(config)  # makes models, engine and games, and writes nothing before `run`
learner, policy = trainer.learner, trainer.learner.models.policy
optimizer = torch.optim.Adam(policy.parameters(), lr=config.update.learning_rate)

for iteration in range(args.iterations):
    # Collect: P levels, N episodes from each, as token ids with the model's own tokens marked.
    trainer.engine.sync(policy, iteration)
    played = trainer.collect(iteration)

    # Filter: keep the quarter of the groups whose returns differ most.
    batch = trainer.select(played.candidates, iteration)
    if batch is not None:
        # Advantages: by the registered estimator, from scores under the current policy.
        prepared = learner.prepare(batch)

        # Loss and step: mini-batches of E trajectories, cut into micro-batches that fit memory.
        for rows in learner.mini_batches(prepared, iteration):
            for loss, _ in learner.losses(prepared, rows, iteration):
                loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), config.update.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
    count = len(played.trajectories)
    success = sum(trajectory.success for trajectory in played.trajectories) / count
    earned = sum(trajectory.episode_return for trajectory in played.trajectories) / count
    print(f"{iteration + 1:3d}  success {success:.3f}  return {earned:.3f}", flush=True)
trainer.close()
