"""The ledger: success minus the chance at the start is the sum of luck minus the sum of regret."""

import json
import math
import re
from dataclasses import replace
from statistics import fmean, variance

import pytest
from entries import ENTRIES
from ragen_bench.__main__ import main
from ragen_bench.analysis.ledger import Blunder, NoLedgerError, ledger
from ragen_bench.leaderboard.store import read_entry, read_explainable

from ragen_agents.policies import CONTROLS
from ragen_agents.policies.base import Reply
from ragen_agents.rollout import EpisodeSpec
from ragen_agents.rollout.play import play_batch

PLAYED = [path.parent for path in sorted(ENTRIES.glob("*/entry.json"))]
SAMPLED = 12
"""One of so many kept episodes is played again here; `ragen explain leaderboards/NAME` plays all."""


class Scripted:
    """A policy that always says the same."""

    name = "scripted"
    batch_size = 64

    def __init__(self, *replies):
        self.replies = replies

    def act(self, requests):
        return [Reply(self.replies[len(r.messages) // 2 - 1]) for r in requests]


def answer(*names):
    return f"<think>go</think><answer>{' || '.join(names)}</answer>"


def play(game, policy, count=1, index=0, **settings):
    """Return the ledgers of episodes of one test level under independent draws of the game's chance."""
    specs = [
        EpisodeSpec("T", f"ragen/{game}Text-v0", index, "test", noise, 0, settings) for noise in range(count)
    ]
    return [ledger(episode) for episode in play_batch(specs, policy, 0)]


@pytest.mark.parametrize("folder", PLAYED, ids=lambda folder: folder.name)
def test_the_identity_holds_on_kept_records(folder):
    for record in read_entry(folder).records[::SAMPLED]:
        found = ledger(record.episode)
        assert abs(found.episode.success - found.start - found.luck + found.regret) < 1e-12
        assert found.start == pytest.approx(found.episode.optimal_success, abs=1e-12)
        for decision in found.decisions:
            assert decision.regret > -1e-12
            if found.episode.agent == "oracle":
                assert decision.regret < 1e-12
            if found.episode.task != "FrozenLake":
                assert decision.luck == 0


def test_luck_averages_zero_and_leaving_it_out_makes_scores_steadier():
    found = play("FrozenLake", CONTROLS["random"](), count=600)
    error = math.sqrt(variance([each.luck for each in found]) / len(found))
    assert error > 0
    assert abs(fmean(each.luck for each in found)) < 4 * error
    assert variance([each.corrected for each in found]) < 0.7 * variance(
        [float(each.episode.success) for each in found]
    )


def test_a_box_in_a_corner_is_a_deadlock_and_idling_an_overrun():
    (wasted,) = play("Sokoban", Scripted("no", "no", "no", "no", "no"))
    assert [decision.blunder for decision in wasted.decisions].count(Blunder.OVERRUN) == 1
    assert wasted.decisions[-1].after == 0
    assert wasted.regret == 1
    lost = [
        blunder
        for index in range(40)
        for each in play("Sokoban", CONTROLS["random"](), index=index)
        if (blunder := each.lost_at) is not None and each.decisions[blunder].blunder == Blunder.DEADLOCK
    ]
    assert lost


def test_a_level_that_needs_more_than_a_hundred_actions_is_no_deadlock():
    limits = {"actions_per_turn": 150, "max_turns": 2, "max_actions": 200}
    level = ["#" * 115, f"#PX{'_' * 110}O#", "#" * 115]
    (wasted,) = play("Sokoban", Scripted("no", "no"), level=level, **limits)
    assert Blunder.OVERRUN in {decision.blunder for decision in wasted.decisions}


def test_the_wrong_arm_is_a_deadlock_of_the_first_turn():
    found = [play("Bandit", Scripted(answer(name)))[0] for name in arms()]
    assert sorted(each.lost_at is None for each in found) == [False, True]
    (bad,) = (each for each in found if each.lost_at == 0)
    assert bad.decisions[0].blunder == Blunder.DEADLOCK
    assert bad.decisions[0].plan != bad.episode.turns[0].executed
    assert bad.wasted_tokens == 0


def arms():
    from ragen_envs.conversation import make

    env = make("ragen/BanditText-v0")
    env.reset(options={"split": "test", "index": 0})
    return env.names


def test_an_invalid_reply_that_ends_the_game_costs_all():
    (found,) = play("Sokoban", Scripted("no"), invalid="end")
    assert [decision.committed for decision in found.decisions] == [0.0]
    (kept,) = play("Sokoban", Scripted("no", *[answer("Up")] * 4), invalid="discard")
    assert kept.decisions[0].after == kept.decisions[0].committed


def test_tokens_after_the_blunder_are_wasted():
    (found,) = play("Sokoban", Scripted(*["no"] * 5))
    turns = tuple(turn.model_copy(update={"reply_tokens": 10}) for turn in found.episode.turns)
    counted = replace(found, episode=found.episode.model_copy(update={"turns": turns}))
    assert counted.wasted_tokens == 10 * (len(turns) - 1 - counted.lost_at)
    assert found.wasted_tokens is None or found.lost_at == len(turns) - 1


def test_records_that_cannot_be_explained_say_why():
    (found,) = play("Sokoban", Scripted(*["no"] * 5))
    broken = found.episode.model_copy(update={"turns": ()})
    with pytest.raises(NoLedgerError, match="ended before the first reply"):
        ledger(broken)


def test_a_run_is_explained(tmp_path, capsys):
    games = ["--game", "Sokoban", "--game", "FrozenLake"]
    out = str(tmp_path / "run")
    agents = ["--agent", "random", "--agent", "oracle"]
    assert main(["bench", *agents, *games, "--episodes", "6", "--out", out]) == 0
    capsys.readouterr()
    assert main(["explain", out, "--format", "json"]) == 0
    rows = {(r["game"], r["agent"]): r for r in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["Sokoban", "oracle"]["regret"] == 0
    assert rows["Sokoban", "random"]["blunders"] == 1 - rows["Sokoban", "random"]["success"]
    assert rows["FrozenLake", "oracle"]["corrected"] == pytest.approx(rows["FrozenLake", "oracle"]["optimal"])
    assert main(["explain", out]) == 0
    said = capsys.readouterr().out
    assert re.search(r"turns of random to look at first:\n  \w+ level \d+, turn \d+: ", said)
    assert "turns of oracle" not in said
    assert main(["explain", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


MODELS = """
from itertools import count

NUMBERS = count()


async def talker(request):
    return "I would go Up."


async def short(request):
    from ragen_agents.policies import Reply

    number = next(NUMBERS)
    if number % 2:
        return Reply("", overflow=True)
    return "<think>x</think><answer>Up</answer>"


async def lost(request):
    from ragen_agents.policies import Reply

    return Reply("", overflow=True)
"""


@pytest.fixture
def played(tmp_path, monkeypatch, capsys):
    """Play agents of a module on Sokoban and return the folder of the run."""
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*agents, game="Sokoban"):
        named = [word for agent in agents for word in ("--agent", agent)]
        out = str(tmp_path / "run")
        assert main(["bench", *named, "--game", game, "--episodes", "8", "--out", out]) == 0
        capsys.readouterr()
        return out

    return run


def test_episodes_that_exceeded_the_context_count_in_success_only(played, capsys):
    out = played("models:short", "models:lost", "oracle")
    tables = []
    for command in ("show", "explain"):
        assert main([command, out, "--format", "json"]) == 0
        tables.append(json.loads(capsys.readouterr().out))
    for one, other in zip(*(table["rows"] for table in tables), strict=True):
        assert all(one[name] == other[name] for name in ("agent", "n", "success", "valid"))
    rows = {row["agent"]: row for row in tables[1]["rows"]}
    assert [rows[name]["judged"] for name in ("models:lost", "oracle")] == [0, 8]
    assert rows["models:lost"]["regret"] is None
    left_out = (
        "8 of 8 episodes of models:short and 8 of 8 episodes of models:lost are left out of the columns on "
        "decisions, because they exceeded the model's context"
    )
    assert left_out in tables[1]["notes"]
    assert left_out not in tables[0]["notes"]
    assert main(["show", out, "--wide", "--format", "json"]) == 0
    assert left_out in json.loads(capsys.readouterr().out)["notes"]
    assert main(["view", out, "--out", f"{out}-pages"]) == 0


@pytest.mark.parametrize(
    ("agent", "shown"),
    [("models:lost", "success"), ("models:talker", "luck-corrected")],
)
def test_a_narrow_table_keeps_the_success_of_all_episodes(played, capsys, monkeypatch, agent, shown):
    out = played(agent)
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert main(["explain", out]) == 0
    table, _, hidden = capsys.readouterr().out.partition("left out at 80 columns:")
    assert shown in table.partition("───")[0]
    assert f"{shown} %" not in " ".join(hidden.split())
    assert max(map(len, table.splitlines())) <= 80


def test_success_is_shown_in_a_narrow_terminal(tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "run")
    named = ["--agent", "random", "--agent", "oracle", "--game", "FrozenLakeDeterministic"]
    assert main(["bench", *named, "--episodes", "2", "--out", out]) == 0
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    assert main(["explain", out]) == 0
    table = capsys.readouterr().out
    assert "success" in table.partition("───")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_the_longest_game_fits_a_narrow_terminal(played, capsys, monkeypatch):
    out = played("models:talker", game="FrozenLakeDeterministic")
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert main(["explain", out]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in ("valid", "regret", "deadlock", "overrun"))


def test_invalid_replies_are_named_and_controls_come_only_alone(played, capsys):
    assert main(["explain", played("random", "models:talker")]) == 0
    said = capsys.readouterr().out
    assert "turns of random" not in said
    assert "turns of models:talker to look at first:" in said
    assert "played nothing (invalid reply: no <think>, no <answer>); the oracle: " in said


def test_an_entry_is_explained_like_a_run():
    run = read_explainable(ENTRIES / "oracle")
    assert run.missing == 0
    assert {agent for agent, _ in run.samples} == {"oracle"}


def test_luck_corrected_success_on_a_single_level_has_no_interval(tmp_path, capsys):
    out = str(tmp_path / "run")
    played = ["--agent", "oracle", "--game", "FrozenLake", "--episodes", "1"]
    assert main(["bench", *played, "--out", out]) == 0
    capsys.readouterr()
    assert main(["explain", out, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert 0 < row["corrected"] < 1
    assert row["corrected_low"] is row["corrected_high"] is None
    assert main(["explain", out, "--format", "markdown"]) == 0
    assert f"| {100 * row['corrected']:.1f} [-] |" in capsys.readouterr().out


def test_the_wide_table_of_a_run_has_the_columns_of_its_decisions(tmp_path, capsys):
    out = str(tmp_path / "run")
    played = ["--agent", "random", "--agent", "oracle", "--game", "FrozenLake", "--episodes", "6"]
    assert main(["bench", *played, "--out", out]) == 0
    capsys.readouterr()
    tables = []
    for command in (["explain", out], ["show", out, "--wide"]):
        assert main([*command, "--format", "json"]) == 0
        tables.append(json.loads(capsys.readouterr().out)["rows"])
    for one, other in zip(*tables, strict=True):
        assert all(one[name] == other[name] for name in ("agent", "corrected", "regret", "blunders"))
    assert main(["show", out, "--wide"]) == 0
    assert "luck-corrected %" in capsys.readouterr().out
    assert main(["show", out]) == 0
    assert "luck-corrected %" not in capsys.readouterr().out
