"""How a trajectory grows: what the model reads before its first reply, and between two replies."""

from collections.abc import Sequence

from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_envs.conversation import ConversationWrapper, whole_turn
from ragen_envs.conversation.wrapper import Message

FULL = "full"
"""The value of the setting ``history`` under which a conversation only grows."""


def begun(codec: ChatCodec, env: ConversationWrapper, group: int, member: int) -> Trajectory:
    """Return a trajectory that holds the first prompt of a conversation."""
    first = codec.start(env.messages, env.settings.prefix)
    return Trajectory(group, member, first, messages=env.messages)


def extend(
    trajectory: Trajectory, codec: ChatCodec, env: ConversationWrapper, before: Sequence[Message],
    reply: str, closed: bool,
) -> None:  # fmt: skip
    """Append what the model reads after a reply, or begin a row where its next prompt is another one.

    Args:
        trajectory: Ends with the reply.
        codec: The model's chat template.
        env: Has played the reply and goes on.
        before: The messages that were replied to.
        reply: Its text.
        closed: Whether the model wrote the token that ends its turn.
    """
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
