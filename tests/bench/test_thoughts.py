"""Thoughts of runs, checked: the table, differences between agents, and the marks in the viewer."""

import json
import re

import pandas as pd
import pytest
from ragen_bench import load
from ragen_bench.__main__ import main
from ragen_bench.analysis.thoughts import thoughts_grid

from ragen_envs.errors import RagenError

AGENTS = """
import re

WAYS = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}


def said(request):
    board = re.findall("^[#_OXPS√]{4,}$", request.messages[-1]["content"], re.MULTILINE)
    cells = {(r, c): sign for r, row in enumerate(board) for c, sign in enumerate(row)}
    if not cells:
        return "no board here", "Up"
    places = {
        name: next(cell for cell, sign in cells.items() if sign in signs)
        for name, signs in (("Player", "PS"), ("Box", "X√"), ("Target", "OS√"))
    }
    (row, column), move = places["Player"], "Up"
    for move, (down, right) in WAYS.items():
        ahead = row + down, column + right
        if cells[ahead] in "#_O":
            break
    led = "blocked" if cells[ahead] == "#" else "to {} {}".format(*ahead)
    told = " ".join("{} {} {}.".format(name, *place) for name, place in places.items())
    return f"{told} 5 {move} {led}.", move


async def honest(request):
    return "<think>√ 💡 {}</think><answer>{}</answer>".format(*said(request))


async def liar(request):
    thought, move = said(request)
    lie = thought.replace("Box ", "Box 9")
    return f"<think>{lie} Solved.</think><answer>{move} || Up || Down || Left || Right</answer>"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thoughts")
    (folder / "speakers.py").write_text(AGENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        out = folder / "run"
        agents = ["random", "speakers:honest", "speakers:liar"]
        named = [word for agent in agents for word in ("--agent", agent)]
        games = ["--game", "Sokoban", "--game", "Countdown"]
        assert main(["bench", *named, *games, "--episodes", "8", "--out", str(out)]) == 0
    return out


def test_the_table_tells_what_is_true_and_what_is_not(run, capsys):
    assert main(["explain", str(run), "--thoughts", "--format", "json"]) == 0
    table = json.loads(capsys.readouterr().out)
    rows = {row["agent"]: row for row in table["rows"]}
    assert {row["game"] for row in table["rows"]} == {"Sokoban"}
    honest, liar = rows["speakers:honest"], rows["speakers:liar"]
    names = ("made", "places", "move_1", "plan")
    assert [honest[name] for name in names] == [1] * 4
    assert [liar[name] for name in names] == [1, pytest.approx(2 / 3), 1, 0]
    assert liar["ends"] == 0
    assert (liar["place box"], liar["place player"]) == (0, 1)
    assert liar["places_low"] < liar["places"] < liar["places_high"]
    assert (rows["random"]["made"], rows["random"]["places"]) == (0, None)
    assert table["notes"] == ["no claims in the thoughts of random"]
    gaps = {
        each["measure"]: each["difference"]
        for each in table["compared"]
        if each["agent"] == "speakers:honest"
    }
    assert gaps["places"] == pytest.approx(1 / 3)
    assert gaps["moves"] == 0
    assert main(["explain", str(run), "--thoughts", "--format", "markdown"]) == 0
    said = capsys.readouterr().out
    assert "(box 0.0)" in said
    assert "| Sokoban | speakers:honest − speakers:liar | places | 33.3 [" in said
    assert f"\n\nThoughts compared, {run}\n\n| game |" in said


def test_things_of_ones_own_may_have_names_of_two_words():
    row = {"game": "Mine", "agent": "a", "made": 1.0, "made_low": 1.0, "made_high": 1.0, "replies": 3,
           "places": 0.5, "places_low": 0.4, "places_high": 0.6, "place box": 0.9, "place red_box": 0.1,
           "place red_box_low": 0.0}  # fmt: skip
    said = thoughts_grid(pd.DataFrame([row]))
    assert "(red_box 10.0)" in str(said)


def test_the_viewer_marks_each_claim_where_the_script_counts(run, tmp_path):
    assert main(["view", str(run), "--out", str(tmp_path / "site")]) == 0
    page = next((tmp_path / "site" / "episodes").glob("*honest*/Sokoban.html")).read_text("utf-8")
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    turn = data["episodes"][0]["turns"][0]
    units = turn["reply"].encode("utf-16-le")
    stated = [units[2 * a : 2 * b].decode("utf-16-le") for a, b, *_ in turn["claims"]]
    assert stated[0].startswith("Player ")
    assert stated[-1].startswith("5 ")
    assert all(true for _, _, true, _ in turn["claims"])


def test_a_run_of_games_without_claims_is_refused(run, tmp_path):
    out = str(tmp_path / "run")
    assert main(["bench", "--agent", "oracle", "--game", "Countdown", "--episodes", "2", "--out", out]) == 0
    with pytest.raises(RagenError, match="no replies to games that can check thoughts"):
        load(out).thoughts()


def test_a_number_of_claims_is_no_share(tmp_path, monkeypatch, capsys):
    (tmp_path / "curt.py").write_text(
        "async def place(request):\n    return '<think>Player 1 1</think><answer>Up</answer>'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out = str(tmp_path / "run")
    played = ["bench", "--agent", "curt:place", "--game", "Sokoban", "--episodes", "3", "--out", out]
    assert main(played) == 0
    capsys.readouterr()
    assert main(["explain", out, "--thoughts", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["per_thought"], row["per_thought_low"], row["per_thought_high"]) == (1, None, None)


def test_thoughts_without_claims_are_a_note(tmp_path, capsys):
    out = str(tmp_path / "run")
    assert main(["bench", "--agent", "random", "--game", "Sokoban", "--episodes", "2", "--out", out]) == 0
    capsys.readouterr()
    assert main(["explain", out, "--thoughts"]) == 0
    assert capsys.readouterr().out == "note: no claims in the thoughts of random\n"
