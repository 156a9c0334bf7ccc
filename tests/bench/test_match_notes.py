"""What is said below the tables of matches, and how they are printed."""

import json
import re
from pathlib import Path

import pytest
from ragen_bench.__main__ import main
from ragen_bench.cli.score import DEFAULT_AGENTS
from ragen_bench.config.suites import load_suite

AGENTS = """
async def broken(request):
    raise RuntimeError("no\\x1b licence")


async def silent(request):
    from ragen_agents.policies import Reply

    return Reply("", overflow=True)


async def fenced(request):
    return "I would stay."


async def unthinking(request):
    return "<answer>Stay</answer>"
"""


@pytest.fixture
def play(tmp_path, monkeypatch, capsys):
    """Play matches of agents, some of a module, on one game and return what is printed."""
    (tmp_path / "seated.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "500")

    def run(*agents, game="FrozenLakeRace", episodes=2):
        named = [word for agent in agents for word in ("--agent", agent)]
        more = ["--game", game, "--episodes", str(episodes), "--out", str(tmp_path / "run")]
        assert main(["match", *named, *more]) == 0
        return capsys.readouterr()

    return run


def show(run, capsys, *options):
    """Return what is printed of a run, without colours."""
    capsys.readouterr()
    assert main(["show", str(run), *options]) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


def test_agents_that_fail_on_their_seats_are_told_why(play):
    shown = play("seated:broken", "random")
    assert (
        "note: 8 of 8 seats of seated:broken ended in an error and count as not solved; "
        'example: "RuntimeError: no⟨U+001B⟩ licence"\n'
    ) in shown.out
    assert "seats of random" not in shown.out
    assert "6 matches had a seat that ended in an error or exceeded the model's" in shown.err


def test_seats_that_exceed_the_context_can_be_played_again(play):
    shown = play("seated:silent", episodes=1)
    assert "2 of 2 seats of seated:silent exceeded the model's context and count as" in shown.out
    assert "1 match had a seat that ended in an error or exceeded the model's" in shown.err


def test_invalid_replies_on_seats_are_told_why(play):
    shown = play("seated:fenced", "random").out
    assert "valid replies of seated:fenced: 0% on FrozenLakeRace (no <think> " in shown
    assert "warning: most replies of seated:fenced are invalid on FrozenLakeRace" in shown
    # Seats have no worked examples, so none are recommended.
    assert re.search(r"ragen view \S+/run shows them all\n", shown)


def test_the_advice_for_seats_fits_the_most_frequent_defect(play):
    shown = play("seated:unthinking").out
    assert "and --setting think=false asks for replies without <think>\n" in shown


def test_games_whose_levels_repeat_are_named(play, tmp_path, capsys):
    play("random", "noop", game="BanditMarket", episodes=4)
    path = tmp_path / "run" / "episodes.jsonl"
    matches = [json.loads(line) for line in path.read_text().splitlines()]
    for match in matches:
        match["instance"]["key"] = f"{match['instance']['seed'] // 2:016x}"
    path.write_text("".join(json.dumps(match) + "\n" for match in matches))
    path.with_suffix(".sha256").unlink()
    assert (
        "intervals are clustered by level where levels repeat: BanditMarket 4 matches of each "
        "lineup on 2 levels"
    ) in json.loads(show(tmp_path / "run", capsys, "--format", "json"))["notes"]


def test_returns_on_one_level_have_no_interval(play, tmp_path, capsys):
    shown = play("random", "noop", episodes=1).out
    assert re.search(r"-?\d+\.\d\d \[-\]", shown)
    for row in json.loads(show(tmp_path / "run", capsys, "--format", "json"))["rows"]:
        assert row["return_low"] is row["return_high"] is None
        assert row["success_low"] < row["success_high"]


def test_the_success_on_four_seats_fits_a_narrow_terminal(play, tmp_path, monkeypatch, capsys):
    play("random", "noop", "oracle", game="BanditMarket")
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    tables = [
        re.search(r"Success % by seat\n(.*)\nReplies\n", shown, re.DOTALL)[1]
        for shown in (
            re.sub(" +\n", "\n", show(tmp_path / "run", capsys, *more)) for more in ([], ["--wide"])
        )
    ]
    assert max(map(len, tables[0].splitlines())) <= 80
    assert "left out at 80 columns: intervals; --wide" in " ".join(tables[0].split())
    assert "[34.2, 100.0]" not in tables[0]
    assert "[34.2, 100.0]" in tables[1]


def test_the_documented_table_is_what_is_printed(tmp_path, capsys):
    """Only one game is played, in seconds."""
    page = (Path(__file__).parents[2] / "docs/match.md").read_text("utf-8")
    documented = re.findall(r"^\| (\w+) \| (\w+) \| \d.*\|$", page, re.MULTILINE)
    games = list(load_suite("match").tasks)[:2]
    assert documented == [(game, agent) for game in games for agent in DEFAULT_AGENTS]
    out = str(tmp_path / "run")
    assert main(["match", "--game", "SokobanCoop", "--format", "markdown", "--out", out]) == 0
    table = capsys.readouterr().out.split("\nReturn\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| SokobanCoop |")]
    assert len(rows) == len(DEFAULT_AGENTS)
    assert all(f"\n{row}\n" in page for row in rows)
