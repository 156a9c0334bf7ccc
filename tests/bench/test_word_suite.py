"""Games whose actions are words, through the commands that a user calls."""

import io
import json
import re
from dataclasses import replace

import pytest
from ragen_bench.__main__ import main
from ragen_bench.play.terminal import open_game, play_game
from rich.console import Console

from ragen_agents.policies.controls import RulePolicy
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.games.minesweeper import MinesweeperEnv
from ragen_envs.games.webshop import WebShopEnv
from ragen_envs.games.webshop.dynamics import Page

GAMES = ("Countdown", "Mastermind", "Sudoku", "Minesweeper", "WebShop")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "words"
    agents = ["--agent", "random", "--agent", "oracle"]
    command = ["bench", "--suite", "reasoning", *agents, "--episodes", "6", "--out", str(out)]
    assert main(command) == 0
    return out


def test_a_run_plays_again_exactly(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert re.search(r"OK +60 episodes", capsys.readouterr().out)


def test_a_changed_reply_is_found(run, tmp_path, capsys):
    lines = (run / "episodes.jsonl").read_text("utf-8").splitlines()
    index = next(k for k, line in enumerate(lines) if "click[Buy Now]" in line and "oracle" in line)
    row = json.loads(lines[index])
    row["turns"][-1]["reply"] = row["turns"][-1]["reply"].replace("Buy Now", "Features")
    lines[index] = json.dumps(row)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in run.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    (copy / "episodes.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (copy / "episodes.sha256").unlink(missing_ok=True)
    assert main(["verify", str(copy)]) == 1
    assert "reply" in capsys.readouterr().err


def test_decisions_are_explained(run, capsys):
    assert main(["explain", str(run)]) == 0
    shown = capsys.readouterr().out
    for game in GAMES:
        assert game in shown
    assert "the oracle: search[" in shown or "the oracle: click[" in shown


def test_the_viewer_shows_every_page(run, tmp_path):
    out = tmp_path / "site"
    assert main(["view", str(run), "--out", str(out)]) == 0
    for game in GAMES:
        text = next(out.glob(f"episodes/*oracle/{game}.html")).read_text("utf-8")
        data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])
        for episode in data["episodes"]:
            actions = [frame for frame in episode["frames"] if "action" in frame]
            assert len(actions) == sum(len(turn["actions"]) for turn in episode["turns"])
            assert all(frame["board"] for frame in episode["frames"])


def test_the_viewer_shows_episodes_in_which_the_oracle_reaches_its_limit(tmp_path):
    """Turns that are wasted leave a budget under which Minesweeper's oracle may not know what is best."""
    run, out = tmp_path / "run", tmp_path / "site"
    command = ["bench", "--game", "Minesweeper", "--agent", "noop", "--episodes", "4"]
    assert main([*command, "--out", str(run)]) == 0
    assert main(["view", str(run), "--out", str(out)]) == 0
    text = next(out.glob("episodes/*noop/Minesweeper.html")).read_text("utf-8")
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])
    plans = [frame["best"] for episode in data["episodes"] for frame in episode["frames"]]
    assert any(plans)
    assert not all(plans)


def played(game, *lines, **settings):
    env = make(f"ragen/{game}Text-v0", **settings)
    env.reset(options={} if settings else {"split": "test", "index": 0})
    told = io.StringIO()
    answers = iter(lines)
    play_game(env, Console(file=told, width=100), lambda: next(answers))
    return env, told.getvalue()


def test_a_person_writes_actions_and_learns_why_one_is_illegal():
    env, told = played("Countdown", "7 + 100", "hint", "25 - 7", "18 + 8", level="26: 3 7 8 25")
    assert "100 is not among the numbers; write a + b, a - b, a * b, a / b, hint or quit" in told
    assert "best: 25 - 7 || 18 + 8" in told or "best: " in told
    assert env.success


@pytest.mark.parametrize(
    ("game", "settings", "words"),
    [
        ("Bandit", {}, "Write an action, or first letters such as"),
        (
            "Sokoban",
            {"actions_per_turn": 2},
            "Write actions, separated by ||, or first letters such as ud, and",
        ),
        ("Countdown", {"actions_per_turn": 1}, "Write an action, and press Enter."),
    ],
)
def test_a_person_is_told_what_can_be_typed(game, settings, words):
    _, told = played(game, "quit", **settings)
    assert words in " ".join(told.split())


def test_a_split_is_that_of_a_frozen_level():
    with pytest.raises(RagenError, match="choose one with --index"):
        open_game("Sokoban", None, "validation", None, {})


def test_a_hint_that_the_oracle_cannot_give_does_not_end_the_game(monkeypatch):
    def limited(*_):
        raise SolverLimitError("5 turns may be too few")

    monkeypatch.setattr(MinesweeperEnv, "oracle", limited)
    _, told = played("Minesweeper", "hint", "quit")
    assert "no hint: 5 turns may be too few" in told
    assert "you stopped" in told


def test_a_person_may_stop(capsys):
    _, told = played("WebShop", "search[tea]", "quit")
    assert "you stopped" in told


def test_rules_of_the_shop_play_the_shop_only(tmp_path, capsys):
    shop = ["--game", "WebShop", "--episodes", "4"]
    agents = ["--agent", "webshop-first-hit", "--agent", "webshop-rule"]
    assert main(["bench", *shop, *agents, "--out", str(tmp_path / "shop")]) == 0
    assert main(["verify", str(tmp_path / "shop")]) == 0
    capsys.readouterr()
    main(["bench", "--game", "Bandit", *agents[:2], "--episodes", "2", "--out", str(tmp_path / "x")])
    shown = capsys.readouterr()
    assert "the agent 'webshop-first-hit' plays WebShop only" in shown.out + shown.err


@pytest.mark.parametrize(
    ("values", "asked", "chosen"),
    [
        (("king", "california king"), "california king", "california king"),
        (("large", "x-large"), "x-large", "x-large"),
        (("2 pack", "12 pack"), "12 pack", "12 pack"),
        (("Red", "Blue"), "red", "Red"),
        (("large", "2 pack"), "x-large, 12 pack", "Buy Now"),
    ],
)
def test_the_rule_chooses_what_the_instruction_names_in_whole_words(values, asked, chosen):
    shop = WebShopEnv(products=50)
    shop.reset(seed=0)
    shop.goal = replace(shop.goal, instruction=f"Find me a thing, with kind: {asked}, for 20 dollars.")
    shop.page = Page(query="", product=replace(shop.goal.product, options=(("kind", values),)))
    assert RulePolicy()._action(shop) == f"click[{chosen}]"
