"""Play the missing matches of a run."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragen_agents.policies import CONTROLS, AsyncPolicy, Policy
from ragen_agents.rollout import MatchKey
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, play_matches
from ragen_bench.config.run_config import MatchConfig
from ragen_bench.config.suites import Suite, check_tasks
from ragen_bench.evaluation.runner import RunPlay

CHUNK: Final = 16
"""Levels that a lineup plays together; the caches of the oracles hold so many."""


def count_seats(suite: Suite, agents: Sequence[str]) -> dict[str, int]:
    """Return the number of players of each task; makes the first level of each."""
    seats = {}

    def make(name: str) -> None:
        task = suite.tasks[name]
        table = make_match_env(task.env, task.settings)
        table.reset(seed=0, options={"split": task.split or suite.split})
        if "oracle" in agents:
            table.game.oracle(0)
        seats[name] = table.game.players

    check_tasks(suite, make)
    return seats


def match_spec(suite: Suite, key: MatchKey) -> MatchSpec:
    """Return the match that a key stands for."""
    task = suite.tasks[key.task]
    settings = dict(task.settings)
    return MatchSpec(key.task, task.env, key.lineup, key.level, task.split or suite.split, settings)


def play_match_run(play: RunPlay[MatchConfig], policies: Mapping[str, Policy | AsyncPolicy]) -> None:
    """Play every missing match; see `ragen_bench.evaluation.runner.play_run`."""
    ready = {
        name: play.wrap(name, policy) if isinstance(policy, AsyncPolicy) else play.with_pictures(name, policy)
        for name, policy in policies.items()
    }

    async def play_tasks() -> None:
        for task in play.run.config.suite.tasks:
            await _play_task(play, ready, task)

    play.finish(play_tasks, [p for p in ready.values() if isinstance(p, AsyncPolicy)])


async def _play_task(
    play: RunPlay[MatchConfig], policies: Mapping[str, Policy | AsyncPolicy], task: str
) -> None:
    config = play.run.config
    lineups = config.lineups(task)
    done = sum(key.task == task for key in play.run.done)
    named = f"{len(lineups)} lineup{'s' if len(lineups) != 1 else ''}"
    play.progress.start(named, task, done, len(lineups) * config.suite.episodes, "matches")
    try:
        for first in range(0, config.suite.episodes, CHUNK):  # some levels by each lineup, then the next ones
            levels = range(first, min(first + CHUNK, config.suite.episodes))
            for lineup in lineups:
                await _play_chunk(play, policies, [MatchKey(lineup, task, level) for level in levels])
    finally:
        play.progress.finish()


async def _play_chunk(
    play: RunPlay[MatchConfig], policies: Mapping[str, Policy | AsyncPolicy], keys: list[MatchKey]
) -> None:
    """Play what is missing of a chunk; a local model plays all of it, so that its batches are the same."""
    missing = [key for key in keys if key not in play.run.done]
    if missing:
        play.budget.check_time()
        others = [policies[agent] for agent in keys[0].lineup if agent not in CONTROLS]
        whole = not all(isinstance(policy, AsyncPolicy) for policy in others)
        suite = play.run.config.suite
        specs = [match_spec(suite, key) for key in (keys if whole else missing)]
        await play_matches(specs, policies, suite.seed, play.keep)
