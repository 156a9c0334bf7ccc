"""Small sizes in place of those of a documented command, by rule."""

from itertools import pairwise
from pathlib import Path

from ragen_agents.model_files.packaged import PACKAGED
from ragen_agents.starter import STARTERS

TRAINING = {
    "iterations": "1", "rollout.prompts_per_iteration": "2", "rollout.group_size": "4",
    "rollout.max_tokens": "24", "update.mini_batch_size": "4", "evaluation.every": "1",
    "evaluation.episodes": "2", "monitor.information_every": "0", "env_kwargs.max_turns": "1",
}  # fmt: skip
IMITATION = {"demonstrations": "8", "epochs": "1", "batch_size": "4", "micro_batch": "4"}
BLANK = {"conversations": "4", "layers": "1"}
SETTINGS = {("train",): TRAINING, ("sft",): IMITATION, ("starter", "blank"): BLANK}
"""By the subcommand; they replace what a page sets, and are added where it sets nothing."""
OPTIONS = {
    "bench": {"--episodes": "2"},
    "match": {"--episodes": "2"},
    "sweep": {"--episodes": "2", "--max-reply-tokens": "8"},
    "reproduce": {"--results": "results"},
    "endpoint.py": {"--seconds": "0.1", "--waves": "1"},
}
"""By a word of the command."""
SHORT = {"--max-reply-tokens": "16"}
"""Of local models whose replies no other command of the page reads."""
ONE_GAME = {"bench": "Bandit", "match": "FrozenLakeRace", "sweep": "Sokoban"}
"""The game that a subcommand plays in a test where the page plays a whole suite of the project."""
OWN_SUITES = ("core", "match")
PAPER_MODEL = "path/to/qwen"
"""Folder with the config of the paper's model, which a plan of its memory would download."""


def small(words, port):
    """Return a command with small sizes, a free port in place of a fixed one, and without questions."""
    words = list(words)
    if "--plan" in words:
        return [*words, f"model={PAPER_MODEL}"]
    for subcommand, settings in SETTINGS.items():
        if subcommand == tuple(words[1 : 1 + len(subcommand)]) or _is_imported(words, subcommand):
            words = _with_settings(words, settings)
    if "--from" in words:  # the run decides how many demonstrations there are
        words.remove(f"demonstrations={IMITATION['demonstrations']}")
    for name, options in OPTIONS.items():
        if any(name in (word, Path(word).name) for word in words[:5]):
            words = _with_options(words, options)
    if words[1:2] and words[1] in ONE_GAME and _plays_a_whole_suite(words):
        words = [*words, "--game", ONE_GAME[words[1]]]
    is_read = words[1:2] != ["match"] and "--out" in words
    if words[1:2] in (["bench"], ["match"]) and not is_read and any(map(_is_local, pairwise(words))):
        words = _with_options(words, SHORT)
    if "--waves" in words:
        words = ["8" if word == "256" else word for word in words]
    if words[1:2] in (["train-sweep"], ["reproduce"]) and "--no-run" not in words:
        words = [*words, *(["--dry-run"] if "--dry-run" not in words else [])]
    if words[1:3] == ["leaderboard", "check"] and not any("/" in word for word in words):
        words = [*words, "leaderboards/random"]
    if "--browser" in words:
        words = [*words, "--port", str(port)]
    return words


def _is_local(words):
    option, agent = words
    return option == "--agent" and (agent in (*STARTERS, *PACKAGED) or "/" in agent)


def _is_imported(words, subcommand):
    """Whether the subcommand follows ``--import FILE``."""
    return words[1:2] == ["--import"] and tuple(words[3 : 3 + len(subcommand)]) == subcommand


def _with_settings(words, settings):
    kept = [word for word in words if word.partition("=")[0] not in settings]
    return [*kept, *(f"{name}={value}" for name, value in settings.items())]


def _with_options(words, options):
    words = list(words)
    for name, value in options.items():
        if name in words:
            words[words.index(name) + 1] = value
        else:
            words += [name, value]
    return words


def _plays_a_whole_suite(words):
    suite = words[words.index("--suite") + 1] if "--suite" in words else OWN_SUITES[0]
    return suite in OWN_SUITES and "--game" not in words
