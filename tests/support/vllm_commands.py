"""The command as a user runs it."""

import json
import subprocess
import sys

RAGEN = [sys.executable, "-m", "ragen_bench"]
SUITE = """
name: greedy
version: 1
sampling: {temperature: 0.0, max_tokens: 60}
tasks:
  Sokoban: {env: ragen/SokobanText-v0}
  FrozenLake: {env: ragen/FrozenLakeText-v0}
"""


def ragen(*arguments, code=0):
    command = [*RAGEN, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stderr


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
