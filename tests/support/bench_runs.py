"""Runs of the harness with scripted agents."""

import json
import os
import subprocess
import sys

from ragen_bench.__main__ import main

GAMES = ("Bandit", "FrozenLakeDeterministic")
CONTROLS = ("random", "noop", "oracle")


def options(out, episodes=6, agents=CONTROLS, games=GAMES):
    named = [o for agent in agents for o in ("--agent", str(agent))]
    named += [o for game in games for o in ("--game", game)]
    return ["bench", *named, "--episodes", str(episodes), "--out", str(out)]


def bench(out, *more, **what):
    assert main([*options(out, **what), *more]) == 0
    return out


def timeless(out):
    """The episodes without the one field that depends on the machine."""
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    for episode in episodes:
        for turn in episode["turns"]:
            del turn["seconds"]
    return episodes


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True, text=True, timeout=600, env={**os.environ, **environment},
    )  # fmt: skip


def count_lines(out):
    """Return how many episodes a run has written."""
    path = out / "episodes.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0
