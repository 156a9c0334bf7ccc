"""Training runs through their public faces: the trainer, the command, the run directory."""

import json
import math
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from itertools import cycle

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
transformers = pytest.importorskip("transformers")

from forked import start  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from training_runs import (  # noqa: E402
    assert_equal_weights,
    command,
    lines,
    trainer,
    weights,
)

from ragen_agents.model_files.source import weights_digest  # noqa: E402
from ragen_agents.rollout.collect import GroupSpec  # noqa: E402
from ragen_agents.run_files.files import new_folder, remove_unfinished  # noqa: E402
from ragen_agents.starpo import PRESETS, merged  # noqa: E402
from ragen_agents.starpo.run import checkpoint  # noqa: E402
from ragen_agents.starpo.run.diagnostics import measure_information  # noqa: E402
from ragen_agents.starpo.run.errors import TrainingFailedError  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402
from ragen_envs.registration import text_ids  # noqa: E402


@pytest.mark.parametrize(
    ("game", "preset"), [*zip(text_ids(), cycle(PRESETS)), ("ragen/SokobanText-v0", "starpo-s")]
)
def test_every_game_and_every_preset_trains(game, preset, tiny, tmp_path):
    reports = []
    one = trainer(
        tmp_path / "run",
        {
            "game": game, "model": str(tiny), "iterations": 1, "filter": {"kind": "none"},
            "rollout": {"max_tokens": 12}, "evaluation": {"episodes": 2},
        },
        preset=preset, reports=reports,
    )  # fmt: skip
    one.run()
    (_, before), (_, after) = reports
    assert "validation/success" in before
    assert after["optimizer_steps"] == 2
    assert after["grad_norm"] > 0
    assert after["mismatch_max"] < 1e-3
    assert after["seconds/games"] < after["seconds/rollout"]


def prepared(one):
    specs = [GroupSpec(g, 4, {"seed": g}) for g in range(2)]
    found = one.collector.collect(specs, 0)
    return one.learner.prepare(TrainBatch.of(found, one.codec.pad))


@pytest.mark.parametrize(
    ("kind", "aggregation"),
    [
        ("gae", "token-mean"), ("turn-gae", "seq-mean-token-mean"),
        ("bilevel-gae", "token-mean"), ("grpo", "seq-mean-token-mean"),
    ],
)  # fmt: skip
def test_the_cut_into_passes_changes_nothing(kind, aggregation, tiny, tmp_path):
    changed = []
    for number, budget in enumerate((100_000, 900)):
        one = trainer(
            tmp_path / str(number),
            {
                "model": str(tiny), "advantage": {"estimator": kind}, "loss": {"agg_mode": aggregation},
                "update": {"max_tokens_per_micro_batch": budget, "mini_batch_size": 8},
                "critic": {"kind": "shared"},
            },
        )  # fmt: skip
        ready = prepared(one)
        norms = one.learner.update(ready, 0)
        changed.append((norms["grad_norm"], norms["policy_loss"]))
    assert changed[0] == pytest.approx(changed[1], rel=1e-3, abs=1e-6)


def test_what_the_model_reads_is_not_learned(tiny, tmp_path):
    """The gradient depends on context through the hidden states only: no context token is a target."""
    one = trainer(tmp_path / "run", {"model": str(tiny), "rollout": {"max_tokens": 8}})
    batch = prepared(one).batch
    models = one.learner.models
    rows = batch.rows
    scores = models(rows.ids, rows.attention_mask, rows.mask, rows.start)
    assert not scores.logprobs[~batch.mask].any()
    assert not scores.values[~batch.mask].any()
    assert (scores.logprobs[batch.mask] < 0).all()
    with torch.no_grad():
        for row, trajectory in enumerate(batch.trajectories):
            logits = models.policy(torch.tensor([trajectory.ids])).logits[0]
            logs = torch.log_softmax(logits, -1)
            places = [i for i, turn in enumerate(trajectory.turn_ids) if turn >= 0]
            expected = [float(logs[i - 1, trajectory.ids[i]]) for i in places]
            assert scores.logprobs[row][batch.mask[row]].tolist() == pytest.approx(expected, abs=1e-4)


def test_filtering_cuts_the_steps_unless_they_are_made_equal(tiny, tmp_path):
    base = {
        "model": str(tiny), "filter": {"kind": "random", "ratio": 0.25}, "iterations": 1,
        "rollout": {"prompts_per_iteration": 4, "group_size": 2}, "update": {"mini_batch_size": 2},
    }  # fmt: skip
    steps = {}
    for how in ("as-published", "equal"):
        reports = []
        trainer(
            tmp_path / how,
            merged(base, {"update": {"steps": how}}),
            preset="starpo-ppo",
            reports=reports,
        ).run()
        steps[how] = reports[-1][1]["optimizer_steps"]
    assert steps == {"as-published": 1, "equal": 2}


def test_rollouts_are_learned_from_more_than_once(tiny, tmp_path):
    found = {}
    for epochs in (1, 3):
        reports = []
        layer = {"model": str(tiny), "iterations": 1, "update": {"epochs": epochs, "mini_batch_size": 8},
                 "evaluation": {"every": 0}}  # fmt: skip
        trainer(tmp_path / str(epochs), layer, preset="starpo-grpo", reports=reports).run()
        found[epochs] = reports[0][1]
    assert [found[epochs]["optimizer_steps"] for epochs in (1, 3)] == [1, 3]
    assert found[1]["kl_step"] == pytest.approx(0, abs=1e-6)
    assert found[3]["kl_step"] > 1e-6


NOTHING_KEPT = {
    "iterations": 12, "evaluation": {"every": 0}, "save_every": 20,
    "env_kwargs": {"max_turns": 1, "format_penalty": 0.0}, "rollout": {"max_tokens": 2},
}  # fmt: skip
"""Replies too short for an answer, so that all returns are 0."""


def test_a_filter_that_keeps_nothing_stops_the_run_with_its_state_saved(tiny, tmp_path):
    for _ in range(2):  # the same command stops at the same place
        one = trainer(tmp_path / "run", {**NOTHING_KEPT, "model": str(tiny)})
        with pytest.raises(TrainingFailedError, match=r"kept nothing in 1[01] iterations"):
            one.run()
        assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["000009"]
    assert len(lines(tmp_path / "run")) == 9


def test_a_run_that_has_learned_everything_goes_on_to_its_end(tiny, tmp_path):
    one = trainer(tmp_path / "run", {**NOTHING_KEPT, "model": str(tiny)})
    collect = one.collector.collect
    one.collector.collect = lambda *a: [replace(t, success=True) for t in collect(*a)]
    one.run()
    assert len(lines(tmp_path / "run")) == 12


def test_gradients_that_are_not_finite_stop_the_run_with_its_state_saved(tiny, tmp_path):
    one = trainer(tmp_path / "run", {"model": str(tiny), "evaluation": {"every": 0}, "iterations": 9,
                                     "update": {"mini_batch_size": 2},
                                     "filter": {"kind": "none"}})  # fmt: skip
    real, loss, steps, clean = one.learner._step, one.learner._loss, [], {}

    def step(*arguments):
        steps.append(1)
        if len(steps) == 5:
            clean.update(weights(tmp_path / "run" / "checkpoints" / "000001"))
        if len(steps) > 5:  # the second iteration's first step is a good one
            one.learner._loss = broken
        return real(*arguments)

    def broken(*arguments):
        value, metrics = loss(*arguments)
        return value * float("nan"), metrics

    one.learner._step = step
    with pytest.raises(TrainingFailedError, match="not finite in 3 optimizer steps"):
        one.run()
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["000001", "000002"]
    first, last = weights(folder / "000001"), weights(folder / "000002")
    assert all(torch.equal(clean[name], first[name]) for name in clean)
    assert all(last[name].isfinite().all() for name in last)
    last_line = lines(tmp_path / "run")[-1]
    assert last_line["skipped_steps"] == 0.75
    assert all(math.isfinite(v) for v in last_line.values() if isinstance(v, float))


def test_a_collapse_is_undone_once_also_by_a_run_that_was_cut(tiny, tmp_path, monkeypatch, caplog):
    """Success is dictated; the weights that the run goes back to, and the later ones, are real."""
    from ragen_agents.starpo import trainer as module

    told = [0.9, 0.8, 0.8, 0.6, 0.6, 0.05, 0.6, 0.6, 0.05]
    real = module.rollout_metrics
    folders = [tmp_path / "whole", tmp_path / "cut"]
    for folder, lengths in zip(folders, ((12,), (3, 5, 12)), strict=True):
        for iterations in lengths:
            layer = {"model": str(tiny), "iterations": iterations, "filter": {"kind": "none"},
                     "monitor": {"window": 1, "action": "rollback"}, "save_every": 2, "save_total_limit": 1,
                     "evaluation": {"every": 0}, "env_kwargs": {"max_turns": 1},
                     "rollout": {"max_tokens": 4}}  # fmt: skip
            one = trainer(folder, layer)
            monkeypatch.setattr(
                module, "rollout_metrics",
                lambda t, one=one: {
                    **real(t),
                    **dict.fromkeys(("success", "return"), told[min(8, one.state.progress.iteration)]),
                },
            )  # fmt: skip
            one.run()
    warnings = caplog.messages
    assert warnings.count("rolled back to the weights of iteration 2") == 2
    assert warnings.count("stopped because success has collapsed") == 2
    before = lines(folders[0])
    again = trainer(folders[0], layer)
    again.run()
    assert lines(folders[0]) == before
    assert "has stopped this run" in caplog.messages[-1]
    assert lines(folders[0]) == lines(folders[1])
    last = [sorted((folder / "checkpoints").iterdir())[-1] for folder in folders]
    assert last[0].name == last[1].name
    assert_equal_weights(*last)


def test_a_run_that_may_go_back_begins_with_a_checkpoint(tiny, tmp_path):
    layer = {"model": str(tiny), "iterations": 1, "filter": {"kind": "none"},
             "monitor": {"action": "rollback"}}  # fmt: skip
    saved = tmp_path / "run" / "checkpoints"
    trainer(tmp_path / "run", layer).run()
    assert sorted(path.name for path in saved.iterdir()) == ["000000", "000001"]
    before = lines(tmp_path / "run")
    (saved / "000001").rename(tmp_path / "first")
    trainer(tmp_path / "run", layer).run()
    assert lines(tmp_path / "run") == before
    assert_equal_weights(tmp_path / "first", saved / "000001")


def test_evaluating_does_not_change_training(tiny, tmp_path):
    for every in (0, 1):
        layer = {"model": str(tiny), "evaluation": {"every": every}}
        trainer(tmp_path / str(every), layer, preset="starpo-ppo").run()
    assert_equal_weights(tmp_path / "0" / "checkpoints" / "000002", tmp_path / "1" / "checkpoints" / "000002")


@pytest.fixture(scope="module")
def two(tiny, tmp_path_factory):
    """A run of the command, of two iterations."""
    out = tmp_path_factory.mktemp("runs") / "two"
    assert main(command(tiny, out, iterations=2)[3:]) == 0
    return out


@pytest.fixture(scope="module")
def three(tiny, tmp_path_factory):
    """A run of the command, of three iterations."""
    out = tmp_path_factory.mktemp("runs") / "three"
    assert main(command(tiny, out, iterations=3)[3:]) == 0
    return out


@pytest.fixture(scope="module")
def six(tiny, tmp_path_factory):
    """A run of the command, of six iterations."""
    out = tmp_path_factory.mktemp("runs") / "six"
    assert main(command(tiny, out)[3:]) == 0
    return out


def test_killed_and_continued_is_as_never_stopped(six, tiny, tmp_path):
    whole, cut = six, tmp_path / "cut"
    rng = random.Random(0)
    for _ in range(3):
        running = start(command(tiny, cut)[1:], stdout=os.devnull)
        while not (cut / "metrics.jsonl").exists() and running.is_alive():
            time.sleep(0.05)
        time.sleep(rng.random())
        running.kill()
        running.join()
    assert main(command(tiny, cut)[3:]) == 0
    assert lines(cut) == lines(whole)
    assert (cut / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert_equal_weights(cut / "checkpoints" / "000006", whole / "checkpoints" / "000006")
    first, second = ((d / "checkpoints" / "000006" / "trainer.safetensors") for d in (cut, whole))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_goes_on_as_never_stopped(sent, six, tiny, tmp_path):
    cut = tmp_path / "cut"
    told = tmp_path / "told.txt"
    running = start(command(tiny, cut, "save_every=6")[1:], stdout=told)
    while not (cut / "metrics.jsonl").exists() or len(lines(cut)) < 2:
        time.sleep(0.02)
    os.kill(running.pid, sent)
    running.join(60)
    said = told.read_text()
    name, ended, code = {
        signal.SIGINT: ("Ctrl-C", "interrupted", 130),
        signal.SIGTERM: ("SIGTERM", "terminated by SIGTERM", 143),
    }[sent]
    assert running.exitcode == code
    assert f"a second {name} stops at once" in said
    assert f"{ended}; finished iterations are in" in said
    assert "the same command resumes" in said
    done = len(lines(cut)) - 1
    assert [path.name for path in (cut / "checkpoints").iterdir()] == [f"{done:06d}"]
    assert main(command(tiny, cut, "save_every=6")[3:]) == 0
    assert lines(cut) == lines(six)


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.safetensors", "trainer.json"])
def test_a_checkpoint_that_cannot_be_loaded_is_named_and_can_be_removed(
    name, two, three, tiny, tmp_path, capsys
):
    run = shutil.copytree(two, tmp_path / "run")
    damaged = run / "checkpoints" / "000002"
    content = (damaged / name).read_bytes()
    (damaged / name).write_bytes(content[: len(content) // 2])
    capsys.readouterr()
    assert main(command(tiny, run, iterations=3)[3:]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(f"error: the checkpoint '{damaged}' cannot be loaded: ")
    assert said.endswith("resumes from the one before it, if there is one")
    shutil.rmtree(damaged)
    assert main(command(tiny, run, iterations=3)[3:]) == 0
    assert lines(run) == lines(three)
    assert_equal_weights(run / "checkpoints" / "000003", three / "checkpoints" / "000003")


def test_a_run_with_the_hashes_of_earlier_versions_can_be_made_longer(two, three, tiny, tmp_path):
    run = shutil.copytree(two, tmp_path / "run")
    (run / "checkpoints" / "000002" / "hashes.json").write_text('{"model.safetensors": "a hash"}')
    assert main(command(tiny, run, iterations=3)[3:]) == 0
    assert [line["iteration"] for line in lines(run)] == [0, 1, 2, 3]
    assert_equal_weights(run / "checkpoints" / "000003", three / "checkpoints" / "000003")


def test_a_run_whose_checkpoints_were_removed_keeps_its_metrics(six, tiny, tmp_path, capsys):
    run = shutil.copytree(six, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    before = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "samples.jsonl")}
    assert main(command(tiny, run)[3:]) == 2
    assert "has metrics of 6 iterations, but no checkpoint" in capsys.readouterr().err
    assert before == {name: (run / name).read_bytes() for name in before}


def test_a_copy_of_a_checkpoint_is_left_alone(two, tiny, tmp_path):
    run = shutil.copytree(two, tmp_path / "run")
    copy = run / "checkpoints" / "000002-copy"
    shutil.copytree(run / "checkpoints" / "000002", copy)
    assert main(command(tiny, run, iterations=5)[3:]) == 0
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == ["000002-copy", "000004", "000005"]


def test_a_full_disk_is_one_line_and_loses_nothing(two, tiny, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    real = checkpoint.save_file

    def full(tensors, path):
        real(tensors, path)
        if path.parent.parent.name == ".000002.writing":
            raise checkpoint.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    capsys.readouterr()
    assert main(command(tiny, run, iterations=2)[3:]) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "cannot be written: I/O error: No space left on device" in error[0]
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["000001"]
    monkeypatch.undo()
    assert main(command(tiny, run, iterations=2)[3:]) == 0
    assert lines(run) == lines(two)


@pytest.mark.parametrize("again", [True, False])
def test_a_folder_that_a_killed_run_had_moved_away_is_put_back(tmp_path, again):
    work, best = tmp_path / ".best.writing", tmp_path / "best"
    (work / "old").mkdir(parents=True)
    (work / "old" / "model").write_text("whole")
    (work / "new").mkdir()
    if again:
        with pytest.raises(OSError, match="full"), new_folder(best):
            raise OSError("full")
    else:
        remove_unfinished(tmp_path)
    assert (best / "model").read_text() == "whole"
    assert not work.exists()


def test_a_tokenizer_that_cannot_be_written_is_one_line(tiny, tmp_path, capsys, monkeypatch):
    """The tokenizers library says so by an exception without a class of its own."""
    from transformers import PreTrainedTokenizerBase

    def full(*_, **__):
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", full)
    assert main(command(tiny, tmp_path / "run", "evaluation.every=0", iterations=1)[3:]) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "cannot be written: No space left on device" in error[0]
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_adapters_learn_and_go_on_as_never_stopped(critic, tiny, tmp_path):
    """Only low-rank matrices change, the saved model has them merged, and half-way is exact."""
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    for out, lengths in ((cut, (1, 2)), (whole, (2,))):
        for iterations in lengths:
            arguments = command(
                tiny, out, "lora.rank=4", f"critic.kind={critic}", "update.learning_rate=1e-2",
                iterations=iterations,
            )  # fmt: skip
            assert main(arguments[3:]) == 0
    first, second = (d / "checkpoints" / "000002" for d in (cut, whole))
    assert_equal_weights(first, second)
    state = safetensors.load_file(first / "trainer.safetensors")
    assert not [n for n in state if n.startswith(("trunk", "policy")) and "lora_" not in n]
    before, after = weights(tiny), weights(first)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.endswith("_proj.weight") for name in changed)
    for name in changed:
        assert torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-3) <= 4


def test_what_was_trained_is_an_ordinary_model(tiny, tmp_path, capsys):
    assert main(command(tiny, tmp_path / "run", iterations=1)[3:]) == 0
    best = tmp_path / "run" / "best"
    transformers.AutoTokenizer.from_pretrained(best)
    arguments = ["bench", "--agent", str(best), "--agent", "random", "--agent", "oracle",
                 "--game", "Bandit", "--episodes", "4", "--out", str(tmp_path / "scored")]  # fmt: skip
    assert main(arguments) == 0
    assert "best" in capsys.readouterr().out


def test_a_model_is_known_by_its_weights_alone(tiny, tmp_path):
    """What differs between bit-identical runs, such as the size of their metrics, is not part of it."""
    one = trainer(tmp_path / "run", {"model": str(tiny)})
    for size in (1, 2):
        checkpoint.save(
            tmp_path / str(size), one.learner, one.codec.tokenizer, checkpoint.Progress(metrics_size=size),
            model_only=True,
        )  # fmt: skip
    assert weights_digest(tmp_path / "1") == weights_digest(tmp_path / "2")


def test_the_packages_of_training_are_recorded(tiny, tmp_path):
    assert main(command(tiny, tmp_path / "run", "evaluation.every=0", iterations=1)[3:]) == 0
    packages = json.loads((tmp_path / "run" / "environment.json").read_text())["packages"]
    assert {"accelerate", "peft"} <= packages.keys()


def test_information_is_about_different_prompts(tiny, tmp_path):
    one = trainer(tmp_path / "run", {"model": str(tiny)})
    same = one.collector.collect([GroupSpec(g, 2, {"seed": 1}) for g in range(3)], 0)
    found = measure_information(one.learner, same, one.codec, 8, 0, 2048)
    assert not any(name.startswith("information/first/") for name in found)
    apart = one.collector.collect([GroupSpec(g, 2, {"seed": g // 2}) for g in range(4)], 0)
    found = measure_information(one.learner, apart, one.codec, 8, 0, 2048)
    assert found["information/first/reply/mutual_information"] <= math.log(2) + 1e-6
