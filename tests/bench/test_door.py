"""``import ragen_bench``: runs from Python are those of the command line."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import gymnasium as gym
import pandas as pd
import pytest
import ragen_bench as rb
from bench_runs import CONTROLS, GAMES, timeless
from endpoint_server import EndpointServer
from ragen_bench.__main__ import main
from ragen_bench.cli.show import print_run
from ragen_bench.console.formats import Format
from ragen_bench.training.run_summary import scoring_command
from scripted_policy import ScriptedPolicy

from ragen_agents import RandomPolicy
from ragen_agents.pictures import decode_png
from ragen_agents.sft import SftConfig
from ragen_envs import register_text
from ragen_envs.errors import RagenError
from ragen_envs.pictures.png import png_of_wrapped, show_envs_in_notebooks


def right(request):
    return "<think>so</think><answer>Right</answer>"


class Counting:
    """An agent that counts its calls."""

    def __init__(self):
        self.calls = 0

    async def reply(self, request):
        self.calls += 1
        await asyncio.sleep(0)
        return right(request)


@pytest.mark.slow
def test_importing_the_packages_loads_no_heavy_library():
    program = (
        "import sys, ragen_bench, ragen_agents; print({'torch', 'pandas', 'typer'} & set(sys.modules)); "
        "import ragen_bench.cli; print({'torch', 'pandas', 'scipy', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["set()", "set()"], done.stderr
    assert all(getattr(rb, name) for name in rb.__all__)


def test_a_run_from_python_is_that_of_the_command_line(finished, tmp_path, capsys):
    run = rb.evaluate(list(CONTROLS), games=list(GAMES), episodes=40, out=tmp_path / "run")
    assert timeless(run.folder) == timeless(finished)
    assert (run.folder / "config.yaml").read_text() == (finished / "config.yaml").read_text()
    capsys.readouterr()
    print_run(run.folder, Format.MARKDOWN)
    shown = capsys.readouterr().out
    assert all(line in shown for line in run.table().to_text().splitlines()[2:])
    pd.testing.assert_frame_equal(run.table(), rb.load(run.folder).table())
    assert run.verify().episodes == len(run.episodes()) == 240
    assert set(run.explain()["agent"]) == set(CONTROLS)


def test_episodes_and_turns_are_flat_and_agree_with_the_records(finished):
    run, records = rb.load(finished), timeless(finished)
    episodes, turns = run.episodes(), run.turns()
    assert len(turns) == sum(len(each["turns"]) for each in records)
    assert episodes["success"].tolist() == [each["success"] for each in records]
    assert episodes["turns"].tolist() == [len(each["turns"]) for each in records]
    assert turns["reply"].tolist() == [t["reply"] for each in records for t in each["turns"]]
    sums = turns.groupby(["agent", "game", "level"])["reward"].sum()
    own = episodes.set_index(["agent", "game", "level"])["episode_return"]
    pd.testing.assert_series_equal(sums.sort_index(), own.sort_index(), check_names=False)
    assert json.loads(episodes["settings"].iloc[0]) == records[0]["env_kwargs"]


@pytest.mark.parametrize("kind", ["function", "async", "object", "class", "policy", "mapping"])
def test_objects_of_every_kind_are_agents(kind, tmp_path):
    async def later(request):
        return right(request)

    agent = {
        "function": right,
        "async": later,
        "object": Counting(),
        "class": Counting,
        "policy": ScriptedPolicy("right", lambda chat: "<think>so</think><answer>Right</answer>"),
        "mapping": {"right": lambda request: right(request)},
    }[kind]
    run = rb.evaluate(agent, games="FrozenLake", episodes=2, out=tmp_path / "run")
    assert run.turns()["executed"].tolist() == [["Right"]] * len(run.turns())
    assert run.verify().missing == 0


def test_a_control_given_as_an_object_is_the_control(tmp_path):
    run = rb.evaluate(RandomPolicy(), games="Bandit", episodes=2, out=tmp_path / "run")
    assert run.config == rb.evaluate("random", games="Bandit", episodes=2, out=run.folder).config


def test_a_run_of_an_object_is_resumed_unless_its_source_changed(tmp_path):
    agent = Counting()
    options = {"games": "Bandit", "out": tmp_path / "run"}
    run = rb.evaluate({"mine": agent}, episodes=3, token_limit=None, **options)
    calls = agent.calls
    assert rb.evaluate({"mine": agent}, episodes=3, **options).agents == run.agents == ["mine"]
    assert agent.calls == calls == 3
    with pytest.raises(RagenError, match="the sources of mine have changed"):
        rb.evaluate({"mine": right}, episodes=3, **options)


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (lambda request: "", "has no name; pass {NAME: agent}"),
        ({"random": right}, "'random' is the name of another agent"),
        ({"mine": "random"}, "agent 'random' cannot be called 'mine'"),
        ({"mine": 3}, "agent 'mine' must be a class with the method reply"),
        ({"mine": lambda a, b: ""}, "agent 'mine' is called with one argument"),
        ([right, right], "is named twice"),
    ],
)
def test_what_is_no_agent_is_refused(agents, said, tmp_path):
    with pytest.raises(RagenError, match=said):
        rb.evaluate(agents, games="Bandit", episodes=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attempts": 0}, "attempts is 0, but must be at least 1"),
        ({"episodes": 0}, "episodes is 0, but must be at least 1"),
        ({"episodes": 0, "games": "Sokoban", "levels": "corridors"}, "episodes is 0, but must be at least 1"),
    ],
)
def test_nothing_to_play_is_refused(options, said, tmp_path):
    with pytest.raises(RagenError, match=f"^{said}$"):
        rb.evaluate("random", out=tmp_path / "run", **options)


def test_an_endpoint_has_budgets_and_a_running_loop_changes_nothing(tmp_path):
    with EndpointServer() as server:
        options = {"base_url": server.url, "games": ["Bandit", "Sokoban"], "episodes": 4}

        async def cell():
            limited = rb.evaluate("openai:m", token_limit=700, out=tmp_path / "run", **options)
            assert limited.stopped
            assert limited.records.missing
            return await asyncio.to_thread(rb.evaluate, "openai:m", out=tmp_path / "run", **options)

        run = asyncio.run(cell())
    assert run.stopped is None
    assert not run.records.missing
    assert run.episodes()["reply_tokens"].sum() > 0


def test_a_limit_of_tokens_that_nothing_counts_is_refused(tmp_path):
    agent = ScriptedPolicy("right", lambda chat: "Right")
    with pytest.raises(RagenError, match="--token-limit is for agents openai:MODEL"):
        rb.evaluate(agent, games="Bandit", episodes=1, token_limit=9, out=tmp_path / "run")


def test_pictures_that_a_batch_policy_was_shown_are_kept(tmp_path):
    agent = ScriptedPolicy("right", lambda chat: "<answer>Right</answer>")
    settings = {"observation": "image", "think": False}
    run = rb.evaluate(agent, games="FrozenLake", episodes=2, settings=settings, out=tmp_path / "run")
    assert run.verify().missing == 0
    assert list((run.folder / "pictures").iterdir())


@pytest.mark.parametrize("agent", ["./starter", "starter/", Path("starter")])
def test_a_folder_with_the_name_of_another_agent_is_that_folder(agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "starter").mkdir()
    with pytest.raises(RagenError, match="model folder 'starter' holds no weights"):
        rb.evaluate(agent, games="Bandit", episodes=1, out=tmp_path / "run")
    assert next(scoring_command("starter", SftConfig(game="ragen/BanditText-v0"))).endswith(
        "--agent ./starter --game Bandit"
    )


def test_a_wrong_url_in_the_environment_is_read_by_endpoints_only(tmp_path):
    options = {"games": "Bandit", "episodes": 1, "base_url": "localhost:8000", "out": tmp_path / "run"}
    assert rb.evaluate("random", **options).verify().missing == 0
    with pytest.raises(RagenError, match="base URL"):
        rb.evaluate("openai:m", **options)


def test_a_port_that_does_not_exist_is_refused(tmp_path):
    run = rb.evaluate("random", games="Bandit", episodes=1, out=tmp_path / "run")
    with pytest.raises(RagenError, match="port is 70000, but it cannot be used"):
        run.view(out=tmp_path / "site", port=70_000)


def test_attempts_without_a_success_have_no_pass_rates(tmp_path):
    run = rb.evaluate("random", games="CliffWalking-v1", episodes=1, attempts=2, out=tmp_path / "run")
    assert run.table()[["success", "pass_at_k", "pass_hat_k"]].isna().all(axis=None)


def test_pages_show_no_success_where_there_is_none(tmp_path):
    agents = ["random", ScriptedPolicy("first", lambda chat: "<answer>up</answer>")]
    run = rb.evaluate(agents, games="CliffWalking-v1", episodes=1, out=tmp_path / "run")
    with run.view(out=tmp_path / "site"):
        page = next((tmp_path / "site" / "beside").glob("*.html")).read_text("utf-8")
    assert page.count('"solved": {"0": null}') + page.count('"solved":{"0":null}') == 2


def test_compare_takes_runs_names_and_plays_controls_that_are_missing(tmp_path, capsys):
    run = rb.evaluate({"right": right}, games="FrozenLake", episodes=8, out=tmp_path / "a" / "run")
    table = rb.compare(run, "oracle")
    assert (table["a"] <= table["b"]).all()
    assert len(list((tmp_path / "a").iterdir())) == 2
    other = rb.evaluate("noop", games="FrozenLake", episodes=8, out=tmp_path / "other")
    words = ["compare", str(run.folder), str(other.folder), "--format", "json"]
    capsys.readouterr()
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["p"] for row in rows] == rb.compare(run, other)["p"].tolist()
    assert "A / B" in table._repr_html_()


def test_a_notebook_shows_boards_as_pictures(finished):
    run = rb.load(finished)
    view = run.episode("oracle", "FrozenLakeDeterministic", 3)
    shown = view._repr_html_()
    assert shown.count('<img src="data:image/png;base64,') == len(view.record.turns) + 1
    assert "oracle: solved" in shown
    assert "optimum (exact)" in run._repr_html_()
    told = str(view)
    assert all(turn.user in told and turn.reply in told for turn in view.record.turns)
    assert repr(view) == f"<EpisodeView {told.splitlines()[0]}>"
    with pytest.raises(RagenError, match="has no episode of oracle on level 99"):
        run.episode("oracle", "Bandit", 99)


def test_texts_of_agents_are_escaped(tmp_path):
    agent = {"<b>x": lambda request: "<script>alert(1)</script>"}
    run = rb.evaluate(agent, games="FrozenLake", episodes=1, out=tmp_path / "run")
    shown = run._repr_html_() + run.episode("<b>x", "FrozenLake", 0)._repr_html_()
    assert "<script>" not in shown
    assert "<b>x" not in shown


def test_pages_are_served_until_they_are_closed(run):
    with rb.load(run).view() as pages:
        assert b"FrozenLake" in urllib.request.urlopen(pages.url, timeout=60).read()
        assert pages.url in pages._repr_html_()
    with pytest.raises(OSError):  # noqa: PT011
        urllib.request.urlopen(pages.url, timeout=60)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "hf"])
def test_export_writes_the_tables(kind, run, capsys):
    pytest.importorskip("pyarrow")
    assert main(["export", str(run), "--format", kind]) == 0
    paths = capsys.readouterr().out.split()
    assert {path.partition(f"{run}/{kind}/")[2].partition(".")[0] for path in paths} >= {
        "episodes", "turns",
    }  # fmt: skip
    loaded = rb.load(run)
    for path, data in zip(paths, (loaded.episodes(), loaded.turns()), strict=False):
        back = (
            pd.read_json(path, lines=True, precise_float=True) if kind == "jsonl" else pd.read_parquet(path)
        )
        assert list(back.columns) == list(data.columns)
        assert len(back) == len(data)
        assert (back["seconds"] == data["seconds"]).all()
    (run / kind / "mine.txt").write_text("keep")
    assert main(["export", str(run), "--format", kind]) == 2
    assert (run / kind / "mine.txt").exists()


def test_exports_have_the_same_types_whether_or_not_a_column_has_a_value(tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    told = []
    for name in ("oracle", "noop"):
        run = rb.evaluate(name, games="Bandit", episodes=2, out=tmp_path / name)
        paths = run.export("parquet", tmp_path / f"{name}-tables")
        told.append([pyarrow.read_schema(path).remove_metadata() for path in paths])
    assert told[0] == told[1]


def test_the_card_of_an_export_names_own_levels(tmp_path):
    pytest.importorskip("pyarrow")
    level = ["######", "#P_XO#", "######"]
    run = rb.evaluate("oracle", games="Sokoban", settings={"level": level}, episodes=1, out=tmp_path / "run")
    *_, card = run.export("hf", tmp_path / "hf")
    assert "core 2, own levels." in card.read_text()


def test_datasets_loads_the_exported_folder(run, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    rb.load(run).export("hf", tmp_path / "hf")
    options = {"cache_dir": str(tmp_path / "cache"), "split": "train"}
    turns = datasets.load_dataset(str(tmp_path / "hf"), "turns", **options)
    assert turns.num_rows == len(rb.load(run).turns())
    assert datasets.load_dataset(str(tmp_path / "hf"), **options).num_rows == 240


def test_envs_are_pictures_in_a_notebook(monkeypatch):
    env = gym.make("ragen/Sokoban-v0")
    assert env.unwrapped._repr_png_() is None
    env.reset(options={"split": "test", "index": 0})
    assert (decode_png(png_of_wrapped(env)) == env.unwrapped.picture()).all()
    formatters = pytest.importorskip("IPython.core.formatters")

    class Shell:
        display_formatter = formatters.DisplayFormatter()

    monkeypatch.setattr("IPython.get_ipython", Shell)
    show_envs_in_notebooks()
    formats, _ = Shell.display_formatter.format(env)
    assert formats["image/png"]
    unstarted = Shell.display_formatter.format(gym.make("ragen/Sokoban-v0"))[0]
    assert "image/png" not in unstarted


class Tiny(gym.Env):
    """Wait."""

    metadata = {"render_modes": ["rgb_array"]}
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(13)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, float(action), False, False, {}


def test_an_env_without_success_or_pictures_is_shown_too(tmp_path):
    gym.register("door/Tiny-v0", entry_point=Tiny)
    register_text("door/TinyText-v0", "door/Tiny-v0", max_turns=2)
    try:
        run = rb.evaluate("random", games="door/TinyText-v0", episodes=2, out=tmp_path / "run")
        assert run.episodes()["success"].isna().all()
        shown = run.episode("random", "door.Tiny", 0)._repr_html_()
        assert "random: played" in shown
        assert "<img" not in shown
        assert list(rb.compare(run, "noop")["measure"]) == ["return"]
    finally:
        del gym.registry["door/TinyText-v0"], gym.registry["door/Tiny-v0"]


def test_bench_names_the_next_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["bench", "--agent", "random", "--agent", "noop", "--game", "Bandit", "--episodes", "2"]
    assert main([*words, "--out", "my run"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-4:] == [
        "explain: ragen explain 'my run'",
        "view: ragen view 'my run'",
        "compare: ragen compare 'my run':noop :random",
        "verify: ragen verify 'my run'",
    ]
