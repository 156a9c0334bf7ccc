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


async def unthinking(request):
    return "<answer>Up</answer>"


async def opened(request):
    return "I would go Up</think><answer>Up</answer>"


async def apart(request):
    from ragen_agents.policies import Reply

    return Reply("<answer>Up</answer>", reasoning="I would go Up.")


async def rambling(request):
    from ragen_agents.policies import Reply

    return Reply("<think>Well, let me", cut_off=True)


async def endless(request):
    from ragen_agents.policies import Reply

    return Reply("<answer>Up</answer>\\n<answer>Up</answer>\\n<ans", cut_off=True)


async def eager(request):
    return "<think>x</think><answer>Up||Up||Up||Up||Up||Up||Up||Down</answer>"


async def fickle(request):
    if "Arms: " in request.messages[-1]["content"]:
        return "<think>x</think><answer>Both</answer>"
    return "<answer>Up</answer>"


async def sometimes(request):
    return "Up" if next(NUMBERS) % 10 == 0 else "<think>x</think><answer>Up</answer>"
"""


@pytest.fixture
def play(tmp_path, monkeypatch, capsys):
    """Play an agent of a module on one game and return what is printed."""
    (tmp_path / "talkers.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "500")

    def run(agent, episodes, *options, game="FrozenLakeDeterministic"):
        out = tmp_path / "run"
        arguments = ["--agent", f"talkers:{agent}", "--game", game, *options]
        assert main(["bench", *arguments, "--episodes", str(episodes), "--out", str(out)]) == 0
        return capsys.readouterr().out

    return run


def test_an_agent_without_the_format_is_told_why(play):
    shown = play("fenced", 4)
    assert "valid replies of talkers:fenced: 0% on FrozenLakeDeterministic" in shown
    assert re.search(r"Deterministic \(no <think> \d+, no <answer> \d+\); ", shown)
    assert 'example of no <think>: "I would go⟨U+001B⟩[31m Left."' in shown
    assert "warning: most replies of talkers:fenced are invalid on FrozenLakeDeterministic" in shown
    assert re.search(r"ragen view \S+/run shows them all, and --setting demonstrations=2", shown)
    assert "bandits" not in shown


def test_worked_examples_are_not_recommended_to_who_has_them(play):
    shown = play("fenced", 4, "--setting", "demonstrations=2")
    assert "shows them all" in shown
    assert "demonstrations" not in shown


def test_replies_that_are_all_reasoning_are_named(play):
    shown = play("silent", 4)
    assert re.search(r"(\d+) of \1 replies of talkers:silent are empty, with all of the text in", shown)
    assert 'example of that text: "I would go Left."' in shown
    assert "demonstrations" not in shown


@pytest.mark.parametrize(
    ("agent", "advice"),
    [
        ("unthinking", "--setting think=false asks for replies without <think>\n"),
        ("opened", "and --setting think_prefix=true reads replies whose <think> the chat template"),
        ("apart", "without <think>, as the server returns the reasoning separately\n"),
        ("rambling", "a --max-reply-tokens above 200 lets the model finish its replies\n"),
        ("endless", "--stop '</answer>' ends a reply after its answer\n"),
    ],
)
def test_the_advice_fits_the_most_frequent_defect(play, agent, advice):
    shown = play(agent, 4)
    assert advice in shown
    assert "demonstrations" not in shown


def test_thoughts_that_a_setting_forbids_are_not_met_with_worked_examples(play):
    shown = play("eager", 4, "--setting", "think=false", "--setting", "actions_per_turn=8")
    assert "without --setting think=false the model may reply with <think>\n" in shown
    assert "demonstrations" not in shown


def test_worked_examples_on_the_bandits_come_with_a_warning(play):
    shown = play("fenced", 4, game="Bandit")
    assert "shows the model how to reply; on the bandits, worked examples reveal the answer" in shown


def test_an_agent_that_mostly_keeps_the_format_is_not_warned_of(play):
    shown = play("sometimes", 8)
    assert "valid replies of talkers:sometimes: 9" in shown
    assert "warning" not in shown


def test_defects_are_counted_by_game(play):
    shown = play("fickle", 4, "--game", "Bandit", "--game", "Sokoban")
    assert re.search(
        r"note: valid replies of talkers:fickle: 0% on Bandit \(unknown action 4\), 0% on Sokoban \(no "
        r"<think> \d+\), 0% on FrozenLakeDeterministic \(no <think> \d+\); example of no <think>: ",
        shown,
    )


def test_controls_have_no_notes(capsys, tmp_path):
    out = str(tmp_path / "run")
    arguments = ["--agent", "random", "--game", "Bandit", "--episodes", "4", "--format", "json"]
    assert main(["bench", *arguments, "--out", out]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
