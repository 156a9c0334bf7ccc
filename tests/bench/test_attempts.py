"""`ragen bench --attempts`: several tries at each level."""

import json
import re

import pytest
import yaml
from interrupted_runs import cut
from ragen_bench.__main__ import main
from ragen_bench.evaluation.run_table import read_run, summarise

ATTEMPTS, LEVELS = 3, 12


def words(out, *more):
    return ["bench", "--agent", "random", "--agent", "oracle", "--game", "Sokoban", "--game", "FrozenLake",
            "--episodes", str(LEVELS), "--attempts", str(ATTEMPTS), "--out", str(out), *more]  # fmt: skip


def records(run):
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("attempts") / "run"
    assert main(words(out)) == 0
    return out


def test_the_table_counts_levels_that_any_or_all_attempts_solved(run):
    table = summarise(read_run(run)).set_index(["game", "agent"])
    for (game, agent), row in table.iterrows():
        own = [e for e in records(run) if (e["task"], e["agent"]) == (game, agent)]
        tries = [[e["success"] for e in own if e["instance"]["index"] == i] for i in range(LEVELS)]
        assert {len(each) for each in tries} == {ATTEMPTS}
        assert row["n"] == LEVELS * ATTEMPTS
        assert row["pass_at_k"] == pytest.approx(sum(map(any, tries)) / LEVELS)
        assert row["pass_hat_k"] == pytest.approx(sum(map(all, tries)) / LEVELS)
        assert row["pass_hat_k"] <= row["success"] <= row["pass_at_k"]
    lake = table.loc["FrozenLake", "oracle"]
    assert lake["pass_hat_k"] < lake["pass_at_k"]  # attempts differ by the slips of the ice


def test_attempts_at_one_level_count_as_one_level_in_intervals(run, tmp_path):
    one = tmp_path / "one"
    assert main([*words(one, "--episodes", "36", "--attempts", "1")]) == 0
    several, single = (summarise(read_run(r)).set_index(["game", "agent"]) for r in (run, one))
    width = [t["success_high"] - t["success_low"] for t in (several, single)]
    assert (width[0]["Sokoban", "oracle"]) > 1.5 * width[1]["Sokoban", "oracle"]


def test_the_first_attempt_is_the_run_with_one(run, tmp_path):
    one = tmp_path / "one"
    assert main(words(one, "--attempts", "1")) == 0

    def timeless(found):
        return [{**e, "turns": [{**t, "seconds": 0} for t in e["turns"]]} for e in found if not e["attempt"]]

    assert timeless(records(run)) == timeless(records(one))
    assert "attempts" not in yaml.safe_load((one / "config.yaml").read_text())


def test_runs_with_attempts_resume_verify_and_are_shown(run, tmp_path, capsys):
    out = tmp_path / "cut"
    assert main(words(out)) == 0
    lines = (out / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    cut(out, len(b"".join(lines[:30])) + 50)
    assert main(words(out)) == 0
    assert len(records(out)) == 2 * 2 * LEVELS * ATTEMPTS
    for each in (run, out):
        assert main(["verify", str(each)]) == 0
    assert main(["compare", f"{run}:random", f"{out}:random"]) == 0
    assert main(["explain", str(run)]) == 0
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    assert "pass^k" in capsys.readouterr().out
    assert main(["view", str(run), "--out", str(tmp_path / "pages")]) == 0
    page = (tmp_path / "pages/episodes/0-random/FrozenLake.html").read_text()
    assert '"name": "3-2"' in page or '"name":"3-2"' in page


def test_attempts_of_one_side_alone_are_left_out_of_a_comparison_and_it_says_so(run, tmp_path, capsys):
    for name, attempts in (("one", "1"), ("two", "2")):
        assert main(words(tmp_path / name, "--attempts", attempts)) == 0
    said = {
        (f"{run}:random", f"{tmp_path / 'one'}:random"): (
            "A has 3 attempts at each level and B 1: only the first is compared",
            LEVELS,
        ),
        (f"{tmp_path / 'one'}:random", f"{run}:random"): (
            "A has 1 attempt at each level and B 3: only the first is compared",
            LEVELS,
        ),
        (f"{run}:random", f"{tmp_path / 'two'}:random"): (
            "A has 3 attempts at each level and B 2: only the first 2 are compared",
            2 * LEVELS,
        ),
    }
    for sides, (note, count) in said.items():
        capsys.readouterr()
        assert main(["compare", *sides, "--format", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert note in answer["notes"]
        assert {row["n"] for row in answer["rows"]} == {count}


def test_turns_to_look_at_first_name_their_attempts(run, tmp_path, capsys):
    capsys.readouterr()
    assert main(["explain", str(run)]) == 0
    listed = re.findall(r"(\w+) level ([\d-]+), turn (\d+):", capsys.readouterr().out)
    assert main(["view", str(run), "--out", str(tmp_path / "pages")]) == 0
    front = (tmp_path / "pages/index.html").read_text(encoding="utf-8")
    found = re.findall(r'#([\d-]+)/\d+">(\w+), level ([\d-]+), turn (\d+)</a>', front)
    assert [(game, name, turn) for _, game, name, turn in found] == listed
    assert all(address == name for address, _, name, _ in found)
    assert any("-" in name for _, name, _ in listed)
    assert len(set(listed)) == len(listed)
    assert ">Episodes</button>" in front


def test_slips_that_are_not_those_of_the_attempt_are_found(run, tmp_path, capsys):
    changed = tmp_path / "run"
    changed.mkdir()
    (changed / "config.yaml").write_bytes((run / "config.yaml").read_bytes())
    found = records(run)
    next(e for e in found if e["attempt"] == 1)["instance"]["noise"] = 0
    (changed / "episodes.jsonl").write_text("".join(json.dumps(e) + "\n" for e in found))
    (changed / "episodes.sha256").unlink(missing_ok=True)
    assert main(["verify", str(changed)]) == 1
    assert "instance.noise: recorded 0, recomputed 1" in capsys.readouterr().err


def test_several_attempts_are_no_entry_of_the_leaderboard(run, tmp_path, capsys):
    about = {"name": "random", "title": "R", "model": "none", "authors": "A", "description": "D.",
             "contamination": "None."}  # fmt: skip
    (tmp_path / "about.yaml").write_text(yaml.safe_dump(about))
    arguments = ["--about", str(tmp_path / "about.yaml"), "--entries", str(tmp_path / "entries")]
    assert main(["submit", f"{run}:random", *arguments]) == 2
    assert "has 3 attempts at each level, but an entry has one" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "1025", "x"])
def test_a_wrong_number_of_attempts_is_refused(value, tmp_path, capsys):
    assert main(words(tmp_path / "run", "--attempts", value)) == 2
    assert "--attempts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_sampled_random_agent_scores_zero_over_all_its_attempts(tmp_path):
    """Sudoku has no exact random play, so the score 0 is what the agent 'random' reached."""
    agents = ["--agent", "random", "--agent", "oracle", "--game", "Sudoku"]
    command = [
        "bench",
        *agents,
        "--episodes",
        "16",
        "--attempts",
        "4",
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(command) == 0
    table = summarise(read_run(tmp_path / "run")).set_index("agent")
    assert 0 < table.loc["random", "success"] < 1
    assert table.loc["random", "score"] == pytest.approx(0, abs=1e-9)
    assert table.loc["oracle", "score"] == pytest.approx(100)
