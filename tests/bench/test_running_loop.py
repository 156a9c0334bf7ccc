"""Commands called where an event loop runs already, as in a notebook."""

import asyncio
import os
import re
import signal
import time

import pytest
from endpoint_server import EndpointServer
from forked import start
from ragen_bench.__main__ import main

NOTEBOOK = """
import asyncio, sys
from ragen_bench.__main__ import main


async def cell():
    return main(sys.argv[1:])


loop = asyncio.new_event_loop()  # as a notebook's, it leaves Ctrl-C alone
sys.exit(loop.run_until_complete(cell()))
"""


@pytest.fixture(autouse=True)
def agent(tmp_path, monkeypatch):
    """An agent whose replies take a moment, in the current directory."""
    (tmp_path / "patient.py").write_text(
        "import asyncio\n\n\n"
        "async def left(request):\n"
        "    await asyncio.sleep(0.05)\n"
        "    return '<think></think><answer>Left</answer>'\n\n\n"
        "async def forever(request):\n"
        "    open('asked', 'w').close()\n"
        "    try:\n"
        "        await asyncio.sleep(3600)\n"
        "    finally:\n"
        "        print('cancelled', flush=True)\n"
    )
    monkeypatch.chdir(tmp_path)


def bench(agent, out):
    return ["bench", "--agent", agent, "--game", "Sokoban", "--episodes", "3", "--out", str(out)]


def match(agent, out):
    agents = ["--agent", agent, "--agent", "random"]
    return ["match", "--game", "FrozenLakeRace", *agents, "--episodes", "1", "--out", str(out)]


def played(folder):
    text = (folder / "episodes.jsonl").read_text()
    return sorted(re.sub(r'"seconds":[^,}]*', "", text).splitlines())


@pytest.mark.parametrize("command", [bench, match])
def test_a_running_loop_changes_nothing(command, tmp_path):
    async def cell():
        return main(command("patient:left", tmp_path / "inside"))

    assert asyncio.run(cell()) == 0
    assert main(command("patient:left", tmp_path / "outside")) == 0
    assert played(tmp_path / "inside") == played(tmp_path / "outside")


def test_a_cache_of_replies_is_used_inside_a_running_loop(tmp_path):
    with EndpointServer() as server:
        words = ["--agent", "openai:m", "--base-url", server.url, "--temperature", "0"]
        run = ["bench", *words, "--game", "Bandit", "--episodes", "3", "--cache", "replies.db"]

        async def cell(name):
            return main([*run, "--out", str(tmp_path / name)])

        assert asyncio.run(cell("first")) == 0
        asked = len(server.bodies)
        assert asyncio.run(cell("again")) == 0
        assert len(server.bodies) == asked > 0
    assert played(tmp_path / "first") == played(tmp_path / "again")


@pytest.mark.parametrize("command", [bench, match])
def test_an_interrupt_ends_the_agent_too(command, tmp_path):
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    words = [tmp_path / "notebook.py", *command("patient:forever", tmp_path / "run")]
    process = start(words, stdout=out, stderr=err, cwd=tmp_path)
    while process.is_alive() and not (tmp_path / "asked").exists():
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    process.join(120)
    error = err.read_text()
    assert process.exitcode == 130, error
    assert "the same command resumes" in error
    assert "Traceback" not in error
    assert "cancelled" in out.read_text()
