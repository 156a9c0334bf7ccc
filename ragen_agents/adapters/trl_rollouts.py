"""Multi-turn rollouts for TRL's ``GRPOTrainer``: token in, token out, and only the model's tokens trained."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from datasets import Dataset

from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.model_files.folders import own_context
from ragen_agents.rollout.chat import FULL, ChatCodec, stop_token_ids
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import CONTEXT, Trajectory
from ragen_agents.starpo.config import Reward
from ragen_agents.starpo.parts.rewards import TurnReward
from ragen_envs.adapters.shared import make_text_only
from ragen_envs.conversation import ConversationWrapper
from ragen_envs.conversation.protocol import Message
from ragen_envs.errors import RagenError

_ONE_ROW: Final = "GRPOTrainer takes one row of tokens per episode; ragen_agents.starpo.Trainer takes more"
_CALLS: Final = 1 << 16
"""Calls of one kind, training or evaluation, in one step."""
_MEMBERS: Final = 1 << 10
"""Members of a group in one process."""
_NOISE_OF_PROCESS: Final = 1 << 48
"""Noise numbers that a process has for itself: enough for a million steps."""


class GameRollouts:
    """A ``rollout_func`` that plays a conversation game, its dataset and its reward function.

    ``GRPOTrainer(model, reward_funcs=episode_return, train_dataset=r.dataset(64), rollout_func=r)``.
    The rows of the dataset name levels; what the model reads is made by the game. Members of a group
    share the level and differ in the game's chance, and so do all calls that play the level again, also
    after training is resumed. Replies of ``max_tokens`` at most are drawn by ``seed`` from the trainer's
    own model. Settings are those of the conversation, over those of its id.

    Raises:
        RagenError: There is no such conversation, it shows pictures, or its setting ``history`` is not
            "full".
    """

    def __init__(self, env_id: str, max_tokens: int = 200, seed: int = 0, **settings: Any) -> None:
        self.env_id, self.max_tokens, self.seed = env_id, max_tokens, seed
        self._settings = settings
        env = self._make_env()  # refuses unknown ids and settings before the training starts
        if env.settings.history != FULL:
            raise RagenError(f"history is '{env.settings.history}', but must be '{FULL}': {_ONE_ROW}")
        self._collector: Collector | None = None
        self._calls: Counter[tuple[int, bool]] = Counter()

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
        groups = {seed: group for group, seed in enumerate(dict.fromkeys(seeds))}
        call = self._number_call(step, trainer.model.training)
        process = trainer.accelerator.process_index
        specs = [_group(groups[seed], seeds.count(seed), seed, process, call) for seed in groups]
        played: dict[int, list[Trajectory]] = {group: [] for group in groups.values()}
        for trajectory in collector.collect(specs, call):
            if trajectory.error is not None:
                raise RagenError(f"{self.env_id} failed: {trajectory.error}")
            played[trajectory.group].append(trajectory)
        ordered = [played[groups[seed]].pop(0) for seed in seeds]
        rows = [_row(trajectory, collector.codec.close) for trajectory in ordered]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _number_call(self, step: int, training: bool) -> int:
        """Return a number that no other call of this process has.

        It depends on the step, so that a resumed training does not begin with the first one again, and
        an evaluation does not change the numbers of the training.
        """
        kind = step, training
        number = (2 * step + (not training)) * _CALLS + self._calls[kind]
        self._calls[kind] += 1
        return number

    def _seed_of(self, prompt: Sequence[Message]) -> int:
        name, _, seed = str(prompt[-1]["content"]).rpartition(" seed ")
        if name != self.env_id or not seed.isdecimal():
            raise RagenError(f"prompt is {prompt!r}, but must be a row of dataset() of {self.env_id}")
        return int(seed)

    def _make_collector(self, trainer: Any, model: Any) -> Collector:
        tokenizer = trainer.processing_class
        codec = ChatCodec(tokenizer, stop_token_ids(model.generation_config, tokenizer))
        if not codec.appends:
            raise RagenError(f"the model's chat template rewrites earlier turns: {_ONE_ROW}")
        temperature = float(trainer.args.temperature)
        engine = TransformersEngine(model, codec.stop_token_ids, codec.pad, self.max_tokens)
        return Collector(
            engine, codec, self._make_env, own_context(model.config), self.max_tokens, temperature,
            f"trl {self.seed} {trainer.accelerator.process_index}", TurnReward(Reward()),
        )  # fmt: skip

    def _make_env(self) -> ConversationWrapper:
        return make_text_only(self.env_id, **self._settings)


def episode_return(episode_returns: list[float], **_: Any) -> list[float]:
    """Return the sum of each episode's rewards: a reward function for ``GRPOTrainer``."""
    return episode_returns


def _group(group: int, size: int, seed: int, process: int, call: int) -> GroupSpec:
    """Return a process's members of a group, with noise numbers that no other call or process uses.

    ``Collector.collect`` adds ``call * size``. Sizes can differ between calls, where processes share the
    members of a group, so each call gets ``_MEMBERS`` numbers instead.
    """
    first = process * _NOISE_OF_PROCESS + call * (_MEMBERS - size)
    return GroupSpec(group, size, {"seed": seed, "noise": first})


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
