"""The cost of each turn by the exact oracle."""

from ragen_agents.rollout.trajectory import Trajectory
from ragen_envs.conversation import ConversationWrapper


def oracle_advantages(env: ConversationWrapper, trajectory: Trajectory) -> list[float]:
    """Return the chance of success after the actions of each turn, minus the one before it: <= 0.

    Args:
        env: At the trajectory's first state; it is played to its end.
        trajectory: Of a game without chance of its own.
    """
    found = []
    for turn in trajectory.turns:
        before = env.oracle().value
        after = env.turn_value(turn.reply, turn.cut_off)
        assert after is not None, "the game computes what a turn is worth"
        found.append(after - before)
        env.play(turn.reply, turn.cut_off)
    return found
