"""What a reply did, as the record of its turn: the same for one player and for a seat among several."""

from collections.abc import Sequence

from ragen_agents.pictures import picture_hash
from ragen_agents.policies.base import Reply
from ragen_agents.rollout.episode import TurnRecord
from ragen_envs.conversation import Picture
from ragen_envs.conversation.wrapper import TurnResult
from ragen_envs.game.text import action_texts


def record_turn(
    user: str,
    pictures: Sequence[Picture],
    reply: Reply,
    result: TurnResult,
    names: Sequence[str],
    seconds: float,
) -> TurnRecord:
    """Return the record of a turn.

    Args:
        user: The user message that was replied to.
        pictures: The picture beside each user message so far; () if observations are text.
        reply: What the policy said.
        result: What it did.
        names: Names of the actions.
        seconds: What the policy took.
    """
    return TurnRecord(
        user=user,
        picture=picture_hash(pictures[-1]) if pictures else None,
        reply=reply.text,
        reasoning=reply.reasoning,
        cut_off=reply.cut_off,
        prompt_tokens=reply.prompt_tokens,
        reply_tokens=reply.reply_tokens,
        tokens_estimated=reply.tokens_estimated,
        actions=action_texts(names, result.parsed.actions),
        executed=action_texts(names, result.executed),
        effective=result.effective,
        defects=tuple(str(d) for d in result.parsed.defects),
        soft_defects=tuple(str(d) for d in result.parsed.soft_defects),
        rewards=result.rewards,
        penalty=result.penalty,
        seconds=seconds,
    )


def describe_error(error: Exception) -> str:
    """Return an error as a record keeps it."""
    try:
        said = str(error)
    except Exception:  # of a class of the user's
        said = "its message cannot be read"
    text = f"{type(error).__name__}: {said}"[:2000]
    return text.encode(errors="backslashreplace").decode()  # a lone surrogate could not be written
