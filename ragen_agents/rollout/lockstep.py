"""Play episodes with a policy, in lock-step: every open episode of a batch gets its turn together."""

import time
from collections.abc import Sequence

from ragen_agents.policies.base import Policy, Releasable, Reply, Request
from ragen_agents.policies.controls import Control
from ragen_agents.rollout.episode import Episode
from ragen_agents.rollout.episode_runner import (
    EpisodeRunner,
    EpisodeSpec,
    checked_reply,
    play_replies,
)
from ragen_envs.game.errors import GameError, RagenError


def play_batch(specs: Sequence[EpisodeSpec], policy: Policy, run_seed: int) -> list[Episode]:
    """Play the episodes to their ends and return their records, in the order of the specs.

    A policy that raises ends the open episodes of its batch as errors, which are records too; a control
    only those in which it raises, because there it is the game that fails. Errors in the specs themselves
    (an unknown game or instance, or one that fails before it begins) are raised.
    """
    runners = [EpisodeRunner(spec, run_seed) for spec in specs]
    try:
        _play_out(runners, policy)
    finally:
        if isinstance(policy, Releasable):
            policy.release()
    return [runner.record(policy.name) for runner in runners]


def _play_out(runners: Sequence[EpisodeRunner], policy: Policy) -> None:
    while waiting := [runner for runner in runners if runner.end is None]:
        _play_turn(waiting[: policy.batch_size], policy)


def _play_turn(batch: Sequence[EpisodeRunner], policy: Policy) -> None:
    started = time.perf_counter()
    try:
        replies = _replies(policy, [runner.request() for runner in batch])
    except Exception as error:
        if isinstance(error, RagenError) and not isinstance(error, GameError):
            raise
        if len(batch) > 1 and isinstance(policy, Control):
            for runner in batch:
                _play_turn([runner], policy)
            return
        for runner in batch:
            runner.fail(error)
        return
    seconds = (time.perf_counter() - started) / len(batch)
    play_replies(batch, replies, seconds)


def _replies(policy: Policy, requests: list[Request]) -> list[Reply]:
    replies = policy.act(requests)
    if not isinstance(replies, Sequence) or isinstance(replies, str):
        raise TypeError(f"the policy returned {replies!r:.80}, but must return a list of Reply")
    if len(replies) != len(requests):
        raise ValueError(f"the policy returned {len(replies)} replies for {len(requests)} requests")
    return [checked_reply(reply) for reply in replies]
