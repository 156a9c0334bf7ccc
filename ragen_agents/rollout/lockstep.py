"""Play episodes with a policy, in lock-step: every open episode of a batch gets its turn together."""

import time
from collections.abc import Sequence

from ragen_agents.policies.base import Policy, Releasable
from ragen_agents.rollout.episode import Episode
from ragen_agents.rollout.episode_runner import EpisodeRunner, EpisodeSpec, play_replies
from ragen_envs.errors import RagenError


def play_batch(specs: Sequence[EpisodeSpec], policy: Policy, run_seed: int) -> list[Episode]:
    """Play the episodes to their ends and return their records, in the order of the specs.

    A policy that raises ends the open episodes of its batch as errors, which are records too. Errors
    in the specs themselves (an unknown game or instance) are raised.
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
        batch = waiting[: policy.batch_size]
        started = time.perf_counter()
        try:
            replies = policy.act([runner.request() for runner in batch])
        except RagenError:
            raise
        except Exception as error:
            for runner in batch:
                runner.fail(error)
            continue
        seconds = (time.perf_counter() - started) / len(batch)
        play_replies(batch, replies, seconds)
