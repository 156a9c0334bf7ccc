"""Compute the table of a run from ``episodes.jsonl``: a row for each agent and task."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd

from ragen_agents.rollout import Episode
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.config.run_config import MatchConfig, RunConfig, load_config
from ragen_bench.config.suites import control_notes
from ragen_bench.runs.directory import EPISODES, read_own_episodes
from ragen_bench.stats.intervals import Clusters, Interval, number_clusters, wilson_mean
from ragen_bench.stats.scores import mean_score
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.evaluation.match_table import MatchRun

__all__ = ["Run", "read_run", "summarise"]

REFERENCE: Final = "random"
"""The agent whose exact success rate has the score 0; its episodes stand in where that is not available."""
_RESAMPLES: Final = 2000

Sample = Mapping[int | None, Episode]
"""An agent's episodes of one task by `place`: the index of the level, if there is one attempt."""
_STRIDE: Final = 1 << 32
"""Between the attempts at one level; no pack has as many levels."""


class Run(NamedTuple):
    """A run, read from its directory."""

    folder: Path
    config: RunConfig
    samples: Mapping[tuple[str, str], Sample]
    """Samples by agent and task."""
    torn: bool
    """Whether the last line is broken."""

    @classmethod
    def of(cls, folder: Path, config: RunConfig, episodes: Iterable[Episode], torn: bool) -> "Run":
        """Return the run with these episodes, which are in the order of the config."""
        samples: dict[tuple[str, str], dict[int | None, Episode]] = defaultdict(dict)
        played = list(episodes)
        scored = {episode.task for episode in played if episode.has_success}
        for episode in played:
            if episode.task in scored and not episode.has_success:
                # The game tells a success with a step, or at its end, which this episode did not reach.
                episode = episode.model_copy(update={"has_success": True})
            samples[episode.agent, episode.task][place(episode)] = episode
        return cls(folder, config, dict(samples), torn)

    @property
    def episodes(self) -> list[Episode]:
        """All episodes, sample by sample."""
        return [episode for sample in self.samples.values() for episode in sample.values()]

    @property
    def missing(self) -> int:
        """Number of episodes that are still missing."""
        return len(self.config.keys) - len(self.episodes)


def read_run(folder: Path, checked: bool = True) -> Run:
    """Read a run of ``ragen bench``.

    Args:
        folder: The run directory.
        checked: Whether its files are compared with their hashes.

    Raises:
        RagenError: There is none, it is corrupt, or it was edited.
    """
    config = load_config(folder, checked)
    if isinstance(config, MatchConfig):
        raise RagenError(f"'{folder}' is a run of ragen match, whose table ragen show prints")
    records = read_own_episodes(folder, config, checked)
    return Run.of(folder, config, records.episodes, records.torn)


def place(episode: Episode) -> int | None:
    """Return the key of an episode in a sample: the first attempts at all levels, then the second ones."""
    index = episode.instance.index
    return index if index is None else index + _STRIDE * episode.attempt


def summarise(run: Run) -> pd.DataFrame:
    """Return the table of a run: a row for each task and agent that has episodes.

    Columns: ``game``, ``agent``, ``n`` (episodes), ``success`` with its Wilson 95% interval
    ``success_low`` and ``success_high``, clustered by level where levels repeat; ``mean_return``;
    ``score``, the success normalised to random play (0) and the optimum (100) under the same budget on
    the same instances, with its interval (`mean_score`), clustered likewise; ``random_success`` and
    ``random_return``, the exact expectations of random play on these instances; ``optimal_success`` and
    ``optimal_return``, the largest expectations of any agent; ``valid``, the share of replies without a
    defect; ``effective``, the share of executed actions that changed the state; ``turns``,
    ``reply_tokens`` and ``seconds``, means of an episode; ``errors``, episodes that ended in an error or
    outgrew the model's context. With several attempts at a level there are ``pass_at_k``, the share of levels
    that at least one of all k attempts solved, and ``pass_hat_k``, the share that all of them solved,
    over the levels whose attempts are complete. What is not defined is nan.
    """
    rows = [
        {
            "game": task,
            "agent": agent.name,
            **summarise_sample(sample, run.samples.get((REFERENCE, task))),
            **_all_attempts(sample, run.config.attempts),
        }
        for task in run.config.suite.tasks
        for agent in run.config.agents
        if (sample := run.samples.get((agent.name, task)))
    ]
    more = ATTEMPTS if run.config.attempts > 1 else ()
    return pd.DataFrame(rows, columns=["game", "agent", *_COLUMNS, *more])


ATTEMPTS: Final = ("pass_at_k", "pass_hat_k")


def _all_attempts(sample: Sample, attempts: int) -> dict[str, float]:
    solved: dict[int | None, list[bool]] = defaultdict(list)
    for episode in sample.values():
        if episode.has_success:
            solved[episode.instance.index].append(episode.success)
    whole = [tries for tries in solved.values() if len(tries) == attempts]
    return {
        "pass_at_k": mean([any(tries) for tries in whole]),
        "pass_hat_k": mean([all(tries) for tries in whole]),
    }


_COLUMNS: Final = (
    "n", "success", "success_low", "success_high", "mean_return", "score", "score_low",
    "score_high", "random_success", "random_return", "optimal_success", "optimal_return", "valid",
    "effective", "turns", "reply_tokens", "seconds", "errors",
)  # fmt: skip


def summarise_sample(sample: Sample, reference: Sample | None) -> dict[str, Any]:
    """Return the columns of ``summarise`` for one agent and game.

    The reference is the sample of the random agent, for a game without an exact expectation.
    """
    score = _score(sample, reference)
    episodes = list(sample.values())
    return {
        **summarise_episodes(episodes),
        **{name: exact_mean(episodes, name) for name in EXACT},
        **score.columns("score"),
    }


def summarise_episodes(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return the columns of ``summarise`` that one agent's episodes of a game give, at least one."""
    turns = [turn for episode in episodes for turn in episode.turns]
    effective = [hit for turn in turns for hit in turn.effective]
    success = Interval(math.nan, math.nan, math.nan)
    if any(episode.has_success for episode in episodes):
        success = wilson_mean([e.success for e in episodes], clusters=level_clusters(episodes))
    return {
        "n": len(episodes),
        **success.columns("success"),
        "mean_return": mean([episode.episode_return for episode in episodes]),
        "valid": mean([not turn.defects for turn in turns]),
        "effective": mean(effective),
        "turns": mean([len(episode.turns) for episode in episodes]),
        "reply_tokens": _tokens(episodes),
        "seconds": mean([sum(turn.seconds for turn in e.turns) for e in episodes]),
        "errors": sum(episode.end.is_failure for episode in episodes),
    }


EXACT: Final = ("random_success", "random_return", "optimal_success", "optimal_return")
"""Fields of an episode that are exact expectations of its level."""


def exact_mean(episodes: Sequence[Episode], field: str) -> float:
    """Return the mean of an exact expectation, or nan if an episode lacks it."""
    known = [value for e in episodes if (value := getattr(e, field)) is not None]
    return mean(known) if len(known) == len(episodes) else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the mean, or nan for an empty sample."""
    return math.fsum(values) / len(values) if values else math.nan


def _tokens(episodes: Sequence[Episode]) -> float:
    counts = [turn.reply_tokens for episode in episodes for turn in episode.turns]
    known = [count for count in counts if count is not None]
    return sum(known) / len(episodes) if known else math.nan


def _score(sample: Sample, reference: Sample | None) -> Interval:
    """Return the normalised success on the instances on which random play is known or was sampled.

    It is nan if the optimum of one of them is not known.
    """
    chances = {
        index: chance
        for index, episode in sample.items()
        if (chance := chance_of(episode, reference)) is not None
    }
    best = [value for i in chances if (value := sample[i].optimal_success) is not None]
    if not chances or len(best) < len(chances):
        return Interval(math.nan, math.nan, math.nan)
    played = [sample[index] for index in chances]
    solved, keys = [e.success for e in played], [e.instance.key for e in played]
    return mean_score(solved, list(chances.values()), best, keys, resamples=_RESAMPLES)


def chance_of(episode: Episode, reference: Sample | None) -> float | None:
    """Return the success of random play on an episode's instance, exact or the mean of what was sampled."""
    index = episode.instance.index
    if episode.random_success is not None or reference is None or index is None:
        return episode.random_success
    solved: list[float] = []
    while (attempt := reference.get(index + _STRIDE * len(solved))) is not None:
        solved.append(float(attempt.success))
    return mean(solved) if solved else None


def attempts_note(attempts: int) -> list[str]:
    """Return the note on the columns of several attempts, if there are several."""
    if attempts == 1:
        return []
    return [
        f"{attempts} attempts at each level: success is that of one attempt (pass@1); pass@k and "
        f"pass^k are the shares of levels solved in at least one and in all of the {attempts} attempts"
    ]


def notes(run: Run) -> list[str]:
    """Return the notes below the table."""
    lines = own_level_notes(run.config.suite.tasks) + attempts_note(run.config.attempts)
    sampled = {e.task for e in run.episodes if e.random_success is None and e.optimal_success is not None}
    lines += [_reference_note(run, task) for task in run.config.suite.tasks if task in sampled]
    lines += [note for task in run.config.suite.tasks for note in _optimum_note(run, task)]
    lines += control_notes(run.config.suite.tasks)
    lines += [
        f"replies of {agent.name} end at {', '.join(map(repr, agent.asked.stop))} (--stop)"
        for agent in run.config.agents
        if agent.asked.stop
    ]
    estimated = dict.fromkeys(e.agent for e in run.episodes if any(t.tokens_estimated for t in e.turns))
    lines += [f"the token counts of {agent} are estimates" for agent in estimated]
    lines += shared_levels_note(run.samples)
    return lines + incomplete(run)


def _reference_note(run: Run, task: str) -> str:
    """Return the note on what the score 0 is of a task without an exact success of random play."""
    played = len(run.samples.get((REFERENCE, task), {}))
    if not played:
        listed = any(agent.name == REFERENCE for agent in run.config.agents)
        return f"no score of {task}: the exact success of random play is not available; " + (
            f"the agent '{REFERENCE}' has not played it yet" if listed else f"add the agent '{REFERENCE}'"
        )
    note = f"the score 0 of {task} is the sampled success of the agent '{REFERENCE}'"
    if played < len(run.config.keys_of(REFERENCE, task)):
        note += ", which has not played all levels yet; scores are of those that it has played"
    return note


def _optimum_note(run: Run, task: str) -> list[str]:
    played = {e.instance.index: e.optimal_success for e in run.episodes if e.task == task}
    unknown = sum(best is None for best in played.values())
    if not unknown:
        return []
    return [
        f"no optimum and no score of {task}: it has no oracle, or the exact search gives up under these "
        f"limits of turns and actions ({unknown} of {len(played)} levels)"
    ]


def incomplete(run: "Run | MatchRun") -> list[str]:
    """Return the notes about an interrupted run."""
    lines = []
    if run.missing:
        lines.append(f"unfinished: {run.missing} of {len(run.config.keys)} {run.config.units} missing")
    if run.torn:
        lines.append(f"the last line of {EPISODES} is incomplete and was skipped")
    return lines


def level_clusters(episodes: Iterable[Episode]) -> Clusters | None:
    """Return an index of each episode's level; None if no level is shared, or only one is played.

    Levels are the same if they have the same key, also if they are rotated, if the two arms of a bandit are
    in the other order, or if two games share them.
    """
    return number_clusters([episode.instance.key for episode in episodes])


def shared_levels_note(samples: Mapping[tuple[str, str], Sample]) -> list[str]:
    """Return a note that names the tasks in which episodes of a run share levels, or nothing."""
    most: dict[str, list[str]] = {}
    for (_, task), sample in samples.items():
        keys = [episode.instance.key for episode in sample.values() if episode.attempt == 0]
        most[task] = max(keys, most.get(task, []), key=len)
    return repeated_levels_note(most, "intervals", "episodes")


def repeated_levels_note(levels: Mapping[str, Sequence[str]], what: str, units: str) -> list[str]:
    """Return a note that names the tasks in which levels repeat, or nothing.

    ``levels`` are, by task, the key of the level of each unit; ``what`` is clustered.
    """
    counts = [
        f"{task} {len(keys)} {units} on {len(set(keys))} levels"
        for task, keys in levels.items()
        if number_clusters(keys) is not None
    ]
    if not counts:
        return []
    return [f"{what} are clustered by level where levels repeat: {', '.join(counts)}"]
