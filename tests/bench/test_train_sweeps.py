"""Sweeps: what they consist of, and that their tasks survive whatever happens to their processes."""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from forked import start  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.evaluation import ray_cluster  # noqa: E402
from ragen_bench.training_sweeps import jobs, sweep_run  # noqa: E402
from ragen_bench.training_sweeps.results import borrowed, matching, parse_result, write_result  # noqa: E402
from ragen_bench.training_sweeps.state import Cost, read_states  # noqa: E402
from ragen_bench.training_sweeps.sweep_config import bundled_sweeps, load_sweep  # noqa: E402
from ragen_bench.training_sweeps.tasks import Choice, plan  # noqa: E402
from results import DOWN, UP, make_result  # noqa: E402
from small_sweeps import SMALL_TRAIN, command, processes_of, small_sweep, wait_for  # noqa: E402

from ragen_agents.starpo.run.run_directory import config_digest  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

PAPER = Choice(scale="paper", seeds=1)


class ForkedTask:
    """The process of a task as `LocalProcess`, without the seconds of its imports."""

    why = ""

    def __init__(self, folder, environment):
        self._scratch = tempfile.TemporaryDirectory()
        stdin = Path(self._scratch.name, "stdin")
        os.mkfifo(stdin)
        self._stdin = os.open(stdin, os.O_RDWR)
        self._process = start(
            ["-m", "ragen_bench.training_sweeps.work", folder.resolve()],
            stdout=folder.resolve() / jobs.LOG, stdin=stdin, cwd=Path.cwd(),
            environment={**os.environ, **environment},
        )  # fmt: skip

    def poll(self):
        return self._process.exitcode

    def cancel(self):
        os.close(self._stdin)

    def wait(self):
        self._process.join()


@pytest.fixture(autouse=True)
def _forked_tasks(monkeypatch):
    monkeypatch.setattr(sweep_run, "LocalProcess", ForkedTask)


def test_a_sweep_trains_with_an_imported_estimator(tiny, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_zero.py").write_text(
        "import torch\n"
        "from ragen_agents.starpo import AdvantageEstimate, Estimator, register_estimator\n"
        "register_estimator(Estimator('my-zero', lambda batch: AdvantageEstimate("
        "torch.zeros(batch.mask.shape)), 'nothing'))\n"
    )
    monkeypatch.chdir(tmp_path)
    cells = {"a": {}, "zero": {"train": {"advantage": {"estimator": "my-zero"}}}}
    sweep = small_sweep(tmp_path, 1, cells=cells)
    done = main(["--import", "my_zero.py", *command(sweep, tiny, tmp_path / "out", "--format", "json")])
    assert done == 0
    assert "zero" in capsys.readouterr().out


def test_vllm_that_scores_is_started_after_the_one_that_trained_has_ended(tiny, tmp_path):
    """A device holds one at a time, with the trainer's models only beside the one that trains."""
    sweep = load_sweep(small_sweep(tmp_path, 1, train={**SMALL_TRAIN, "engine": "vllm"}))
    task = next(t for t in plan(sweep, Choice(quick=True, model=str(tiny))) if t.seed == 0)
    task = task.model_copy(update={"suite": task.suite.model_copy(update={"episodes": 4})})
    support = Path(__file__).parents[1] / "support"
    work = tmp_path / "task"
    work.mkdir()
    (work / "task.json").write_text(task.model_dump_json())
    running = ForkedTask(work, {"RAGEN_IMPORT": str(support / "fake_vllm_extension.py")})
    running.wait()
    assert running.poll() == 0, (work / jobs.LOG).read_text()
    result = parse_result((work / "result.json").read_text(), "result")
    assert result.iterations == [0, 1]
    trained, scored = (work / "processes").read_text().split()
    assert trained != scored


@pytest.mark.parametrize(("scale", "quick"), [("laptop", ["--quick"]), ("paper", [])])
@pytest.mark.parametrize("name", bundled_sweeps())
def test_a_dry_run_shows_every_cell_and_makes_nothing(name, quick, scale, tmp_path, capsys):
    out = tmp_path / "out"
    model = ["--model", "starter"] if name == "pretrained" and scale == "laptop" else []  # no download
    assert main(["train-sweep", name, "--scale", scale, *quick, *model, "--dry-run", "--out", str(out),
                 "--format", "json"]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    sweep = load_sweep(name)
    cells = sweep.scales[scale].cells or list(sweep.cells)
    assert {row["cell"] for row in found["rows"]} == {*cells, "controls"}
    if scale == "paper":
        assert all(row["seconds_run"] > 0 for row in found["rows"])
        assert "an estimate" in found["notes"][0]
    trained = sum(row["tasks"] for row in found["rows"] if row["cell"] != "controls")
    games = {row["game"] for row in found["rows"]}
    assert trained >= len(games) * len(cells) * (1 if quick else 3)
    assert all(row["done"] == 0 for row in found["rows"])
    assert not out.exists()


def test_a_sweep_shows_how_validation_went_in_each_run(tmp_path, capsys):
    for task in plan(load_sweep("regime"), Choice(seeds=1, games=("Sokoban",))):
        result = make_result(task, curves=DOWN if task.cell == "ppo-rate3" else UP)
        (tmp_path / task.path).mkdir(parents=True)
        write_result(tmp_path / task.path, result)
    shown = ["train-sweep", "regime", "--game", "sokoban", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*shown, "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "| Sokoban | ppo-rate3 | 0 | 20.0 | 50.0 at 1 | 0.0 at 39 | collapsed |" in text
    assert "| Sokoban | ppo-rate1 | 0 | 20.0 | 50.0 at 1 | 50.0 at 39 | gained |" in text
    assert "laptop, validation\n\n| " in text
    assert "|\n\nregime 1, laptop\n\n| " in text
    assert main([*shown, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["validation"]
    assert [row["row"] for row in rows if row["collapsed"]] == ["ppo-rate3"]


@pytest.mark.parametrize("name", bundled_sweeps())
def test_the_papers_scale_has_the_papers_settings(name):
    """Appendix B.2: P = 8, N = 16, 200 iterations, batch 32, Adam at 1e-6 and 1e-5, 256 prompts at 0.5."""
    sweep = load_sweep(name)
    reference = [t for t in plan(sweep, PAPER) if t.cell == sweep.reference and t.seed == 0]
    for task in reference:
        config = task.train
        assert config.model == "hf:Qwen/Qwen2.5-0.5B-Instruct"
        assert config.engine == "vllm"
        assert config.iterations == 200
        assert (config.rollout.prompts_per_iteration, config.rollout.group_size) == (8, 16)
        assert config.rollout.temperature == 1
        update = config.update
        assert (update.mini_batch_size, update.epochs, update.betas) == (32, 1, (0.9, 0.999))
        assert update.learning_rate == pytest.approx(1e-6)
        assert update.critic_learning_rate == pytest.approx(1e-5)
        assert (config.advantage.gamma, config.advantage.lam) == (1, 1)
        assert config.loss.entropy_coef == sweep.train.get("loss", {}).get("entropy_coef", 0.001)
        assert (task.suite.episodes, task.suite.split) == (256, "test")
        assert task.suite.sampling.temperature == 0.5


@pytest.mark.parametrize("name", bundled_sweeps())
def test_seeds_of_a_cell_differ_in_nothing_else(name):
    model = "starter" if name == "pretrained" else None  # its own must be downloaded first
    tasks = [t for t in plan(load_sweep(name), Choice(seeds=4, model=model)) if t.seed is not None]
    for task in tasks:
        (first,) = (t for t in tasks if (t.game, t.cell, t.seed) == (task.game, task.cell, 0))
        settings = task.model_dump()
        parts = [settings, settings["train"], settings["suite"], settings["supervised"] or {}]
        assert {part["seed"] for part in parts if part} == {task.seed}
        for part in parts:
            part["seed"] = 0
        assert settings == first.model_dump()


def train_of(name, cell, scale="laptop"):
    tasks = plan(load_sweep(name), Choice(scale=scale, seeds=1))
    return next(task.train for task in tasks if task.cell == cell and task.seed == 0)


def test_every_cell_of_diversity_has_as_many_trajectories():
    for scale in ("laptop", "paper"):
        tasks = plan(load_sweep("diversity"), Choice(scale=scale))
        assert {task.train.episodes for task in tasks} == {128}
        assert {task.train.rollout.group_size for task in tasks} == {32, 16, 8, 4, 2, 1}


def test_the_controlled_granularity_differs_in_nothing_but_the_actions_a_turn():
    kwargs = [train_of("granularity", f"fixed-{k}", "paper").env_kwargs for k in (1, 3, 5, 7)]
    rest = [{n: v for n, v in each.items() if n != "actions_per_turn"} for each in kwargs]
    assert rest == [rest[0]] * 4
    assert [each["actions_per_turn"] for each in kwargs] == [1, 3, 5, 7]
    published = train_of("granularity", "6", "paper").env_kwargs
    assert published == {"max_turns": 5, "actions_per_turn": 6, "max_actions": 30}


def test_conversation_settings_hold_in_the_tests_too():
    tasks = plan(load_sweep("granularity"), Choice())
    for task in tasks:
        assert all(test.settings == task.train.env_kwargs for test in task.suite.tasks.values())


def test_a_scale_has_models_settings_and_training_fields_of_its_own():
    small = train_of("granularity", "1")
    assert (small.model, small.rollout.max_tokens) == ("small-sokoban", 48)
    assert small.env_kwargs == {"think": False, "max_turns": 5, "actions_per_turn": 1, "max_actions": 5}
    lake = next(t for t in plan(load_sweep("regime"), Choice()) if t.cell == "grpo-rate3")
    assert lake.train.model == "small-lake"
    assert lake.train.update.learning_rate == pytest.approx(9e-4)
    other = plan(load_sweep("regime"), Choice(model="starter"))
    assert {task.train.model for task in other} == {"starter"}


def test_online_k_has_equal_updates_as_published_and_equal_rollouts_controlled():
    once = train_of("freshness", "1")
    for k in (2, 5, 10):
        config = train_of("freshness", str(k))
        assert config.iterations * config.update.epochs == once.iterations
    for k in (2, 5):
        config = train_of("freshness", f"rollouts-{k}", "paper")
        assert (config.iterations, config.update.epochs) == (200, k)


def test_adapters_have_tenfold_learning_rates_at_every_scale():
    for scale in ("laptop", "paper"):
        full, lora = (train_of("lora", cell, scale).update for cell in ("full", "lora"))
        assert lora.learning_rate == pytest.approx(10 * full.learning_rate)
        assert lora.critic_learning_rate == pytest.approx(10 * full.critic_learning_rate)


def test_seeds_differ_in_nothing_else_and_have_folders_of_their_own():
    tasks = plan(load_sweep("reasoning"), Choice(seeds=4))
    assert len({task.path for task in tasks}) == len(tasks)
    cell = [t for t in tasks if (t.game, t.cell) == ("Bandit", "think") and t.seed is not None]
    assert [task.train.seed for task in cell] == [0, 1, 2, 3]
    assert len({task.train.model_copy(update={"seed": 0}).model_dump_json() for task in cell}) == 1


def test_another_game_is_trained_on_and_tested_on_itself():
    tasks = plan(load_sweep("diversity"), Choice(games=("frozenlakedeterministic",)))
    assert {task.game for task in tasks} == {"FrozenLakeDeterministic"}
    assert {name for task in tasks for name in task.suite.tasks} == {"FrozenLakeDeterministic"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"games": {"Chess": ["Bandit"]}}, "unknown game 'Chess'"),
        (
            {"scales": {"laptop": {"iterations": 1, "quick": 1, "games": ["Go"]}}},
            "unknown game 'Go'",
        ),
        (
            {"games": {"Sokoban": ["Bandit"]}, "cells": {"a": {"settings": {"size": [7, 7]}}}},
            "cell 'a': ",
        ),
        ({"reference": "b"}, "unknown cell 'b'"),
        ({"preset": "ppo"}, "unknown preset 'ppo'"),
        (
            {"cells": {"a": {"train": {"rollouts": 1}}}},
            "cell 'a': config: unknown option 'rollouts'",
        ),
        ({"cells": {"a": {"iterations_divisor": 0}}}, "cells.a.iterations_divisor"),
        (
            {"train": {}, "cells": {"a": {"group_size": 7}}},
            "cell 'a': group_size is 7, but must divide the 128 traj",
        ),
        (
            {"cells": {"a": {"settings": {"split": "test"}}}},
            "cell 'a': config: env_kwargs.split is 'test'",
        ),
        (
            {"cells": {"a": {"train": {"iterations": 5}}}},
            "cell 'a': train.iterations is 5, but the",
        ),
        ({"cells": {"a": {"train": {"model": "smollm2"}}}}, "the sweep sets it; use --model"),
        ({"train": {"seed": 5}}, "train.seed is 5, but the sweep sets it; use --seeds"),
        (
            {"scales": {"laptop": {"iterations": 1, "quick": 1, "train": {"seed": 5}}}},
            "scale 'laptop': train.seed",
        ),
        ({"train": {"env_kwargs": {"size": 6}}}, "use settings of the cell"),
        ({"cells": {"a": {"supervised": {"seed": 5}}}}, "cell 'a': supervised.seed is 5"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(change, said, tmp_path, capsys):
    path = small_sweep(tmp_path, **change)
    assert main(["train-sweep", str(path), "--dry-run", "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err


def test_a_sweep_takes_no_less_time_than_its_longest_task(tmp_path, capsys):
    def notes(workers):
        arguments = ["granularity", "--workers", str(workers), "--out", str(tmp_path)]
        assert main(["train-sweep", *arguments, "--dry-run", "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)["notes"][0].split(" with ")[0]

    assert notes(64) == notes(1000) != notes(8)


def test_help_lists_every_sweep(capsys):
    assert main(["train-sweep", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"{', '.join(bundled_sweeps())}, or the path of a YAML file" in shown


def test_what_does_not_exist_is_named(capsys):
    assert main(["train-sweep", "nothing", "--dry-run"]) == 2
    assert "granularity" in capsys.readouterr().err
    assert main(["train-sweep", "risk", "--game", "chess", "--dry-run"]) == 2
    assert "unknown game 'chess'" in capsys.readouterr().err
    assert main(["train-sweep", "risk", "--scale", "moon", "--dry-run"]) == 2
    assert "unknown scale 'moon'" in capsys.readouterr().err


def test_what_no_task_could_begin_with_is_refused_before_any_work(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["train-sweep", "filter", "--model", "/nowhere", "--dry-run", "--out", str(out)]) == 2
    assert "model is '/nowhere'" in capsys.readouterr().err
    path = small_sweep(tmp_path, cells={"a": {"settings": {"max_turn": 2}}})
    assert main(["train-sweep", str(path), "--dry-run", "--out", str(out)]) == 2
    assert "cell 'a'" in (said := capsys.readouterr().err)
    assert "max_turns" in said
    assert not out.exists()


def test_tasks_of_the_papers_scale_do_not_share_a_gpu_unless_asked_to(tmp_path, capsys):
    scale = {"iterations": 2, "quick": 2, "seconds": {"Bandit": 1}}
    path = small_sweep(tmp_path, scales={"paper": scale})
    for more, count in (([], 1), (["--workers", "3"], 3)):
        arguments = ["train-sweep", str(path), "--scale", "paper", "--dry-run", *more]
        assert main([*arguments, "--out", str(tmp_path / "out"), "--format", "json"]) == 0
        assert f"with {count} tasks at a time" in json.loads(capsys.readouterr().out)["notes"][0]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_a_killed_sweep_leaves_no_process_and_goes_on(tiny, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = command(small_sweep(tmp_path, iterations=4), tiny, out, "--workers", "2")
    killed = start(["-m", "ragen_bench", *arguments], stdout=tmp_path / "log")
    metrics = out / "small/laptop-quick/Bandit/a/seed0/train/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2)
    killed.kill()
    wait_for(lambda: not processes_of(out))

    assert main(arguments) == 0
    found = parse_result((metrics.parents[1] / "result.json").read_text(), "result")
    assert found.iterations == [0, 1, 2, 3, 4]
    assert len(found.outcomes["policy"]["Bandit"].success) == 64
    assert found.weights != found.task.train.weights
    assert (metrics.parents[1] / "model" / "model.safetensors").exists()
    assert not (metrics.parent / "checkpoints").exists()
    controls = parse_result((metrics.parents[2] / "controls/result.json").read_text(), "controls")
    assert set(controls.outcomes) == {"random", "oracle", "initial"}

    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*arguments, "--format", "json"]) == 0  # nothing is left to do, and nothing is touched
    rows = {row["row"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(rows) == {
        "a", "random", "oracle", "initial", "random (exact)", "optimum (exact)",
    }  # fmt: skip
    successes = found.outcomes["policy"]["Bandit"].success
    assert rows["a"]["success"] == successes.count("1") / 64
    assert main([*arguments, "--format", "json", "--dry-run"]) == 0
    assert [row["done"] for row in json.loads(capsys.readouterr().out)["rows"]] == [1, 1]
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == stamps

    other = command(small_sweep(tmp_path, iterations=4, preset="starpo-s-grpo"), tiny, out)
    assert main(other) == 2
    assert "holds another task: train.filter.kind is 'none' there" in capsys.readouterr().err
    (folder,) = out.glob("*/*/*/a/seed0")
    (folder / "task.json").write_text('{"format": 1}')
    (folder / "result.json").unlink()
    small_sweep(tmp_path, iterations=4)
    assert main(arguments) == 2
    assert "task.json: " in (said := capsys.readouterr().err)
    assert "choose another --out" in said


def test_a_broken_task_is_told_of_and_done_by_the_same_command(tiny, tmp_path, capsys):
    out = tmp_path / "out"
    sweep = small_sweep(tmp_path, iterations=1)
    arguments = command(sweep, tiny, out, "--workers", "1")
    controls = out / "small/laptop-quick/Bandit/a/controls"
    controls.mkdir(parents=True)
    (controls / "test").write_text("in the way")
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert "it will be retried at the end" in said
    assert "not done: 1 of the tasks" in said
    assert str(controls / "log.txt") in said
    assert (controls.parent / "seed0/result.json").exists()  # one broken task stops no other
    (controls / "test").unlink()
    assert main(arguments) == 0
    assert (controls / "result.json").exists()


def test_the_threads_of_tasks_are_capped(monkeypatch):
    from ragen_bench.config.extensions import task_environment

    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    environment = task_environment(threads=3)
    assert environment["OMP_NUM_THREADS"] == environment["NUMBA_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "64"


def test_imitation_plays_the_conversations_of_the_training_it_is_compared_with():
    imitated = [task for task in plan(load_sweep("sft"), Choice(seeds=1)) if task.supervised]
    assert [task.game for task in imitated] == ["Sokoban", "FrozenLake"]
    for task in imitated:
        assert task.supervised.env_kwargs == task.train.env_kwargs == {"think": False}
        assert task.supervised.lora_rank == 0


def test_what_another_sweep_has_done_is_not_done_again():
    """The same method, begun from the same weights, is one run wherever it is compared."""
    algorithm, shares = load_sweep("algorithm"), load_sweep("filter")
    sokoban = Choice(games=("Sokoban",))
    done = [make_result(task) for task in plan(algorithm, sokoban)]
    tasks = plan(shares, sokoban)
    found = borrowed(done, tasks)
    cells = {(r.result.task.cell, r.result.task.seed) for r in found.values()}
    expected = {(cell, seed) for cell in ("grpo-all", "all") for seed in range(6)}
    assert cells == {("all", None), *expected}
    assert all(path == result.task.path for path, (result, _) in found.items())
    assert {source.sweep for _, source in found.values()} == {"algorithm"}
    assert not any("seconds/total" in result.curves for result, _ in found.values())
    assert not matching(done, tasks)
    assert not borrowed(done, plan(shares, replace(sokoban, quick=True)))
    assert not borrowed([make_result(task) for task in tasks], tasks)  # those are its own
    other = [r.model_copy(update={"task": r.task.model_copy(update={"suite_version": 0})}) for r in done]
    assert not borrowed(other, tasks)


@pytest.mark.parametrize(("setting", "counts"), [({"max_model_len": 128}, True), ({"cache_gib": 1.0}, False)])
def test_a_length_that_is_given_is_part_of_the_experiment(setting, counts):
    """It may end conversations; the default and the memory of vLLM do not."""
    task = plan(load_sweep("clip-kl"), Choice(seeds=1))[-1]
    vllm = task.train.vllm.model_copy(update=setting)
    other = task.model_copy(update={"train": task.train.model_copy(update={"vllm": vllm})})
    assert (other.settings != task.settings) == counts
    assert (config_digest(other.train) != config_digest(task.train)) == counts
    twin = other.model_copy(update={"sweep": "algorithm"})
    assert bool(borrowed([make_result(twin)], [task])) != counts


def small_tasks(tmp_path, seeds=3):
    return plan(load_sweep(small_sweep(tmp_path, 20)), Choice(quick=True, model="starter", seeds=seeds))


def test_a_task_that_a_signal_ended_says_so(tmp_path, capsys):
    """Its last line of progress is no reason."""
    task = small_tasks(tmp_path)[-1]

    def start(folder):
        (folder / jobs.LOG).write_text("iteration 12: success 31.2, return 1.20\n")
        return SimpleNamespace(why="", poll=lambda: -9, cancel=lambda: None, wait=lambda: None)

    with jobs.SweepView(tmp_path, read_states([task], tmp_path, {}, {})) as view:
        assert jobs.Pool(tmp_path, 1, start, view).run([task]) == [task]
    assert f"{task.path}: ended by signal 9" in capsys.readouterr().err


def test_a_begun_task_of_other_settings_is_refused_before_any_starts(tmp_path):
    tasks = small_tasks(tmp_path)
    train = tasks[-1].train.model_copy(update={"iterations": 7})
    (tmp_path / tasks[-1].path).mkdir(parents=True)
    other = tasks[-1].model_copy(update={"train": train})
    (tmp_path / tasks[-1].path / "task.json").write_text(other.model_dump_json())
    with pytest.raises(RagenError, match=r"holds another task: train\.iterations is 7 there"):
        read_states(tasks, tmp_path, {}, {})


def test_runs_that_ended_early_count_by_their_iterations_in_estimates(tmp_path):
    tasks = [task for task in small_tasks(tmp_path) if task.seed is not None]
    result = make_result(tasks[0]).model_copy(
        update={"ended": "the loss is not finite", "iterations": [1, 2], "seconds": {"train": 20, "test": 3}}
    )
    states = read_states(tasks, tmp_path, {tasks[0].path: result}, {})
    cost = Cost(load_sweep(small_sweep(tmp_path, 20)), "laptop", states)
    assert cost.measured(tasks[1]) == pytest.approx(10)


def test_a_sweeps_own_runs_go_before_those_of_others(tmp_path):
    tasks = plan(load_sweep("clip-kl"), Choice(seeds=1))
    task = next(t for t in tasks if (t.cell, t.seed) == ("base", 0))
    update = task.train.update.model_copy(update={"gradient_checkpointing": True})
    train = task.train.model_copy(update={"update": update})  # another memory, the same method
    twin = task.model_copy(update={"sweep": "algorithm", "cell": "starpo-ppo", "train": train})
    others = borrowed([make_result(twin)], [task])
    (state,) = read_states([task], tmp_path, {}, others)
    assert state.status == "done"
    assert state.source == twin
    (tmp_path / task.path).mkdir(parents=True)
    write_result(tmp_path / task.path, make_result(task))
    (state,) = read_states([task], tmp_path, {}, others)
    assert state.source is None


def test_a_result_serves_a_task_with_fewer_tests_and_no_other():
    sweep = load_sweep("granularity")
    task = next(t for t in plan(sweep, Choice()) if t.seed == 0)
    suite = task.suite
    fewer = {name: suite.tasks[name] for name in list(suite.tasks)[:2]}
    narrow = task.model_copy(update={"sweep": "mine", "suite": suite.model_copy(update={"tasks": fewer})})
    (found,) = borrowed([make_result(task)], [narrow]).values()
    assert found.result.task == narrow
    assert {tuple(tests) for tests in found.result.outcomes.values()} == {tuple(fewer)}
    assert not borrowed([make_result(narrow)], [task])


# --- on Ray --------------------------------------------------------------------------------------


def test_an_address_without_a_cluster_is_named(tiny, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "headnode")
    arguments = command(small_sweep(tmp_path), tiny, tmp_path / "out", "--backend", "ray")
    assert main(arguments) == 2
    assert "RAY_ADDRESS is 'headnode'" in capsys.readouterr().err


def test_what_no_machine_of_the_cluster_has_is_said_before_anything_runs(tiny, tmp_path, monkeypatch, capsys):
    machine = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}}
    monkeypatch.setattr(ray_cluster, "_connected", lambda: SimpleNamespace(nodes=lambda: [machine]))
    out = tmp_path / "out"
    more = ("--backend", "ray", "--gpus", "2")
    assert main(command(small_sweep(tmp_path), tiny, out, *more)) == 2
    assert "2 GPUs of one machine" in (said := capsys.readouterr().err)
    assert "--gpus" in said
    assert not out.exists()


def test_where_tasks_are_done_is_checked(tmp_path, capsys):
    sweep = str(small_sweep(tmp_path))
    assert main(["train-sweep", sweep, "--backend", "moon", "--dry-run"]) == 2
    assert "--backend is 'moon', but must be local or ray" in capsys.readouterr().err
    assert main(["train-sweep", sweep, "--gpus", "1", "--dry-run"]) == 2
    assert "--gpus is 1, but is only for --backend ray" in capsys.readouterr().err
