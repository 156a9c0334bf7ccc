"""Tables, claims and drawings from results whose truth is known."""

import csv
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from ragen_bench.__main__ import main
from ragen_bench.config import agents
from ragen_bench.reproduction import reproduction_config
from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.figures import draw_curves, line_styles
from ragen_bench.reproduction.reproduction_config import bundled_reproductions, load_reproduction
from ragen_bench.reproduction.reproduction_report import kept_reports
from ragen_bench.reproduction.run_measures import Runs
from ragen_bench.reproduction.success_table import claims_grid, table_grid, tabulate
from ragen_bench.training_sweeps.results import add_to_archive, archive_path
from ragen_bench.training_sweeps.sweep_config import load_sweep
from ragen_bench.training_sweeps.tasks import Choice, plan
from results import make_result, results_of, sweep_of
from scripted_policy import ScriptedPolicy

from ragen_envs import SUITE_VERSION


@pytest.mark.parametrize("name", bundled_reproductions())
def test_every_table_and_figure_of_the_package_can_be_made(name):
    what, results = results_of(name, {}, seeds=2)
    runs = Runs(sweep_of(what), results)
    data = tabulate(what.columns, what.paper, runs)
    sweep = what.load_sweep()
    cells = sweep.scales["laptop"].cells or list(sweep.cells)
    assert set(data["row"]) == {*cells, "random", "initial", "oracle", "optimum (exact)"}
    sampled = data[data["seeds"] > 0]
    assert sampled["success"].between(sampled["low"], sampled["high"]).all()
    assert len(judge(what, runs)) == len(what.claims)


def test_tables_show_exact_controls_where_they_are_known():
    what, results = results_of("figure5", {}, seeds=2)

    def known(result):
        changed = {
            agent: {test: o.model_copy(update={"random": 0.25, "optimal": 0.75}) for test, o in tests.items()}
            for agent, tests in result.outcomes.items()
        }
        return result.model_copy(update={"outcomes": changed})

    def shown(found):
        grid = table_grid(tabulate(what.columns, what.paper, Runs(sweep_of(what), found)))
        place = grid.header.index("random / initial\n/ optimum %")
        return {row[place].split(" / ")[0] for row in grid.rows}, grid.rows[0][place].split(" / ")[2]

    assert shown([known(r) for r in results]) == ({"25.0"}, "75.0")
    sampled, optimum = shown(results)
    assert "25.0" not in sampled
    assert optimum == "100.0"


def test_gains_and_hours_have_a_column_where_they_say_something_new():
    row = {"claim": "", "verdict": "", "paper": "", "p_holm": 1.0, "premise": "", "remedy": ""}

    def header(*claims):
        names = "ours", "gain", "core_hours", "validation"
        rows = [row | dict(zip(names, claim, strict=True)) for claim in claims]
        return set(claims_grid(pd.DataFrame(rows)).header)

    none = float("nan")
    same = header(("+1", "+1", none, ""), ("2 of 3 runs", "", none, ""))
    assert header(("+1", "+2", none, ""), ("+2", "+1", none, "")) == same | {"in the gain"}
    assert header(("+1", "+1", 0.5, ""), ("+2", "", none, "")) == same | {"core hours"}
    assert header(("+1", "+1", none, "+2"), ("+2", "", none, "")) == same | {"on validation"}


def test_cells_of_a_family_share_a_colour_and_no_two_lines_look_alike():
    drawn = {what.sweep for what in map(load_reproduction, bundled_reproductions())}
    for sweep in map(load_sweep, drawn):
        styles = line_styles(sweep)
        assert len({(colour, str(dash)) for colour, dash in styles.values()}) == len(sweep.cells)
    styles = line_styles(load_sweep("filter"))
    assert styles["keep-25"][0] == styles["keep-25-equal"][0] != styles["keep-50"][0]


def test_a_sweep_of_more_cells_than_colours_is_drawn():
    curves = {"validation/success": [0.3] * 30, "entropy": [1.0] * 30}
    what, results = results_of("ragen2-regularizers", {}, seeds=2, curves=curves)
    assert ">entropy-0.1<" in draw_curves(what, Runs(sweep_of(what), results))


def test_a_drawing_shows_short_curves_and_what_random_play_reaches():
    def drawn(length):
        what, results = results_of("figure7", {}, seeds=2, curves={"validation/success": [0.3] * length})
        return draw_curves(what, Runs(sweep_of(what), results))

    short, long = drawn(3), drawn(30)
    assert all(f">{name}<" in short for name in ("random", "start, tested", "optimum"))
    assert short.count("<use") > long.count("<use")  # its points are marked


@pytest.fixture(scope="module")
def table4(tmp_path_factory):
    """A folder of kept results of table 4, all of it."""
    what, results = results_of("table4", {"think": 0.8, "no-think": 0.4})
    folder = tmp_path_factory.mktemp("table4") / "results"
    add_to_archive(archive_path(folder, what.sweep, "laptop"), results)
    return folder


@pytest.fixture
def kept(table4, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(table4, tmp_path / "results"))


@pytest.fixture
def three_exhibits(monkeypatch):
    """Let "all" stand for a table before table 4, table 4, and a figure after it."""
    names = ["table2", "table4", "figure11"]
    monkeypatch.setattr(reproduction_config, "bundled_reproductions", lambda: names)


def test_reports_of_kept_results_have_the_runs_that_another_sweep_made(tmp_path):
    for name, cells, seeds in (("clip-kl", {"one-step"}, 6), ("ragen2-main", {"ppo"}, 8)):
        tasks = plan(load_sweep(name), Choice(seeds=seeds, games=("Sokoban",)))
        results = [make_result(task) for task in tasks if task.cell in cells]
        add_to_archive(archive_path(tmp_path, name, "laptop"), results)
    (report,) = [r for r in kept_reports(tmp_path) if r.exhibit.name == "figure8"]
    seeds = dict(zip(report.data["row"], report.data["seeds"], strict=True))
    assert (seeds["no-kl"], seeds["one-step"]) == (8, 6)


def test_claims_have_the_only_verdicts_on_a_table_of_the_paper(tmp_path):
    what, results = results_of("table4", {"think": 0.8, "no-think": 0.4})
    add_to_archive(archive_path(tmp_path, what.sweep, "laptop"), results)
    (report,) = [r for r in kept_reports(tmp_path) if r.exhibit.name == "table4"]
    assert {"p_holm", "verdict"} & {*report.data} == set()
    assert {"p Holm", "at the end"} & {*report.table.header, *report.table.hideable} == set()
    assert {"p Holm", "verdict"} <= {*report.claims.header}


def reproduce(kept, *more):
    out = str(kept.parent / "out")
    return main(["reproduce", "table4", "--results", str(kept), "--out", out, "--no-run", *more])


def test_a_folder_without_stored_results_is_named(tmp_path, capsys):
    missing = tmp_path / "nowhere"
    assert reproduce(missing) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"there are no stored results in '{missing}'" in shown.err
    assert not list(tmp_path.iterdir())


def test_a_sweep_without_stored_results_is_named(kept, capsys):
    out = str(kept.parent / "out")
    assert main(["reproduce", "table2", "--results", str(kept), "--out", out, "--no-run"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"there are no stored results of the sweep 'diversity' in '{kept}'" in shown.err


def test_all_tables_need_some_stored_results(kept, capsys):
    (kept / "laptop" / "reasoning.jsonl").unlink()
    out = str(kept.parent / "out")
    assert main(["reproduce", "all", "--results", str(kept), "--out", out, "--no-run"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"there are no stored results in '{kept}'" in shown.err


def test_all_tables_leave_out_those_without_stored_results(kept, three_exhibits, capsys):
    out = str(kept.parent / "out")
    assert main(["reproduce", "all", "--results", str(kept), "--out", out, "--no-run"]) == 0
    shown = capsys.readouterr()
    assert "Bandit → BanditRev" in shown.out
    assert "Table 2" not in shown.out
    assert f"note: there are no stored results of the sweep 'diversity' in '{kept}'" in shown.err


def test_kept_results_are_reused_and_written_as_files(kept, capsys):
    assert reproduce(kept) == 0
    shown = capsys.readouterr().out
    for text in (
        "Bandit → BanditRev",
        "67.6",
        "random",
        "optimum",
        "cannot tell",
        "from demonstrations",
    ):
        assert text in shown
    written = {path.name for path in (kept / "laptop").iterdir()}
    assert written == {f"table4{end}" for end in (".csv", "-claims.csv", ".md", ".svg")} | {"reasoning.jsonl"}
    with (kept / "laptop/table4.csv").open() as file:
        rows = list(csv.DictReader(file))
    think = next(r for r in rows if r["row"] == "think" and r["test"] == "Sokoban")
    assert float(think["paper"]) == pytest.approx(0.2148)
    assert float(think["low"]) < 0.8 < float(think["high"])
    assert (kept / "laptop/table4.svg").read_text().count("<svg") == 1


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    """A run of an agent that was never trained."""
    folder = tmp_path_factory.mktemp("benched")
    code = "async def agent(request):\n    return '<answer>Right</answer>'\n"
    (folder / "right_for_tables.py").write_text(code)
    games = [f"--game={game}" for game in ("Sokoban", "FrozenLake")]
    games += ["--setting=think=true", "--max-reply-tokens=160"]
    arguments = ["bench", "--agent", "right_for_tables:agent", "--agent", "random", *games]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        assert main([*arguments, "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_a_benchmarked_agent_joins_the_table(kept, benched, capsys):
    assert reproduce(kept, "--beside", str(benched), "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    joined = {row["test"]: row for row in rows if row["design"] == "zero-shot"}
    assert set(joined) == {"Sokoban", "FrozenLake"}
    assert main(["show", str(benched), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["rows"]
    for row in shown:
        if row["agent"] != "random":
            assert joined[row["game"]]["success"] == pytest.approx(row["success"])
            assert joined[row["game"]]["score"] is not None


def test_an_agent_that_had_other_settings_than_the_cells_is_refused(kept, benched, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["bench", "--agent", "right_for_tables:agent", "--game", "Sokoban"]
    assert main([*arguments, "--out", str(run)]) == 0
    assert reproduce(kept, "--beside", str(run)) == 2
    assert "Sokoban with {'think': True}" in capsys.readouterr().err


def test_what_is_kept_stays_what_can_be_made_of_it_again(kept, benched, capsys):
    reproduce(kept)
    before = {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()}
    assert reproduce(kept, "--beside", str(benched)) == 0
    assert {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()} == before
    assert "zero-shot" in (kept.parent / "out/table4-laptop.md").read_text()
    assert reproduce(kept, "--beside", str(benched), "--beside", str(benched)) == 2
    assert "another run has 'right_for_tables:agent (as think)' too" in capsys.readouterr().err


def test_agents_that_were_sampled_otherwise_are_named(kept, benched, tmp_path, monkeypatch, capsys):
    """The settings of the run decide, whatever was played."""
    reply = "<think>so</think><answer>Right</answer>"
    monkeypatch.setattr(agents, "make_policy", lambda name, _: ScriptedPolicy(name, lambda _: reply))
    arguments = ["bench", "--agent", "starter", "--game", "FrozenLake", "--temperature", "0",
                 "--setting", "think=true"]  # fmt: skip
    assert main([*arguments, "--max-reply-tokens", "100", "--out", str(tmp_path / "cold")]) == 0
    beside = ["--beside", str(benched), "--beside", str(tmp_path / "cold"), "--format", "json"]
    capsys.readouterr()
    assert reproduce(kept, *beside) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    told = (
        "starter (as think) was sampled at temperature 0 with at most 100 tokens a reply, "
        "the cells at 0.5 with 160"
    )
    assert [note for note in notes if "sampled" in note] == [told]


def test_a_run_that_played_no_test_of_the_table_is_refused_before_any_work(kept, benched, capsys):
    arguments = ["reproduce", "table3", "--results", str(kept), "--beside", str(benched)]
    assert main([*arguments, "--out", str(kept.parent / "out3")]) == 2
    assert "Sokoban with {'think': False, 'max_turns': 5, 'actions_per_turn': 1" in capsys.readouterr().err
    assert not (kept.parent / "out3").exists()
    assert main(["reproduce", "all", "--beside", str(benched)]) == 2
    assert "--beside is for one table" in capsys.readouterr().err
    assert main(["reproduce", "all", "--no-run", "--format", "json"]) == 2
    assert "--format json is for one table" in capsys.readouterr().err


def test_how_a_metric_went_stands_beside_the_papers(tmp_path, capsys):
    curves = {"reply_tokens": [40.0] * 5 + [30.0] * 5 + [20.0] * 5}
    what, results = results_of("figure11", {}, curves=curves)
    add_to_archive(archive_path(tmp_path, what.sweep, "laptop"), results)
    arguments = ["figure11", "--results", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(["reproduce", *arguments, "--no-run", "--format", "markdown"]) == 0
    row = "| Bandit | think | 6 | 40.0 (40.0 to 40.0) | 30.0 (30.0 to 30.0) | 20.0 (20.0 to 20.0) |"
    assert f"{row} 66.0 / 25.6 / 17.6 |" in capsys.readouterr().out
    assert main(["reproduce", *arguments, "--no-run", "--format", "json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    first = next(s for s in stages if (s["trained_on"], s["place"]) == ("Bandit", "half way"))
    assert (first["row"], first["mean"], first["paper"]) == ("think", 30.0, 25.6)


def test_files_made_again_are_the_same(kept, capsys):
    reproduce(kept)
    first = {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()}
    reproduce(kept)
    assert {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()} == first


def test_results_of_other_weights_are_neither_taken_nor_lost(kept, capsys):
    path = kept / "laptop/reasoning.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["task"]["train"]["weights"] = "0" * 64
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = path.read_bytes()
    assert reproduce(kept) == 2
    told = capsys.readouterr().err
    assert "reasoning.jsonl' keeps a result of reasoning/laptop/" in told
    assert "train.weights is '0000" in told
    assert path.read_bytes() == before


def test_results_of_another_suite_version_are_refused(kept, capsys):
    path = kept / "laptop/reasoning.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["task"]["suite_version"] = SUITE_VERSION - 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert reproduce(kept) == 2
    assert "suite_version is" in capsys.readouterr().err


def test_numbers_of_the_paper_on_other_levels_are_marked(kept, capsys):
    assert reproduce(kept) == 0
    text = (kept / "laptop/table4.md").read_text()
    marked = [line for line in text.splitlines() if "→" in line and re.search(r"\d\*", line)]
    assert marked
    assert all("Bandit" in line or "NewVocab" in line for line in marked)
    assert "* the paper's BanditRev has other levels" in text


def test_without_runs_all_seeds_that_are_kept_are_shown(tmp_path):
    what, results = results_of("table4", {"think": 0.8, "no-think": 0.4}, seeds=8)
    add_to_archive(archive_path(tmp_path / "results", what.sweep, "laptop"), results)
    assert reproduce(tmp_path / "results") == 0
    with (tmp_path / "results/laptop/table4-claims.csv").open() as file:
        assert {row["seeds"] for row in csv.DictReader(file)} == {"8"}


def test_showing_results_leaves_their_file_as_it_is(kept):
    archive = kept / "laptop/reasoning.jsonl"
    before = archive.read_text().replace('"mis_bounds":null,', "")
    assert before != archive.read_text()
    archive.write_text(before)  # as an earlier release wrote it, which had no such setting
    assert reproduce(kept) == 0
    assert archive.read_text() == before


def test_fewer_seeds_than_are_kept_do_not_take_their_place(kept, capsys):
    assert reproduce(kept) == 0
    before = {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()}
    assert reproduce(kept, "--seeds", "1") == 0
    assert {path.name: path.read_bytes() for path in (kept / "laptop").iterdir()} == before
    assert "One seed" in (kept.parent / "out/table4-laptop.md").read_text()


def test_fewer_seeds_of_borrowed_runs_do_not_take_their_place_either(tmp_path):
    what, results = results_of("figure5", {})
    add_to_archive(archive_path(tmp_path, what.sweep, "laptop"), results)
    arguments = ["reproduce", "figure7", "--results", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--no-run"]) == 0
    before = (tmp_path / "laptop/figure7.md").read_bytes()
    assert main([*arguments, "--no-run", "--seeds", "1"]) == 0
    assert (tmp_path / "laptop/figure7.md").read_bytes() == before


def test_a_table_that_cannot_be_finished_stops_no_other(kept, three_exhibits, monkeypatch, capsys):
    from ragen_bench.cli import paper

    monkeypatch.setattr(paper, "finish", lambda run: False)
    out = str(kept.parent / "out")
    assert main(["reproduce", "all", "--results", str(kept), "--out", out]) == 1
    said = capsys.readouterr().out
    assert said.index("Table 2") < said.index("Table 4") < said.index("Figure 11")
    assert (kept / "laptop/table4.md").exists()


def test_one_seed_decides_nothing(kept, capsys):
    """However far apart its runs are."""
    assert reproduce(kept, "--seeds", "1", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    claims = [claim for claim in found["claims"] if claim["ours"]]
    assert claims
    assert {claim["verdict"] for claim in claims} <= {"undecided", "cannot tell"}


def test_a_dry_run_counts_what_is_kept(kept, capsys):
    assert reproduce(kept, "--dry-run", "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert all(row["done"] == row["tasks"] for row in rows)


def test_a_broken_line_of_kept_results_is_named(kept, capsys):
    path = kept / "laptop/reasoning.jsonl"
    path.write_text(path.read_text() + '{"task": 1}\n')
    assert reproduce(kept) == 2
    assert "reasoning.jsonl line" in capsys.readouterr().err


def test_an_unknown_table_is_named(capsys):
    assert main(["reproduce", "table9"]) == 2
    assert "table2, table3, table4, figure5" in capsys.readouterr().err


def test_runs_of_another_sweep_are_named_and_not_taken_for_its_own(tmp_path, capsys):
    folder = tmp_path / "results"
    what, results = results_of("figure7", {})
    own, others = [], []
    for result in results:
        if result.task.cell == "all" and result.task.seed is not None:
            twin = result.task.model_copy(update={"sweep": "algorithm", "cell": "twin"})
            others.append(result.model_copy(update={"task": twin}))
        else:
            own.append(result)
    add_to_archive(archive_path(folder, what.sweep, "laptop"), own)
    add_to_archive(archive_path(folder, "algorithm", "laptop"), others)
    before = (folder / "laptop/filter.jsonl").read_bytes()
    out = str(tmp_path / "out")
    assert main(["reproduce", "figure7", "--results", str(folder), "--out", out, "--no-run"]) == 0
    assert (folder / "laptop/filter.jsonl").read_bytes() == before
    text = (folder / "laptop/figure7.md").read_text()
    assert "all: the same runs as twin of the sweep algorithm" in text
    saving = next(line for line in text.splitlines() if "keeping 25% saves" in line.lower())
    assert "timed in other commands" in saving
    assert "undecided" in saving
