"""Play episodes with a policy, in lock-step: every open episode of a batch gets its turn together."""

import time
from collections.abc import Sequence

from ragen_agents.policies.base import Policy, Resting
from ragen_agents.rollout.episode import Episode
from ragen_agents.rollout.episode_runner import EpisodeSpec, Game, play_replies
from ragen_envs.errors import RagenError


def play_batch(specs: Sequence[EpisodeSpec], policy: Policy, run_seed: int) -> list[Episode]:
    """Play the episodes to their ends and return their records, in the order of the specs.

    A policy that raises ends the open episodes of its batch as errors, which are records too. Errors
    in the specs themselves (an unknown game or instance) are raised.
    """
    games = [Game(spec, run_seed) for spec in specs]
    try:
        _play_out(games, policy)
    finally:
        if isinstance(policy, Resting):
            policy.rest()
    return [game.episode(policy.name) for game in games]


def _play_out(games: Sequence[Game], policy: Policy) -> None:
    while waiting := [game for game in games if game.end is None]:
        batch = waiting[: policy.batch_size]
        started = time.perf_counter()
        try:
            replies = policy.act([game.request() for game in batch])
        except RagenError:
            raise
        except Exception as error:
            for game in batch:
                game.fail(error)
            continue
        seconds = (time.perf_counter() - started) / len(batch)
        play_replies(batch, replies, seconds)
