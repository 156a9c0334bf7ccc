"""How long a game's conversations can become, in tokens."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ragen_agents.rollout.chat import ChatCodec
from ragen_envs.conversation import ConversationWrapper, format_reply
from ragen_envs.text import action_texts

_EPISODES: Final = 8
"""Episodes that are played with replies in the right form, and as many with replies that are cut off."""
_TEMPLATE: Final = 64
"""Tokens that a template may put around a message, where it does not simply append."""


def longest_conversation(env: ConversationWrapper, codec: ChatCodec, max_tokens: int) -> int:
    """Return an upper bound of what a model reads and writes in one conversation, in tokens.

    A few episodes are played at random. Prompts and feedback may be longer than the longest seen by as much
    as those seen differ, and every reply may have ``max_tokens``. In games whose texts vary without limit
    this is an estimate.

    Args:
        env: The game; it is reset.
        codec: The model's chat template.
        max_tokens: Most tokens of a reply.
    """
    settings = env.settings
    firsts, follow_ups = [], []
    for episode in range(2 * _EPISODES):
        env.reset(seed=episode)
        firsts.append(len(codec.start(env.messages, settings.prefix)))
        follow_ups += _follow_ups(env, codec, np.random.default_rng(episode), episode % 2 == 1)
    kept = {"full": settings.max_turns, "last": settings.history_turns, "none": 0}
    earlier = min(kept[settings.history], settings.max_turns - 1)
    return _bound(firsts) + max_tokens + earlier * (_bound(follow_ups or firsts) + max_tokens)


def _follow_ups(
    env: ConversationWrapper, codec: ChatCodec, rng: np.random.Generator, cut_off: bool
) -> list[int]:
    """Play an episode to its end and return the tokens between each reply and the next."""
    found = []
    while env.end is None:
        most = min(env.settings.actions_per_turn, env.budget.actions)
        actions = env.random_actions(rng, int(rng.integers(1, most + 1)))
        thought = "random" if env.settings.think else None
        env.play(format_reply(action_texts(env.names, actions), thought), truncated=cut_off)
        if env.end is None:
            found.append(_tokens(env, codec))
    return found


def _tokens(env: ConversationWrapper, codec: ChatCodec) -> int:
    if codec.appends:
        return len(codec.bridge(env.user, False, env.settings.prefix))
    return len(codec.written(env.user)) + _TEMPLATE


def _bound(lengths: Sequence[int]) -> int:
    return 2 * max(lengths) - min(lengths)
