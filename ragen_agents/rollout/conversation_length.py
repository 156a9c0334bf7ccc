"""The length that a game's conversations can reach, in tokens."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ragen_agents.rollout.chat import FULL, ChatCodec
from ragen_envs.conversation import ConversationWrapper, format_reply
from ragen_envs.game.text import action_texts

_EPISODES: Final = 16
_INVALID: Final = ("", "?", "<answer>?</answer>", "<think>?</think><answer>?</answer>")
_FEEDBACK: Final = 16
"""Tokens that feedback on other replies may have more."""
_TEMPLATE: Final = 64
"""Tokens that a template may put around a message, where it does not simply append."""


def longest_conversation(env: ConversationWrapper, codec: ChatCodec, max_tokens: int) -> int:
    """Return an upper bound of what a model reads and writes in one conversation, in tokens.

    A few episodes are played at random. Prompts and feedback may be longer than the longest seen by as much
    as those seen differ, and every reply may have ``max_tokens``. In games whose texts vary without limit
    this is an estimate.
    """
    settings = env.settings
    firsts, follow_ups = [], []
    for episode in range(_EPISODES):
        env.reset(seed=episode)
        firsts.append(len(codec.start(env.messages, settings.prefix)))
        follow_ups += _follow_ups(env, codec, np.random.default_rng(episode), episode % 4 == 0)
    kept = {"full": settings.max_turns, "last": settings.history_turns, "none": 0}
    earlier = min(kept[settings.history], settings.max_turns - 1)
    follow_up = _bound(follow_ups or firsts) + _FEEDBACK
    shifted = 0 if settings.history == FULL else follow_up  # it may stand where the first message did
    return _bound(firsts) + shifted + max_tokens + earlier * (follow_up + max_tokens)


def _follow_ups(
    env: ConversationWrapper, codec: ChatCodec, rng: np.random.Generator, cut_off: bool
) -> list[int]:
    """Play an episode to its end and return the tokens between each reply and the next."""
    lengths = []
    while env.end is None:
        valid = env.settings.invalid == "end" or rng.random() < 0.5
        if valid:
            actions = env.random_actions(rng, int(rng.integers(1, env.budget.this_turn + 1)))
            thought = "random" if env.settings.think else None
            reply = format_reply(action_texts(env.names, actions), thought)
        else:
            reply = str(rng.choice(_INVALID))
        env.play(reply, truncated=cut_off)
        if env.end is None:
            lengths.append(
                len(codec.bridge(env.user, False, env.settings.prefix))
                if codec.appends
                else len(codec.written(env.user)) + _TEMPLATE
            )
    return lengths


def _bound(lengths: Sequence[int]) -> int:
    return 2 * max(lengths) - min(lengths)
