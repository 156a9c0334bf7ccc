"""Summarise a training run at its end: whether the model learned, and what to do next."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragen_agents.run_files.records import read_metrics
from ragen_agents.sft import SftConfig
from ragen_agents.starpo import TrainConfig
from ragen_agents.starpo.run.checkpoint import latest
from ragen_agents.starpo.run.run_directory import load_train_config, own_parts
from ragen_agents.starpo.run.run_state import BEST, CHECKPOINTS
from ragen_bench.config.agents import model_path
from ragen_bench.config.extensions import ragen_for
from ragen_bench.config.game_names import short_names
from ragen_bench.config.own_levels import own_level_count
from ragen_bench.config.suites import SamplingSettings
from ragen_bench.console.formats import duration
from ragen_envs.registration import text_ids


def run_summary(folder: Path) -> list[str]:
    """Return the lines about a training run that has ended or was stopped after an iteration."""
    metrics = read_metrics(folder)
    best = folder / BEST
    model = best if best.exists() else latest(folder / CHECKPOINTS)
    config = load_train_config(folder)
    ragen = ragen_for([config.game], has_parts=bool(own_parts(config)))
    return [
        *_learned([line for line in metrics if "validation/success" in line]),
        *_course(metrics),
        f"run: {folder}",
        f"report: {ragen} report {shlex.quote(str(folder))}",
        *scoring_command(model, config),
    ]


def best_evaluation(scored: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of the model in ``best``: most success or, as long as nothing succeeds, return."""
    return max(
        scored,
        key=lambda line: (
            line["validation/success"],
            not line["validation/success"] and line["validation/return"],
        ),
    )


def short_name(game: str) -> str:
    """Return the name of a game for readers and for ``--game``."""
    return {text_id: name for name, text_id in short_names(text_ids()).items()}.get(game, game)


def scoring_command(model: Path | str | None, config: TrainConfig | SftConfig) -> Iterator[str]:
    """Yield a line with the command that plays the game as the model was trained on it.

    There is none for a model that was trained on levels of one's own, which are not a suite's.
    """
    if own_level_count(config.env_kwargs):
        return
    settings = (
        shlex.quote(f"{name}={json.dumps(value) if isinstance(value, bool | dict) else value}")
        for name, value in config.env_kwargs.items()
    )
    options = [f"--setting {setting}" for setting in settings]
    if isinstance(config, TrainConfig):
        options += _sampling_options(config)
    game = f"--game {short_name(config.game)}"
    agent = f"--agent {shlex.quote(model_path(str(model)))}"
    if not config.game.startswith("ragen/"):  # its score may need sampled random play
        agent += " --agent random"
    yield " ".join((f"score: {ragen_for([config.game])} bench", agent, game, *options))


def _sampling_options(config: TrainConfig) -> Iterator[str]:
    """Yield the options for what differs from the defaults of suites."""
    usual = SamplingSettings()
    if config.rollout.max_tokens != usual.max_tokens:
        yield f"--max-reply-tokens {config.rollout.max_tokens}"
    if config.evaluation.temperature != usual.temperature:
        yield f"--temperature {config.evaluation.temperature:g}"


def _learned(scored: list[dict[str, Any]]) -> Iterator[str]:
    if not scored:
        yield "validation: none, since evaluation.every is 0"
        return
    best = best_evaluation(scored)
    first, last = scored[0], scored[-1]
    parts = [f"validation success: {_success(first)} initially"]
    if best not in (first, last):
        parts.append(f"best {_success(best)} (iteration {best['iteration']})")
    if last is not first:
        parts.append(f"{_success(last)} at the end (iteration {last['iteration']})")
    yield ", ".join(parts)


def _success(line: dict[str, Any]) -> str:
    return f"{100 * line['validation/success']:.1f}%"


def _course(metrics: list[dict[str, Any]]) -> Iterator[str]:
    seconds = sum(line.get("seconds/total", 0.0) for line in metrics)
    warned = [line["iteration"] for line in metrics if line.get("warnings")]
    count = metrics[-1]["iteration"] if metrics else 0
    trained = f"{count} iteration{'s' * (count != 1)} in {duration(seconds)}"
    yield f"trained: {trained if metrics else 'nothing'}"
    if warned:
        yield f"iterations with warnings: {len(warned)} (first: {warned[0]}); see the report"
