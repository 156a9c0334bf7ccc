"""The experiment: train a critic for a fixed policy, play, continue from every state, and compare."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from credit.continuations import ENDED, Place, Value, values
from credit.oracle import oracle_advantages
from credit.turns import AuditedTurn
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo import PRESETS, SCALES, Callback, TrainConfig, Trainer, merged
from ragen_agents.starpo.rollout_step import learnable, training_groups
from ragen_agents.starpo.setup import env_factory
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.loss import prepare
from ragen_agents.starpo.update.models import Scores

GAMES: Final = {
    "bandit": "ragen/BanditText-v0",
    "sokoban": "ragen/SokobanText-v0",
    "frozenlake-deterministic": "ragen/FrozenLakeDeterministicText-v0",
    "cube": "ragen/CubeText-v0",
}
"""Games without chance of their own, where the same replies lead to the same state, or of a single turn."""

ESTIMATES: Final[dict[str, dict[str, Any]]] = {
    "grpo": {"estimator": "grpo"},
    "dr-grpo": {"estimator": "dr-grpo"},
    "rloo": {"estimator": "rloo"},
    "opo": {"estimator": "opo"},
    "maxrl": {"estimator": "maxrl"},
    "reinforce++": {"estimator": "reinforce++"},
    "gigpo": {"estimator": "gigpo"},
    "gigpo, turn_gamma 1": {"estimator": "gigpo", "turn_gamma": 1.0},
    "gae": {"estimator": "gae"},
    "gae, lam 0.95": {"estimator": "gae", "lam": 0.95},
    "turn-gae": {"estimator": "turn-gae"},
    "turn-gae, turn_lam 0": {"estimator": "turn-gae", "turn_lam": 0.0},
    "bilevel-gae": {"estimator": "bilevel-gae"},
    "bilevel-gae, first_value 1": {"estimator": "bilevel-gae", "params": {"first_value": 1.0}},
}
"""Sections ``advantage`` by their label in the tables; what they leave out has the defaults of its method."""


@dataclass(frozen=True)
class Plan:
    """How large an audit is."""

    game: str
    """Id of a conversation env."""
    model: str = "starter"
    groups: int = 24
    """Levels."""
    members: int = 8
    """Trajectories of each level."""
    copies: int = 32
    """Continuations of each state; even."""
    critic_iterations: int = 20
    """Iterations of ``groups`` x ``members`` trajectories from which the critic learns, the policy fixed."""
    max_tokens: int = 200
    """Most tokens of a reply."""
    seed: int = 0

    def config(self) -> TrainConfig:
        """Return the settings of the run that trains the critic."""
        own = {
            "game": self.game,
            "model": self.model,
            "seed": self.seed,
            "iterations": self.critic_iterations,
            "rollout": {
                "prompts_per_iteration": self.groups,
                "group_size": self.members,
                "max_tokens": self.max_tokens,
            },
            "filter": {"kind": "none", "ratio": 1.0},
            "loss": {"kl": "none"},
            "update": {"critic_warmup": self.critic_iterations},
            "evaluation": {"every": 0},
            "monitor": {"information_every": 0},
        }
        return TrainConfig(**merged(SCALES["laptop"], PRESETS["starpo-ppo"], own))


def audit(plan: Plan) -> list[AuditedTurn]:
    """Run an audit; its steps are shown on stderr."""
    found: list[AuditedTurn] = []
    with tempfile.TemporaryDirectory() as folder:
        Trainer(plan.config(), Path(folder) / "run", callbacks=[_Audit(plan, found)]).run()
    return found


class _Audit(Callback):
    """Measures once the critic is trained."""

    def __init__(self, plan: Plan, found: list[AuditedTurn]) -> None:
        self._plan, self._found = plan, found

    def on_iteration_end(self, trainer: Trainer, iteration: int, metrics: dict[str, Any]) -> None:  # noqa: ARG002
        """Show how far the critic is."""
        explained = metrics.get("explained_variance", 0.0)
        _show(f"critic {iteration}/{self._plan.critic_iterations}: explains {explained:.0%}")

    def on_train_end(self, trainer: Trainer) -> None:
        """Play, continue and compare."""
        config, plan = trainer.config, self._plan
        levels = training_groups(config, config.iterations)
        played = trainer.collector.collect(levels, config.iterations)
        chosen = learnable(played, [level.group for level in levels])
        worth = values(
            trainer.collector, levels, chosen, plan.copies, config.iterations + 1,
            lambda done, count: _show(f"continued {done} of {count} states"),
        )  # fmt: skip
        batch = TrainBatch.of(chosen, trainer.codec.pad)
        assigned = assignments(config, batch, trainer.learner.score(batch))
        env = env_factory(config, None)()
        for place, trajectory in enumerate(chosen):
            env.reset(**_start(levels[trajectory.group].options))
            self._found += _turns(
                trajectory, worth, oracle_advantages(env, trajectory),
                {label: each[place] for label, each in assigned.items()},
            )  # fmt: skip


def assignments(config: TrainConfig, batch: TrainBatch, scores: Scores) -> dict[str, list[list[float]]]:
    """Return what each estimator assigns to the turns of each trajectory: the mean over their tokens."""
    found = {}
    for label, settings in ESTIMATES.items():
        section = config.advantage.model_copy(update=settings)
        given = prepare(config.model_copy(update={"advantage": section}), batch, scores, None)
        found[label] = _turn_means(given.inputs.advantages.tolist(), batch.turn_ids.tolist())
    return found


def _turn_means(
    advantages: Sequence[Sequence[float]], turn_ids: Sequence[Sequence[int]]
) -> list[list[float]]:
    return [
        [
            fmean(value for value, turn in zip(row, turns, strict=True) if turn == number)
            for number in range(max(turns) + 1)
        ]
        for row, turns in zip(advantages, turn_ids, strict=True)
    ]


def _turns(
    trajectory: Trajectory, worth: dict[Place, Value], oracle: Sequence[float],
    assigned: dict[str, list[float]],
) -> list[AuditedTurn]:  # fmt: skip
    rewards = [turn.reward for turn in trajectory.turns]
    places = [Place(trajectory.group, trajectory.member if turn else 0, turn) for turn in range(len(rewards))]
    states = [*(worth[place] for place in places), ENDED]
    return [
        AuditedTurn(
            group=trajectory.group, member=trajectory.member, turn=turn, reward=reward,
            to_go=sum(rewards[turn:]), before=states[turn].halves, after=states[turn + 1].halves,
            before_error=states[turn].error, after_error=states[turn + 1].error,
            oracle=oracle[turn],
            assigned={label: each[turn] for label, each in assigned.items()},
        )
        for turn, reward in enumerate(rewards)
    ]  # fmt: skip


def _start(options: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in options.items() if name != "seed"}
    return {"seed": options["seed"], "options": others}


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
