"""Multi-turn rollouts for TRL's ``GRPOTrainer``: token in, token out, and only the model's tokens trained."""

from collections.abc import Sequence
from typing import Any, Final

from datasets import Dataset

from ragen_agents.engines.decoding import stop_token_ids
from ragen_agents.engines.transformers_engine import TransformersEngine
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.growth import FULL
from ragen_agents.rollout.trajectory import CONTEXT, Trajectory
from ragen_agents.starpo.config import Reward
from ragen_agents.starpo.parts.rewards import TurnReward
from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.conversation.wrapper import Message
from ragen_envs.errors import RagenError

_ONE_ROW: Final = (
    "GRPOTrainer takes one row of tokens per episode; ragen_agents.starpo.Trainer takes more"
)


class GameRollouts:
    """A ``rollout_func`` that plays a conversation game, its dataset and its reward function.

    ``GRPOTrainer(model, reward_funcs=episode_return, train_dataset=r.dataset(64), rollout_func=r)``.
    The rows of the dataset name levels; what the model reads is made by the game. Members of a group
    share the level and differ in the game's chance. Replies are generated with the trainer's own model.

    Args:
        env_id: Id of a conversation env.
        max_tokens: Most tokens of one reply.
        seed: Of the replies' draws.
        **settings: Over those of the id.

    Raises:
        RagenError: There is no such conversation, or its setting ``history`` is not "full".
    """

    def __init__(self, env_id: str, max_tokens: int = 200, seed: int = 0, **settings: Any) -> None:
        self.env_id, self.max_tokens, self.seed = env_id, max_tokens, seed
        self._settings = settings
        env = self._make_env()  # refuses unknown ids and settings before the training starts
        if env.settings.history != FULL:
            raise RagenError(
                f"history is '{env.settings.history}', but must be '{FULL}': {_ONE_ROW}"
            )
        self._collector: Collector | None = None

    def dataset(self, levels: int, first_seed: int = 0) -> Dataset:
        """Return a row for each of some fresh training levels."""
        seeds = range(first_seed, first_seed + levels)
        rows = [[{"role": "user", "content": f"{self.env_id} seed {seed}"}] for seed in seeds]
        return Dataset.from_dict({"prompt": rows})

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play an episode for each prompt; see ``GRPOTrainer.rollout_func``.

        Returns:
            ``prompt_ids``, ``completion_ids``, ``logprobs`` and ``env_mask`` (1 where the model wrote
            the token), a list each; ``episode_returns`` and ``successes`` for reward functions.

        Raises:
            RagenError: A prompt is not a row of ``dataset``, the game failed, or the model's chat template
                rewrites earlier turns.
        """
        seeds = [self._seed_of(prompt) for prompt in prompts]
        model = trainer.accelerator.unwrap_model(trainer.model)
        step = int(trainer.state.global_step)
        collector = self._collector = self._collector or self._make_collector(trainer, model)
        collector.engine.sync(model, step)
        groups = {seed: number for number, seed in enumerate(dict.fromkeys(seeds))}
        # Processes may share the members of a group, which differ in the game's chance.
        first = trainer.accelerator.process_index << 32
        specs = [
            GroupSpec(groups[seed], seeds.count(seed), {"seed": seed, "noise": first})
            for seed in groups
        ]
        played: dict[int, list[Trajectory]] = {number: [] for number in groups.values()}
        for trajectory in collector.collect(specs, step):
            if trajectory.error is not None:
                raise RagenError(f"{self.env_id} failed: {trajectory.error}")
            played[trajectory.group].append(trajectory)
        ordered = [played[groups[seed]].pop(0) for seed in seeds]
        rows = [_row(trajectory, collector.codec.close) for trajectory in ordered]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _seed_of(self, prompt: Sequence[Message]) -> int:
        name, _, seed = str(prompt[-1]["content"]).rpartition(" seed ")
        if name != self.env_id or not seed.isdecimal():
            raise RagenError(
                f"prompt is {prompt!r}, but must be a row of dataset() of {self.env_id}"
            )
        return int(seed)

    def _make_collector(self, trainer: Any, model: Any) -> Collector:
        tokenizer = trainer.processing_class
        codec = ChatCodec(tokenizer, stop_token_ids(model.generation_config, tokenizer))
        if not codec.appends:
            raise RagenError(f"the model's chat template rewrites earlier turns: {_ONE_ROW}")
        temperature = float(trainer.args.temperature)
        engine = TransformersEngine(model, codec.stop_token_ids, codec.pad, self.max_tokens)
        context = int(getattr(model.config, "max_position_embeddings", 1 << 30))
        return Collector(
            engine, codec, self._make_env, context, self.max_tokens, temperature,
            f"trl {self.seed} {trainer.accelerator.process_index}", TurnReward(Reward()),
        )  # fmt: skip

    def _make_env(self) -> ConversationWrapper:
        return make(self.env_id, **self._settings)


def episode_return(episode_returns: list[float], **_: Any) -> list[float]:
    """Return the sum of each episode's rewards: a reward function for ``GRPOTrainer``."""
    return episode_returns


def _row(trajectory: Trajectory, close: int) -> dict[str, Any]:
    """Return one item of the answer; an episode without a reply has one masked token.

    An episode in which a reply repeated the beginning of its turn has a second row, and only the last one is
    trained on.
    """
    row = trajectory.rows[-1]
    first = row.prompt
    return {
        "prompt_ids": row.ids[:first],
        "completion_ids": row.ids[first:] or [close],
        "logprobs": row.logprobs[first:] or [0.0],
        "env_mask": [int(turn != CONTEXT) for turn in row.turn_ids[first:]] or [0],
        "episode_returns": trajectory.episode_return,
        "successes": trajectory.success,
    }
