"""What the table of a run says of agents whose replies are invalid or whose episodes failed."""

import json
import re

import pytest
from ragen_bench.__main__ import main

AGENTS = """
from itertools import count

NUMBERS = count(1)


async def fenced(request):
    return "I would go\\x1b[31m Left."


async def silent(request):
    from ragen_agents.policies import Reply

    return Reply("", reasoning="I would go Left.")


async def sometimes(request):
    return "Up" if next(NUMBERS) % 10 == 0 else "<think>x</think><answer>Up</answer>"
"""


@pytest.fixture
def play(tmp_path, monkeypatch, capsys):
    """Play an agent of a module on one game and return what is printed."""
    (tmp_path / "talkers.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")

    def run(agent, episodes, *options):
        out = tmp_path / "run"
        arguments = ["--agent", f"talkers:{agent}", "--game", "FrozenLakeDeterministic", *options]
        assert main(["bench", *arguments, "--episodes", str(episodes), "--out", str(out)]) == 0
        return capsys.readouterr().out

    return run


def test_an_agent_without_the_format_is_told_why(play):
    shown = play("fenced", 4)
    assert "valid replies of talkers:fenced: 0% on FrozenLakeDeterministic" in shown
    assert re.search(r"defects: no <think> \(\d+\), no <answer> \(\d+\)", shown)
    assert 'example: "I would go⟨U+001B⟩[31m Left."' in shown
    assert "warning: most replies of talkers:fenced are invalid on FrozenLakeDeterministic" in shown
    assert re.search(r"ragen view \S+/run shows them all, and --setting demonstrations=2", shown)


def test_worked_examples_are_not_recommended_to_who_has_them(play):
    shown = play("fenced", 4, "--setting", "demonstrations=2")
    assert "shows them all" in shown
    assert "demonstrations" not in shown


def test_replies_that_are_all_reasoning_are_named(play):
    shown = play("silent", 4)
    assert re.search(
        r"(\d+) of \1 replies of talkers:silent are empty, with all of the text in", shown
    )
    assert 'example of that text: "I would go Left."' in shown


def test_an_agent_that_mostly_keeps_the_format_is_not_warned_of(play):
    shown = play("sometimes", 8)
    assert "valid replies of talkers:sometimes: 9" in shown
    assert "warning" not in shown


def test_controls_have_no_notes(capsys, tmp_path):
    out = str(tmp_path / "run")
    arguments = ["--agent", "random", "--game", "Bandit", "--episodes", "4", "--format", "json"]
    assert main(["bench", *arguments, "--out", out]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
