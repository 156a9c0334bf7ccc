"""Export runs as logs of Inspect (inspect_ai), one for each agent and game."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score

from ragen_agents.rollout import Episode, TurnRecord
from ragen_agents.run_files.files import writing
from ragen_bench.config.own_levels import own_level_count
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.run_table import Run, Sample, summarise
from ragen_bench.runs.directory import EPISODES
from ragen_envs import __version__
from ragen_envs.errors import RagenError

METRICS: Final = (
    "success", "score", "mean_return", "valid", "effective", "turns", "random_success", "optimal_success",
)  # fmt: skip
"""Columns of the run's table that a log holds."""


def write_inspect_logs(run: Run, out: Path, track: Track) -> list[Path]:
    """Write the logs of a run, in the place of earlier ones, and return their paths."""
    if not run.samples:
        raise RagenError(f"'{run.folder}' has no episodes yet")
    rows = {(row["agent"], row["game"]): row for row in summarise(run).to_dict("records")}
    written = []
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for (agent, game), sample in track(list(run.samples.items())):
            path = out / f"{game}~{_slug(agent)}.eval"  # neither part has a tilde
            write_eval_log(_log(run, agent, game, sample, rows[agent, game]), str(path))
            written.append(path)
    return written


def _log(run: Run, agent: str, game: str, sample: Sample, row: Mapping[Any, Any]) -> EvalLog:
    suite, task = run.config.suite, run.config.suite.tasks[game]
    last_written = (run.folder / EPISODES).stat().st_mtime
    when = datetime.fromtimestamp(last_written, UTC).isoformat()
    samples = [_sample(episode, agent) for episode in sample.values()]
    whole = len(samples) == len(run.config.keys_of(agent, game))
    metrics = {
        name: EvalMetric(name=name, value=float(row[name])) for name in METRICS if math.isfinite(row[name])
    }
    whose = "own" if own_level_count(task.settings) else task.split or suite.split
    return EvalLog(
        status="success" if whole else "cancelled",
        eval=EvalSpec(
            eval_id=_id(run, agent, game),
            run_id=_id(run),
            task_id=_id(run, game),
            created=when,
            task=game,
            task_version=suite.version,
            task_args={"env": task.env, **task.settings},
            dataset=EvalDataset(
                name=f"{suite.name}, {whose} levels",
                samples=suite.episodes,
                sample_ids=list(range(suite.episodes)),
            ),
            model=agent,
            model_generate_config=GenerateConfig(
                temperature=suite.sampling.temperature, max_tokens=suite.sampling.max_tokens, seed=suite.seed
            ),
            config=EvalConfig(epochs=run.config.attempts, limit=suite.episodes),
            packages={"ragen-suite": __version__},
            metadata={"suite": suite.name, "suite_version": run.config.suite_version},
        ),
        results=EvalResults(
            total_samples=len(run.config.keys_of(agent, game)),
            completed_samples=len(samples),
            scores=[EvalScore(name="success", scorer="ragen-suite", metrics=metrics)],
        ),
        stats=EvalStats(started_at=when, completed_at=when, model_usage=_usage(sample.values(), agent)),
        samples=samples,
    )


def _sample(episode: Episode, agent: str) -> EvalSample:
    messages = _messages(episode)
    error = episode.error
    return EvalSample(
        id=episode.instance.index or 0,
        epoch=episode.attempt + 1,
        input=episode.turns[0].user if episode.turns else episode.system,
        target="",
        messages=messages,
        output=ModelOutput.from_content(agent, episode.turns[-1].reply if episode.turns else ""),
        scores=_scores(episode),
        metadata={
            "level": episode.instance.level,
            "key": episode.instance.key,
            "end": episode.end.value,
            "defects": [list(turn.defects) for turn in episode.turns],
            "random_success": episode.random_success,
            "optimal_success": episode.optimal_success,
        },
        model_usage=_usage([episode], agent),
        total_time=sum(turn.seconds for turn in episode.turns),
        turn_count=len(episode.turns),
        error=None if error is None else EvalError(message=error, traceback="", traceback_ansi=""),
    )


def _scores(episode: Episode) -> dict[str, Score]:
    answer = " || ".join(action for turn in episode.turns for action in turn.executed)
    told = {"answer": answer, "explanation": episode.closing}
    scores = {"return": Score(value=episode.episode_return, **told)}
    if episode.has_success:
        scores = {"success": Score(value=int(episode.success), **told), **scores}
    return scores


def _messages(episode: Episode) -> list[ChatMessage]:
    messages: list[ChatMessage] = [ChatMessageSystem(content=episode.system)]
    for user, reply in episode.examples:
        messages += [ChatMessageUser(content=user), ChatMessageAssistant(content=reply)]
    for turn in episode.turns:
        messages += [ChatMessageUser(content=turn.user), ChatMessageAssistant(content=_content(turn))]
    if episode.closing:
        messages.append(ChatMessageUser(content=episode.closing))
    return messages


def _content(turn: TurnRecord) -> str | list[Content]:
    if turn.reasoning is None:
        return turn.reply
    return [ContentReasoning(reasoning=turn.reasoning), ContentText(text=turn.reply)]


def _usage(episodes: Iterable[Episode], agent: str) -> dict[str, ModelUsage]:
    """Return the tokens of the episodes in which those of replies were counted, or nothing."""
    counted = [each.turns for each in episodes if any(turn.reply_tokens is not None for turn in each.turns)]
    turns = [turn for each in counted for turn in each]
    if not turns:
        return {}
    read, written = sum(t.prompt_tokens or 0 for t in turns), sum(t.reply_tokens or 0 for t in turns)
    return {agent: ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)}


def _id(run: Run, *parts: str) -> str:
    """Return an id that is the same whenever the run is written again."""
    return sha256("\n".join([run.config.digest, *parts]).encode()).hexdigest()[:22]


def _slug(agent: str) -> str:
    """Return a name for files, which an agent's own may not be; its hash keeps names apart.

    Some disks do not tell upper from lower case.
    """
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in agent)[-48:].strip("-.")
    return plain if plain == agent == agent.lower() else f"{plain}-{sha256(agent.encode()).hexdigest()[:8]}"
