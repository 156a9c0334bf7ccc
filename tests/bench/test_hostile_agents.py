"""Agents in Python that fail in unusual ways: their episodes are errors, and the run goes on."""

import json

import pytest
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import agent_entries

from ragen_agents.policies.endpoint.settings import EndpointSettings

AGENTS = """
import asyncio

REPLY = "<think>so</think><answer>{arm}</answer>"


def arm(request):
    return request.messages[0]["content"].split("Actions: ")[1].split(",")[0]


def first(request):
    return request.seed % 2 == 0


async def huge(request):
    return "x" * (17 << 20) if first(request) else REPLY.format(arm=arm(request))


async def cancelled(request):
    if first(request):
        raise asyncio.CancelledError
    return REPLY.format(arm=arm(request))


async def leaving(request):
    if first(request):
        raise SystemExit(5)
    return REPLY.format(arm=arm(request))


async def surrogate(request):
    if first(request):
        raise FileNotFoundError("no file caf\\udce9")
    return REPLY.format(arm=arm(request))


class Mute(Exception):
    def __str__(self):
        return self.message


async def mute(request):
    if first(request):
        raise Mute
    return REPLY.format(arm=arm(request))
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("huge", "characters"),
        ("cancelled", "CancelledError"),
        ("leaving", "SystemExit(5)"),
        ("surrogate", "no file caf\\udce9"),
        ("mute", "Mute: its message cannot be read"),
    ],
)
def test_the_other_episodes_are_played(agent, said, tmp_path):
    command = ["bench", "--agent", f"hostile:{agent}", "--game", "Bandit", "--episodes", "12"]
    assert main([*command, "--out", "run"]) == 0
    lines = (tmp_path / "run/episodes.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    ends = [record["end"] for record in records]
    assert len(records) == 12
    assert 0 < ends.count("error") < 12
    assert all(said in r["error"] for r in records if r["end"] == "error")


def test_a_match_goes_on_too(tmp_path):
    command = ["match", "--suite", "match", "--agent", "hostile:cancelled", "--agent", "random"]
    assert main([*command, "--episodes", "2", "--game", "FrozenLakeRace", "--out", "run"]) == 0


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--stop", "x"], "--stop is for agents openai:MODEL"),
        (["--tools"], "--tools is for agents openai:MODEL"),
        (["--api-key-env", "KEY"], "--api-key-env is for agents openai:MODEL"),
        (["--no-cache"], "--no-cache is for agents openai:MODEL"),
        (["--timeout", "5s"], "--timeout is for agents openai:MODEL"),
        (["--extra-body", "{}"], "--extra-body is for agents openai:MODEL"),
    ],
)
@pytest.mark.parametrize("agent", ["random", "hostile:huge"])
def test_options_that_no_agent_reads_are_refused(option, said, agent, capsys):
    assert main(["bench", "--agent", agent, "--game", "Bandit", "--out", "run", *option]) == 2
    assert said in capsys.readouterr().err


def test_stop_texts_are_those_of_models_alone():
    entries = agent_entries(["random", "starter", "openai:m"], EndpointSettings(stop=["x"]))
    assert [entry.stop for entry in entries] == [[], ["x"], []]
    assert [entry.asked.stop for entry in entries] == [[], ["x"], ["x"]]


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        (["--token-limit", "10"], "limit local models with --time-limit or --max-reply-tokens"),
        (["--cost-limit", "1"], "limit local models with --time-limit or --max-reply-tokens"),
        (["--prices", "prices.yaml"], "leave it out"),
        (["--concurrency", "4"], "leave it out"),
    ],
)
def test_limits_that_nothing_counts_towards_are_refused(option, advice, tmp_path, capsys):
    (tmp_path / "prices.yaml").write_text("m: {input: 1, output: 1}\n")
    command = ["bench", "--agent", "random", "--game", "Bandit", "--out", "run"]
    assert main([*command, *option]) == 2
    said = capsys.readouterr().err
    assert f"{option[0]} is for agents openai:MODEL or package.module:Agent, but there" in said
    assert advice in said


def test_names_may_have_letters_of_any_script(tmp_path):
    (tmp_path / "über.py").write_text(
        'async def игрок(request):\n    return "<answer></answer>"\n', encoding="utf-8"
    )
    command = ["bench", "--agent", "über:игрок", "--game", "Bandit", "--episodes", "1"]
    assert main([*command, "--out", "run"]) == 0
    assert main(["verify", "run"]) == 0
