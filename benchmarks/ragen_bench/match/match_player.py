"""Play the missing matches of a run."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ragen_agents.policies import CONTROLS, AsyncPolicy, Policy
from ragen_agents.rollout import MatchKey, MatchRecord
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, play_matches
from ragen_bench.config.run_config import MatchConfig
from ragen_bench.config.suites import Suite, check_tasks
from ragen_bench.evaluation.blocking import run_blocking
from ragen_bench.evaluation.runner import RunLimits, RunObserver, wrap_policy
from ragen_bench.runs.directory import RunDirectory

CHUNK: Final = 16
"""Levels that a lineup plays together; the caches of the oracles hold so many."""


def count_seats(suite: Suite, agents: Sequence[str]) -> dict[str, int]:
    """Return the number of players of each task; makes the first level of each.

    Raises:
        RagenError: A game or a setting does not exist, or the oracle cannot solve a game.
    """
    found = {}

    def make(name: str) -> None:
        task = suite.tasks[name]
        table = make_match_env(task.env, task.settings)
        table.reset(seed=0, options={"split": suite.split})
        if "oracle" in agents:
            table.game.oracle(0)
        found[name] = table.game.players

    check_tasks(suite, make)
    return found


def match_spec(suite: Suite, key: MatchKey) -> MatchSpec:
    """Return the match that a key stands for."""
    task = suite.tasks[key.task]
    settings = dict(task.settings)
    return MatchSpec(key.task, task.env, key.lineup, key.level, suite.split, settings)


def play_match_run(
    run: RunDirectory[MatchConfig],
    policies: Mapping[str, Policy | AsyncPolicy],
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    """Play every missing match.

    Args:
        run: The open run.
        policies: The policy of each agent with work left.
        observer: Receives the progress.
        limits: What the run may spend.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot continue.
    """
    entries = {agent.name: agent for agent in run.config.agents}
    ready = {
        name: wrap_policy(policy, entries[name], run, limits)
        if isinstance(policy, AsyncPolicy)
        else policy
        for name, policy in policies.items()
    }
    run_blocking(lambda: _play_all(run, ready, observer, limits))


async def _play_all(
    run: RunDirectory[MatchConfig],
    policies: Mapping[str, Policy | AsyncPolicy],
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    try:
        async with asyncio.timeout(limits.budget.seconds_left):
            for task in run.config.suite.tasks:
                await _play_task(run, policies, task, observer, limits)
    except TimeoutError:
        limits.budget.check_time()
        raise
    finally:
        for policy in policies.values():
            if isinstance(policy, AsyncPolicy):
                await policy.close()


async def _play_task(
    run: RunDirectory[MatchConfig],
    policies: Mapping[str, Policy | AsyncPolicy],
    task: str,
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    lineups = run.config.lineups(task)
    done = sum(key.task == task for key in run.done)
    named = f"{len(lineups)} lineup{'s' if len(lineups) != 1 else ''}"
    observer.start(named, task, done, len(lineups) * run.config.suite.episodes)
    try:
        for keys in _chunks(run.config, task):
            await _play_chunk(run, policies, keys, observer, limits)
    finally:
        observer.finish()


def _chunks(config: MatchConfig, task: str) -> Iterator[list[MatchKey]]:
    """Yield the keys that are played together: some levels by each lineup, then the next levels."""
    for first in range(0, config.suite.episodes, CHUNK):
        levels = range(first, min(first + CHUNK, config.suite.episodes))
        for lineup in config.lineups(task):
            yield [MatchKey(lineup, task, level) for level in levels]


async def _play_chunk(
    run: RunDirectory[MatchConfig],
    policies: Mapping[str, Policy | AsyncPolicy],
    keys: list[MatchKey],
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    """Play what is missing of a chunk; a local model plays all of it, so that its batches are the same."""
    missing = {key for key in keys if key not in run.done}
    if not missing:
        return
    limits.budget.check_time()
    whole = any(_is_model(agent, policies[agent]) for agent in keys[0].lineup)
    specs = [match_spec(run.config.suite, key) for key in keys if whole or key in missing]

    def keep(matches: Sequence[MatchRecord]) -> None:
        new = [match for match in matches if match.key in missing]
        run.append(new)
        observer.advance(len(new))

    await play_matches(specs, policies, run.config.suite.seed, keep)


def _is_model(agent: str, policy: Policy | AsyncPolicy) -> bool:
    return agent not in CONTROLS and not isinstance(policy, AsyncPolicy)
