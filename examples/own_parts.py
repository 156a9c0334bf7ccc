"""Train with a reward, a callback and an env of your own.

    python examples/own_parts.py --iterations 20 --out runs/own-parts

The env is FrozenLake on 3x3 maps with at most two actions in a reply, the reward charges for the length of a
reply, and the callback prints a line per iteration and stops the run once the lake is solved.
"""

import argparse

from ragen_agents.starpo import PRESETS, SCALES, Callback, TrainConfig, Trainer, merged
from ragen_envs.conversation import make

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=20)
parser.add_argument("--out", default="runs/own-parts")
args = parser.parse_args()


def small_lake():
    """Return a conversation; called once for each episode that is played at the same time."""
    return make("ragen/FrozenLakeDeterministicText-v0", size=3, actions_per_turn=2, max_turns=3)


def short_replies(reply, result):
    """Return the parts of a turn's reward, which are summed and logged one by one."""
    return {"game": sum(result.rewards), "penalty": result.penalty, "length": -0.0005 * len(reply)}


class StopWhenSolved(Callback):
    """Prints the success of each iteration, and ends the run when it is high."""

    def on_iteration_end(self, trainer, iteration, metrics):
        """Run after each iteration."""
        length = metrics["reward/length"]
        print(f"{iteration:3d}  success {metrics['success']:.2f}  price of length {length:.3f}")
        if metrics["success"] > 0.95:
            trainer.stop()


settings = merged(
    SCALES["laptop"],
    PRESETS["starpo-grpo"],
    {
        "game": "small lake",  # a label, since the env is passed
        "advantage": {"estimator": "rloo"},
        "rollout": {"prompts_per_iteration": 8, "group_size": 8, "max_tokens": 96},
        "evaluation": {"every": 0},  # this lake has no frozen validation levels
        "iterations": args.iterations,
    },
)
Trainer(
    TrainConfig(**settings),
    args.out,
    reward=short_replies,
    callbacks=[StopWhenSolved()],
    env=small_lake,
).run()
