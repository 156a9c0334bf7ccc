"""Conversations as tokens: prompts, replies and their text, and trajectories that grow turn by turn.

Text that a model has written is never tokenised again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ragen_agents.chat_template import ChatTemplate
from ragen_agents.rollout.trajectory import Trajectory
from ragen_envs.conversation import ConversationWrapper, whole_turn
from ragen_envs.conversation.parser import THINK_PREFIX
from ragen_envs.conversation.protocol import Message
from ragen_envs.errors import RagenError

FULL = "full"
"""The value of the setting ``history`` under which a conversation only grows."""


class ChatCodec(ChatTemplate):
    """The chat template of a model that is trained.

    Prompts are those of the benchmark. Replies remain the ids that were sampled.
    """

    def __init__(self, tokenizer: Any, stop_token_ids: Iterable[int] = ()) -> None:
        super().__init__(tokenizer, stop_token_ids)
        if self._close is None:
            raise RagenError(
                "the chat template does not end a turn with an end-of-sequence token "
                f"({sorted(self.stop_token_ids)}); name its end-of-turn token in the generation config"
            )
        self.close: int = self._close
        """The token that ends a turn."""
        self.pad: int = self.close if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def start(self, messages: Sequence[Message], prefix: str = "") -> list[int]:
        """Return the prompt of a conversation, as `prompt` does."""
        if self._opening and not prefix:
            raise RagenError(
                f"the chat template begins the model's turn with {THINK_PREFIX}; set think_prefix to true"
            )
        return self.prompt(messages, prefix)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without the end of the turn."""
        written = list(ids)
        while written and written[-1] in self.stop_token_ids:
            written.pop()
        return self.read(written)


def begun(codec: ChatCodec, env: ConversationWrapper, group: int, member: int) -> Trajectory:
    """Return a trajectory that holds the first prompt of a conversation."""
    first = codec.start(env.messages, env.settings.prefix)
    return Trajectory(group, member, first, messages=env.messages)


def extend(
    trajectory: Trajectory, codec: ChatCodec, env: ConversationWrapper, before: Sequence[Message],
    reply: str, closed: bool,
) -> None:  # fmt: skip
    """Append what the model reads after a reply, or begin a row where its next prompt is another one."""
    prefix = env.settings.prefix
    repeats = whole_turn(reply, prefix) != prefix + reply  # later prompts show <think> once
    if codec.appends and env.settings.history == FULL and not repeats:
        trajectory.append_context(codec.bridge(env.user, closed, prefix))
        return
    prompt = codec.start(env.messages, prefix)
    rest = codec.continuation(codec.start(before, prefix), reply, prompt)
    if rest is None:
        trajectory.begin_row(prompt)
    else:
        trajectory.append_context(rest[closed:])


def stop_token_ids(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a turn, as a model's generation config and its tokenizer name them."""
    named = generation_config.eos_token_id
    listed = named if isinstance(named, list) else [named]
    return frozenset({*listed, tokenizer.eos_token_id} - {None})


def saved_stops(source: str, config: Any, tokenizer: Any, download: bool = True) -> frozenset[int]:
    """Return the tokens that end a turn of a saved model, which may have no generation config.

    The source is its folder, or its id on the hub, of which files may be downloaded.
    """
    from transformers import GenerationConfig

    try:
        generation = GenerationConfig.from_pretrained(source, local_files_only=not download)
    except OSError:
        generation = GenerationConfig.from_model_config(config)
    return stop_token_ids(generation, tokenizer)
