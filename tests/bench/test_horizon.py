"""Success by the length of a shortest solution, and the 50% horizon."""

import json
import math

import numpy as np
import pytest
import ragen_bench as rb
from ragen_bench.__main__ import main
from ragen_bench.evaluation.curves import half_horizon

from ragen_envs.conversation import format_reply
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.sokoban import SokobanEnv

LENGTHS = np.arange(3, 99, 5)
ERROR = 0.05
HORIZON = math.log(0.5) / math.log(1 - ERROR)


def errs_in_some_moves(request):
    """Pushes the box through the corridor, and stops for good at the first move that goes wrong."""
    text = request.messages[-1]["content"]
    rows = [line for line in text.splitlines() if set(line) <= set("#PX_O") and line]
    inner = "".join(rows).replace("#", "")
    ways = ("Right", "Left") if len(rows) == 3 else ("Down", "Up")
    wrong = np.random.default_rng(request.seed).random(200) < ERROR
    right = min(int(np.argmax([*wrong, True])), len(inner) - 2)
    return format_reply([ways[inner[0] == "O"]] * right or ["Up"], "")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return rb.evaluate(
        {"errs": errs_in_some_moves}, games="Sokoban", levels="corridors",
        settings={"max_turns": 1, "actions_per_turn": 100, "max_actions": 100},
        out=tmp_path_factory.mktemp("horizon") / "run",
    )  # fmt: skip


def test_an_agent_that_errs_in_each_move_has_its_horizon(run):
    curve = run.curve()
    assert list(curve["value"]) == list(LENGTHS)
    assert set(curve["n"]) == {4}
    assert set(curve["optimal_success"]) == {1.0}
    assert curve["random_success"].is_monotonic_decreasing
    row = curve.iloc[0]
    assert row["horizon_low"] < HORIZON < row["horizon_high"]
    assert 0.5 < row["horizon"] / HORIZON < 2


def test_attempts_at_a_level_do_not_make_the_horizon_surer(tmp_path):
    once, often = (
        rb.evaluate(
            "oracle", games="Sokoban", episodes=8, attempts=attempts, out=tmp_path / str(attempts)
        ).curve()
        for attempts in (1, 4)
    )
    assert list(often["n"]) == [4 * n for n in once["n"]]
    assert list(often["horizon_low"]) == list(once["horizon_low"])


def test_the_command_prints_the_curve(run, capsys):
    assert main(["show", str(run.folder), "--by", "pushes", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["value"] for row in shown["rows"]] == list(LENGTHS)
    assert main(["show", str(run.folder), "--by", "solution_length", "--format", "markdown"]) == 0
    assert "| Sokoban | errs | 50% horizon |" in capsys.readouterr().out
    assert main(["show", str(run.folder), "--by", "beauty"]) == 2
    assert "solution_length, pushes, boxes, cells" in capsys.readouterr().err


def test_the_interval_covers_the_horizon():
    draws = np.random.default_rng(1).binomial(4, (1 - ERROR) ** LENGTHS, (40, len(LENGTHS)))
    fits = [half_horizon(LENGTHS, solved, np.full(len(LENGTHS), 4)) for solved in draws]
    assert sum(fit.low <= HORIZON <= fit.high for fit in fits) >= 35
    assert np.median([fit.estimate for fit in fits]) == pytest.approx(HORIZON, rel=0.15)


def test_a_number_that_levels_lack_is_named_with_the_run(tmp_path, capsys):
    out = str(tmp_path / "run")
    words = ["bench", "--agent", "oracle", "--game", "Sokoban", "--episodes", "1", "--out", out]
    assert main([*words, "--by", "beauty"]) == 2
    assert "--by is 'beauty', but the levels have solution_length" in (said := capsys.readouterr().err)
    assert f"all episodes are in {out}" in said


def test_horizons_beyond_the_levels():
    every, none = (half_horizon(LENGTHS, solved, np.full(20, 4)) for solved in (np.full(20, 4), np.zeros(20)))
    assert every.estimate == every.high == math.inf
    assert every.low > 98
    assert none.estimate == none.low == 0
    assert none.high < 3


def test_levels_of_size_zero_are_rungs_without_a_say_in_the_horizon(tmp_path, capsys):
    lakes = tmp_path / "lakes.txt"
    lakes.write_text("SFF\nFFG\n\nSFF\nHFG\n")
    words = ["bench", "--agent", "oracle", "--game", "FrozenLakeDeterministic", "--levels", str(lakes)]
    words += ["--by", "holes", "--out"]
    assert main([*words, str(tmp_path / "run"), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["value"], row["n"]) for row in rows] == [(0, 1), (1, 1)]
    assert rows[0]["horizon_low"] == half_horizon([1], [1], [1]).low
    assert all(map(math.isnan, half_horizon([0], [1], [1])))
    lakes.write_text("SFF\nFFG\n")
    assert main([*words, str(tmp_path / "other"), "--format", "markdown"]) == 0
    assert "| 50% horizon | - [-, -] |  |  | 0 |" in capsys.readouterr().out


def test_what_is_known_of_levels():
    env = SokobanEnv(level=["#######", "#P_XO_#", "#_____#", "#######"])
    env.reset()
    assert env.measures() == {"solution_length": 2, "pushes": 1, "boxes": 1, "cells": 10}
    lake = FrozenLakeEnv(level=["SFF", "HFG"])
    lake.reset()
    assert lake.measures() == {"solution_length": 3, "holes": 1, "cells": 5}
    corridors = SokobanEnv.read_levels("corridors")
    assert len(corridors) == 80
    assert corridors[0] == "#######/#PX__O#/#######"
    assert corridors[20] == "###/#P#/#X#/#_#/#_#/#O#/###"
