"""Runs of `ragen bench` against the test server, and what they leave."""

import json
from pathlib import Path

from ragen_bench.__main__ import main

GAMES = ("Bandit", "Sokoban", "FrozenLakeDeterministic")


def words(server, out, *more, episodes=8, games=GAMES):
    named = [word for game in games for word in ("--game", game)]
    return ["bench", "--agent", "openai:m", "--base-url", server.url, *named,
            "--episodes", str(episodes), "--out", str(out), *map(str, more)]  # fmt: skip


def bench(server, out, *more, code=0, **what):
    assert main(words(server, out, *more, **what)) == code
    return records(out)


def records(out):
    """All that decides a table, in one order."""
    episodes = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    for episode in episodes:
        for turn in episode["turns"]:
            del turn["seconds"]
    return sorted(episodes, key=lambda e: (e["agent"], e["task"], e["instance"]["index"]))


def table(out, capsys):
    capsys.readouterr()
    assert main(["show", str(out), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def everything(out):
    return b"".join(path.read_bytes() for path in sorted(Path(out).rglob("*")) if path.is_file())
