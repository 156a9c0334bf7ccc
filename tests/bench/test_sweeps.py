"""Sweeps of fixed models: what scripted agents must get, and what the command prints."""

import json
import re
import shutil

import numpy as np
import pytest
import ragen_bench as rb
from ragen_bench.__main__ import main
from ragen_bench.config.bundled import bundled_names
from ragen_bench.stats.variance_shares import variance_shares

from ragen_agents.model_files.source import model_source
from ragen_agents.policies import Reply
from ragen_envs.conversation import format_reply
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.levels.instances import load_pack


class Scripted:
    """Plays the oracle's actions as far as a function of the conversation lets it."""

    batch_size = 64

    def __init__(self, name, allowed):
        self.name, self.allowed = name, allowed

    def act(self, requests):
        return [self.answer(request.conversation) for request in requests]

    def answer(self, env):
        names = action_texts(env.names, env.oracle().actions)
        return Reply(format_reply([name for name in names if self.allowed(env, name)], "plan"))


def corridor(cells):
    wall = "#" * (cells + 2)
    return f"{wall}/#PX{'_' * (cells - 3)}O#/{wall}"


def short(env, name):
    return len(env.unwrapped.level.replace("/", "")) < 3 * (7 + 2)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_optimum_of_twins_is_equal_and_an_equivariant_agent_has_no_share_of_their_form():
    def by_level(env, name):
        return int(env.unwrapped.instance.key, 16) % 2 == 1

    run = rb.sweep("diversity", Scripted("even", by_level), games="Sokoban", episodes=6)
    table, shares = run.table(), run.shares().set_index("source")
    assert table["optimal_success"].nunique() == table["random_success"].nunique() == 1
    assert len(table) == 8 + 5
    assert shares["share"].to_dict() == {
        "level": 1.0, "orientation": 0.0, "wording": 0.0, "sampling": 0.0,
    }  # fmt: skip
    assert (shares["consistency"].dropna() == 1).all()
    run.verify()


def test_slips_are_those_of_the_same_level_in_every_orientation():
    """An agent whose moves are equivariant meets the same fate in all eight orientations of slippery ice."""

    def towards(env, name):
        return True

    class Straight(Scripted):
        def answer(self, env):
            rows = env.unwrapped.level.split("/")
            places = {c: (r, row.index(c)) for r, row in enumerate(rows) for c in "PG" if c in row}
            (r, c), (goal_r, goal_c) = places["P"], places["G"]
            # Along the longer way, whose direction turns with the level; levels without one are left out.
            down, right = goal_r - r, goal_c - c
            if abs(down) == abs(right):
                return Reply(format_reply([], "no"))
            vertical = abs(down) > abs(right)
            name = ("Down" if down > 0 else "Up") if vertical else ("Right" if right > 0 else "Left")
            return Reply(format_reply([env.names[env.face.actions(env.unwrapped).index(name)]], "go"))

    run = rb.sweep("diversity", Straight("straight", towards), games="FrozenLake", episodes=12)
    shares = run.shares().set_index("source")
    assert 0 < run.table()["success"].iloc[0] < 1
    assert shares.loc["orientation", "share"] == shares.loc["wording", "share"] == 0
    assert shares.loc["orientation", "consistency"] == 1


def test_an_agent_that_ignores_left_has_its_known_share():
    def without_left(env, name):
        return short(env, name) and name not in ("Left", "West")

    levels = [corridor(cells) for cells in (5, 6, 7, 8)]  # the last two are never solved
    agent = Scripted("no left", without_left)
    run = rb.sweep("diversity", agent, games="Sokoban", episodes=4, settings={"levels": levels})
    shares = run.shares().set_index("source")
    # Two of eight orientations lead to the left: 8/7 of 6/8 times 2/8, on half of the levels.
    orientation = (3 / 14) / 2
    # Half of the levels are solved in 5 of the 7 other orientations, and in all other words.
    level = 4 / 3 * (5 / 7) / 4
    assert shares.loc["orientation", "share"] == pytest.approx(orientation / (orientation + level))
    assert shares.loc["level", "share"] == pytest.approx(level / (orientation + level))
    assert shares.loc["wording", "share"] == shares.loc["sampling", "share"] == 0
    low, high = shares.loc["orientation", ["share_low", "share_high"]]
    assert low < 9 / 29 < high
    assert shares.loc["orientation", "consistency"] == 1 - (2 / 7) / 2


def test_shares_of_a_known_model():
    rng = np.random.default_rng(0)
    n, attempts = 4000, 3
    level, base = rng.normal(size=(n, 1, 1)), {}
    effect = {"a": 0.5, "b": 1.5}
    first = {name: rng.normal(0, scale, (n, 1, 1)) for name, scale in effect.items()}
    for name, scale in effect.items():
        other = next(first[each] for each in effect if each != name)
        own = np.concatenate([first[name], rng.normal(0, scale, (n, 3, 1))], axis=1)
        base[name] = level + own + other + rng.normal(size=(n, 4, attempts))
    shares = variance_shares(base, resamples=200)
    whole = 1 + 0.25 + 2.25 + 1
    for name, truth in {"level": 1, "a": 0.25, "b": 2.25, "sampling": 1}.items():
        assert shares[name].low <= truth / whole + 0.01
        assert shares[name].high >= truth / whole - 0.01
    alone = variance_shares({"b": base["b"]}, resamples=10)
    assert alone["b"].estimate == pytest.approx(2.25 / (1.25 + 2.25 + 1), abs=0.02)


class Eager(Scripted):
    """Writes an action more than it needs, where there is room."""

    def answer(self, env):
        names = action_texts(env.names, env.oracle().actions)
        more = ["Up"] if len(names) < env.budget.this_turn else []
        return Reply(format_reply([*names, *more], "plan"))


def test_granularity_changes_the_turns_and_not_the_optimum():
    run = rb.sweep("granularity", Eager("eager", None), games="Sokoban", episodes=4)
    table = run.table()
    fixed, published = (table[table["axis"] == axis] for axis in ("budget", "published"))
    assert list(fixed["point"]) == ["1", "2", "3", "5", "7", "10"]
    assert fixed["optimal_success"].nunique() == 1
    assert (fixed["success"] == fixed["optimal_success"]).all()
    assert fixed["turns"].is_monotonic_decreasing
    assert fixed["turns"].iloc[0] > fixed["turns"].iloc[-1] == 1
    assert fixed["executed"].iloc[0] == 1 > fixed["executed"].iloc[-1] > 0.5
    assert published["optimal_success"].is_monotonic_increasing
    assert list(published["reference"].unique()) == ["5"]


def test_the_command_prints_tables_and_writes_a_chart(capsys):
    words = ["sweep", "diversity", "--agent", "noop", "--game", "FrozenLakeDeterministic"]
    words += ["--episodes", "3", "--out", "runs/mine"]
    assert main([*words, "--format", "json"]) == 0
    out = capsys.readouterr()
    data = json.loads(out.out, parse_constant=pytest.fail)  # such as NaN, which is no JSON
    assert {row["point"] for row in data["rows"]} >= {"standard", "mirrored", "actions"}
    assert {row["source"] for row in data["shares"]} == {
        "level",
        "orientation",
        "wording",
        "sampling",
    }
    assert "chart: runs/mine/sweep-noop.svg" in out.err
    assert "verify: ragen verify runs/mine" in out.err
    assert main([*words, "--format", "markdown"]) == 0  # again, from the episodes that are there
    shown = capsys.readouterr().out
    assert "diversity 1, orientation: orientation of the same levels" in shown
    assert "Sources of variance" in shown
    assert main(["show", "runs/mine"]) == main(["verify", "runs/mine"]) == 0


def test_agents_without_an_episode_have_no_rows_and_no_chart(capsys):
    words = ["sweep", "granularity", "--agent", "oracle", "--game", "Sokoban", "--episodes", "1"]
    for style in ("table", "csv"):
        assert main([*words, "--time-limit", "0.00001", "--out", "runs/none", "--format", style]) == 3
        out = capsys.readouterr()
        assert out.out.startswith("game,axis" if style == "csv" else "")
        assert "budget reached" in out.err
        assert "chart:" not in out.err
    some = rb.sweep("granularity", ["noop", "oracle"], games="Sokoban", episodes=1, out="runs/some")
    lines = (some.folder / "episodes.jsonl").read_text().splitlines(keepends=True)
    (some.folder / "episodes.jsonl").write_text("".join(lines[: len(lines) // 2]))
    (some.folder / "episodes.sha256").unlink()
    assert list(rb.SweepRun(some.folder, some.definition).charts()) == ["noop"]


def test_an_agent_that_remembers_the_frozen_levels():
    frozen = {each.level for each in load_pack("frozen_lake-4x4-0.8", "test")[:32]}

    def remembers(env, name):
        return env.unwrapped.level in frozen

    agent = Scripted("remembers", remembers)
    run = rb.sweep("freshness", agent, games="FrozenLakeDeterministic", episodes=32, level_seed=1)
    table = run.table()
    points = table[table["axis"] == "levels"].set_index("point")
    assert points.loc["standard", "success"] == points.loc["standard", "optimal_success"] > 0.9
    assert (points.loc[["training", "drawn"], "success"] == 0).all()
    assert (points.loc[["training", "drawn"], "difference_high"] < -0.5).all()
    assert list(points["paired"]) == [True, False, False]
    assert any("drawn: other levels" in note for note in table.notes)
    splits = run.episodes().groupby("game")["split"].first()
    assert splits["FrozenLakeDeterministic.levels.training"] == "train"
    run.verify()
    same = rb.sweep("freshness", agent, games="FrozenLakeDeterministic", episodes=32, level_seed=1)
    assert same.folder == run.folder
    other = rb.sweep("freshness", "oracle", games="FrozenLake", episodes=2, level_seed=2)
    drawn = "FrozenLake.levels.drawn"
    assert other.config.suite.tasks[drawn].settings["levels"][0] not in frozen


def test_a_training_run_stands_for_its_checkpoints(tmp_path):
    for age in ("000002", "000010"):
        folder = tmp_path / "trained/checkpoints" / age
        shutil.copytree(model_source("starter"), folder)
        (folder / "trainer.json").write_text("{}")
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "{name: mine, version: 1, description: One., games: [Bandit], episodes: 2, axes: {form: "
        "{label: thoughts, reference: think, points: {think: {}, terse: {settings: {think: false}}}}}}"
    )
    run = rb.sweep(mine, "trained")
    assert run.agents == ["trained/checkpoints/000002", "trained/checkpoints/000010"]
    assert list(run.table()["point"]) == ["think", "terse"] * 2
    assert not len(run.shares())
    charts = run.charts()
    assert list(charts) == [*run.agents, "trained by age"]
    assert all(chart.startswith("<?xml") for chart in charts.values())


@pytest.mark.parametrize("name", bundled_names("sweeps"))
def test_bundled_sweeps_can_be_played(name):
    assert main(["sweep", name, "--agent", "noop", "--episodes", "1", "--game", "Sokoban"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["algorithm"], "use diversity, freshness, granularity"),
        (["granularity", "--setting", "max_turns=3"], "'max_turns' differs between the points"),
        (["diversity", "--game", "Cube", "--episodes", "1"], "has no setting 'orientation'"),
        (["freshness", "--game", "Cube", "--episodes", "1"], "has no setting 'levels'"),
        (["diversity", "--level-seed", "1"], "level_seed is 1, but the sweep 'diversity' draws no levels"),
    ],
)
def test_what_a_sweep_cannot_play(words, said, capsys):
    assert main(["sweep", *words, "--agent", "random"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["episodes", "attempts"])
def test_nothing_to_sweep_is_refused(option):
    with pytest.raises(RagenError, match=f"^{option} is 0, but must be at least 1$"):
        rb.sweep("granularity", "random", games="Bandit", **{option: 0})


def test_a_sweep_file_is_checked(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "{name: a, version: 1, description: x, games: [Bandit], axes: {b: {label: c, points: {d: {}}}}}"
    )
    with pytest.raises(RagenError, match="axis 'b' has no reference"):
        rb.sweep(mine, "random")


def test_levels_that_are_drawn_today_name_their_seed(caplog):
    with caplog.at_level("INFO"):
        run = rb.sweep("freshness", "random", games="Sokoban", episodes=2)
    (seed,) = re.findall(r"level seed (\d+); pass it", caplog.text)
    again = rb.sweep("freshness", "random", games="Sokoban", episodes=2, level_seed=int(seed), out=run.folder)
    assert again.records == run.records


def test_points_of_some_games_name_them_as_all_options_do(tmp_path):
    mine = tmp_path / "mine.yaml"
    text = (
        "name: mine\nversion: 1\ndescription: Forms.\ngames: [sokoban]\nepisodes: 2\nstandard: {{}}\n"
        "axes:\n  form:\n    label: form\n    points:\n"
        "      both: {{games: {{{}: {{observation: both}}}}}}\n"
    )
    mine.write_text(text.format("sokoban"))
    assert set(rb.sweep(mine, "noop").table()["point"]) == {"standard", "both"}
    mine.write_text(text.format("Sokbn"))
    with pytest.raises(RagenError, match="unknown game 'Sokbn'"):
        rb.sweep(mine, "noop")


def test_every_table_fits_a_narrow_terminal(capsys, monkeypatch):
    words = ["sweep", "diversity", "--agent", "random", "--agent", "oracle", "--game", "FrozenLake"]
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    for command in ([*words, "--episodes", "2", "--out", "runs/wide"], ["show", "runs/wide"]):
        assert main(command) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


SWEEP = "{{name: mine, version: 1, description: One., games: [{games}], episodes: 4, axes: {{{axes}}}}}"


def sweep_of(tmp_path, games, axes, agent, **kwargs):
    (tmp_path / "mine.yaml").write_text(SWEEP.format(games=games, axes=axes))
    return rb.sweep(tmp_path / "mine.yaml", agent, **kwargs)


def test_names_of_points_may_have_a_dot(tmp_path):
    points = '"0.1": {settings: {success_rate: 0.1}}, "1": {settings: {success_rate: 1.0}}'
    axes = f'slip: {{label: s, reference: "0.1", points: {{{points}}}}}'
    run = sweep_of(tmp_path, "FrozenLake", axes, "noop")
    assert set(run.table()["reference"]) == {"0.1"}


def test_games_without_a_success_have_no_share_and_no_difference_of_it(tmp_path):
    points = "a: {}, b: {settings: {think: false}}"
    axes = f"form: {{label: f, twins: true, reference: a, points: {{{points}}}}}"
    run = sweep_of(tmp_path, "Blackjack-v1", axes, "random")
    assert run.table()["difference"].isna().all()
    assert not len(run.shares())


def test_an_axis_of_one_game_takes_no_share_from_the_others(tmp_path):
    turns = "turns: {label: t, twins: true, reference: a, points: {a: {}, b: {settings: {orientation: 1}}}}"
    other = "{games: {Sokoban: {think: false}}}"
    both = f"words: {{label: w, twins: true, reference: a, points: {{a: {{}}, c: {other}}}}}"
    run = sweep_of(tmp_path, "Sokoban, FrozenLake", f"{turns}, {both}", "random", attempts=2)
    shares = run.shares().set_index(["game", "source"])["share"]
    assert set(shares["FrozenLake"].index) == {"level", "turns", "sampling"}
    assert shares["FrozenLake"].notna().all()
    assert "words" in shares["Sokoban"]
