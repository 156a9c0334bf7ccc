"""Training runs through their public faces: the trainer, the command, the run directory."""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
transformers = pytest.importorskip("transformers")

from processes import interruptible  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.training import make_train_config  # noqa: E402

from ragen_agents.engines import EngineError  # noqa: E402
from ragen_agents.rollout.collect import GroupSpec  # noqa: E402
from ragen_agents.starpo import PRESETS, TrainConfig, merged  # noqa: E402
from ragen_agents.starpo.batch import TrainBatch  # noqa: E402
from ragen_agents.starpo.mutual_information import prompt_information  # noqa: E402
from ragen_agents.starpo.trainer import DivergedError, NothingKeptError, Trainer  # noqa: E402
from ragen_envs.registration import text_ids  # noqa: E402

SMALL = {
    "rollout": {"groups": 2, "members": 4, "max_tokens": 24},
    "update": {"batch": 4, "learning_rate": 1e-3, "critic_learning_rate": 1e-3},
    "evaluation": {"every": 2, "episodes": 4},
    "save_every": 1,
    "iterations": 2,
}


def trainer(folder, *layers, preset="starpo-s", reports=None):
    config = TrainConfig(**merged(SMALL, PRESETS[preset], *layers))
    folder.mkdir(exist_ok=True)
    told = [] if reports is None else reports
    return Trainer(config, folder, lambda i, m: told.append((i, m)), print)


def lines(folder):
    """Metrics without what depends on the clock."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("seconds/")} for line in found]


def weights(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()


def assert_equal_weights(first, second, tolerance=0.0):
    for (name, a), b in zip(weights(first).items(), weights(second).values(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=tolerance), name


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("game", text_ids())
def test_every_preset_trains_on_every_game(game, preset, tiny, tmp_path):
    reports = []
    one = trainer(
        tmp_path / "run", {"game": game, "model": str(tiny), "iterations": 1, "filter": {"kind": "none"}},
        preset=preset, reports=reports,
    )  # fmt: skip
    one.run()
    (_, before), (_, after) = reports
    assert "validation/success" in before
    assert after["optimizer_steps"] == 2
    assert after["gradient_norm"] > 0
    assert after["mismatch_max"] < 1e-3
    assert after["seconds/games"] < after["seconds/rollout"]


def prepared(one):
    specs = [GroupSpec(g, 4, {"seed": g}) for g in range(2)]
    found = one.collector.collect(specs, 0)
    return one.learner.prepare(TrainBatch.of(found, one.codec.pad))


@pytest.mark.parametrize("kind", ["gae", "turn-gae", "bilevel-gae", "grpo"])
@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean"])
def test_the_cut_into_passes_changes_nothing(kind, aggregation, tiny, tmp_path):
    changed = []
    for number, budget in enumerate((100_000, 900)):
        one = trainer(
            tmp_path / str(number),
            {
                "model": str(tiny), "advantage": {"kind": kind}, "loss": {"aggregation": aggregation},
                "update": {"micro_tokens": budget, "batch": 8}, "critic": {"kind": "shared"},
            },
        )  # fmt: skip
        ready = prepared(one)
        norms = one.learner.update(ready, 0)
        changed.append((norms["gradient_norm"], norms["policy_loss"]))
    assert changed[0] == pytest.approx(changed[1], rel=1e-3, abs=1e-6)


def test_what_the_model_reads_is_not_learned(tiny, tmp_path):
    """The gradient depends on context through the hidden states only: no context token is a target."""
    one = trainer(tmp_path / "run", {"model": str(tiny), "rollout": {"max_tokens": 8}})
    batch = prepared(one).batch
    models = one.learner.models
    scores = models(batch.ids, batch.real, batch.mask, batch.start)
    assert not scores.logprobs[~batch.mask].any()
    assert not scores.values[~batch.mask].any()
    assert (scores.logprobs[batch.mask] < 0).all()
    with torch.no_grad():
        for row, trajectory in enumerate(batch.trajectories):
            logits = models.policy(torch.tensor([trajectory.ids])).logits[0]
            logs = torch.log_softmax(logits, -1)
            places = [i for i, turn in enumerate(trajectory.turn_ids) if turn >= 0]
            expected = [float(logs[i - 1, trajectory.ids[i]]) for i in places]
            assert scores.logprobs[row][batch.mask[row]].tolist() == pytest.approx(
                expected, abs=1e-4
            )


def test_filtering_cuts_the_steps_unless_they_are_made_equal(tiny, tmp_path):
    base = {
        "model": str(tiny), "filter": {"kind": "random", "keep": 0.25}, "iterations": 1,
        "rollout": {"groups": 4, "members": 2}, "update": {"batch": 2},
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
        layer = {"model": str(tiny), "iterations": 1, "update": {"epochs": epochs, "batch": 8},
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
        with pytest.raises(NothingKeptError, match=r"kept nothing in 1[01] iterations"):
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
                                     "update": {"batch": 2}, "filter": {"kind": "none"}})  # fmt: skip
    real, loss, steps, clean = one.learner._step, one.learner._loss, [], {}

    def step(*arguments):
        steps.append(1)
        if len(steps) == 5:
            clean.update(weights(tmp_path / "run" / "checkpoints" / "000001"))
        if len(steps) > 5:  # the second iteration's first step is a good one
            one.learner._loss = lambda *a: (loss(*a)[0] * float("nan"), {})
        return real(*arguments)

    one.learner._step = step
    with pytest.raises(DivergedError, match="not finite in 3 optimizer steps"):
        one.run()
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["000001", "000002"]
    first, last = weights(folder / "000001"), weights(folder / "000002")
    assert all(torch.equal(clean[name], first[name]) for name in clean)
    assert all(last[name].isfinite().all() for name in last)
    last_line = lines(tmp_path / "run")[-1]
    assert last_line["skipped_steps"] == 0.75
    assert all(math.isfinite(v) for v in last_line.values() if isinstance(v, float))


def test_a_collapse_is_undone_once_also_by_a_run_that_was_cut(tiny, tmp_path, monkeypatch):
    """Success is dictated; the weights that the run goes back to, and the later ones, are real."""
    from ragen_agents.starpo import trainer as module

    told = [0.9, 0.8, 0.8, 0.6, 0.6, 0.05, 0.6, 0.6, 0.05]
    real, warnings = module.rollout_metrics, []
    folders = [tmp_path / "whole", tmp_path / "cut"]
    for folder, lengths in zip(folders, ((12,), (3, 5, 12)), strict=True):
        for iterations in lengths:
            layer = {"model": str(tiny), "iterations": iterations, "filter": {"kind": "none"},
                     "monitor": {"window": 1, "action": "rollback"}, "save_every": 2, "keep": 1,
                     "evaluation": {"every": 0}}  # fmt: skip
            one = trainer(folder, layer)
            one._warn = warnings.append
            monkeypatch.setattr(
                module, "rollout_metrics",
                lambda t, one=one: {**real(t), "success": told[min(8, one.progress.iteration)]},
            )  # fmt: skip
            one.run()
    assert warnings.count("went back to the weights of iteration 2") == 2
    assert warnings.count("stopped because success has collapsed") == 2
    before = lines(folders[0])
    again = trainer(folders[0], layer)
    again._warn = warnings.append
    again.run()
    assert lines(folders[0]) == before
    assert "has stopped this run" in warnings[-1]
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


def watch(engine, what, fail_at=None):
    """Count the calls of a method of an engine, and let one of them fail."""
    real, calls = getattr(engine, what), []

    def called(*arguments):
        calls.append(what)
        if len(calls) - 1 == fail_at:
            raise EngineError("the engine is gone")
        return real(*arguments)

    setattr(engine, what, called)
    return calls


BROKEN = {"save_every": 9, "iterations": 3, "filter": {"kind": "none"}}


@pytest.fixture(scope="module")
def never_stopped(tiny, tmp_path_factory):
    """A run, and how often it called its engine."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    one = trainer(folder, {**BROKEN, "model": str(tiny)}, preset="starpo-ppo")
    calls = {what: watch(one.engine, what) for what in ("poll", "sync")}
    one.run()
    return folder, {what: len(found) for what, found in calls.items()}


@pytest.mark.parametrize(
    ("what", "share"),
    [("poll", 0.0), ("poll", 0.3), ("poll", 0.6), ("poll", 0.99), ("sync", 0.0), ("sync", 0.99)],
)
def test_an_engine_that_fails_stops_the_run_with_its_state_saved(
    what, share, never_stopped, tiny, tmp_path
):
    """The run that goes on ends as one that was never stopped, wherever the engine has failed."""
    whole, calls = never_stopped
    cut, layer = tmp_path / "cut", {**BROKEN, "model": str(tiny)}
    stopped = trainer(cut, layer, preset="starpo-ppo")
    watch(stopped.engine, what, fail_at=int(share * calls[what]))
    with pytest.raises(EngineError, match="the engine is gone"):
        stopped.run()
    assert len(list((cut / "checkpoints").iterdir())) == 1
    trainer(cut, layer, preset="starpo-ppo").run()
    assert lines(cut) == lines(whole)
    assert (cut / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    last = Path("checkpoints") / "000003"
    assert_equal_weights(cut / last, whole / last)


def test_evaluating_does_not_change_training(tiny, tmp_path):
    for every in (0, 1):
        layer = {"model": str(tiny), "evaluation": {"every": every}}
        trainer(tmp_path / str(every), layer, preset="starpo-ppo").run()
    assert_equal_weights(
        tmp_path / "0" / "checkpoints" / "000002", tmp_path / "1" / "checkpoints" / "000002"
    )


def command(tiny, out, *more, iterations=6):
    return [
        sys.executable, "-m", "ragen_bench", "train", "frozenlake-deterministic", "--out", str(out),
        f"model={tiny}", f"iterations={iterations}", "rollout.groups=2", "rollout.members=4",
        "rollout.max_tokens=16", "update.batch=4", "save_every=1", "evaluation.every=3",
        "evaluation.episodes=4", "filter.kind=none", *more,
    ]  # fmt: skip


def test_killed_and_continued_is_as_never_stopped(tiny, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(command(tiny, whole), check=True, capture_output=True)
    rng = random.Random(0)
    for _ in range(4):
        running = subprocess.Popen(command(tiny, cut), stderr=subprocess.DEVNULL)
        while not (cut / "metrics.jsonl").exists() and running.poll() is None:
            time.sleep(0.05)
        time.sleep(rng.random() * 1.5)
        running.send_signal(signal.SIGKILL)
        running.wait()
    subprocess.run(command(tiny, cut), check=True, capture_output=True)
    assert lines(cut) == lines(whole)
    assert (cut / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert_equal_weights(cut / "checkpoints" / "000006", whole / "checkpoints" / "000006")
    first, second = ((d / "checkpoints" / "000006" / "trainer.safetensors") for d in (cut, whole))
    assert first.read_bytes() == second.read_bytes()


def test_ctrl_c_saves_and_goes_on_as_never_stopped(tiny, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main(command(tiny, whole, "save_every=6")[3:]) == 0
    running = subprocess.Popen(
        command(tiny, cut, "save_every=6"),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )
    while not (cut / "metrics.jsonl").exists() or len(lines(cut)) < 2:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "the same command goes on" in said
    done = len(lines(cut)) - 1
    assert [path.name for path in (cut / "checkpoints").iterdir()] == [f"{done:06d}"]
    assert main(command(tiny, cut, "save_every=6")[3:]) == 0
    assert lines(cut) == lines(whole)


def test_a_run_can_be_made_longer(tiny, tmp_path):
    short, whole = tmp_path / "short", tmp_path / "whole"
    for iterations in (2, 4):
        assert main(command(tiny, short, "save_every=2", iterations=iterations)[3:]) == 0
    assert main(command(tiny, whole, "save_every=2", iterations=4)[3:]) == 0
    assert_equal_weights(short / "checkpoints" / "000004", whole / "checkpoints" / "000004")


def in_two_processes(arguments):
    """Run what follows python in a command under torchrun, and return what both print."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *arguments[1:]],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def assert_same_run(alone, together, iterations):
    for one, two in zip(lines(alone), lines(together), strict=True):
        assert one.keys() == two.keys()
        for name in one:
            if name != "warnings":
                assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    last = Path("checkpoints", f"{iterations:06d}")
    assert_equal_weights(alone / last, together / last, 1e-4)


FAST = ("update.learning_rate=1e-3", "update.critic_learning_rate=1e-3", "save_every=1")
"""Rates at which a step that is left out shows."""


def test_two_processes_learn_what_one_does(tiny, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run(command(tiny, one, *FAST, iterations=2), check=True, capture_output=True)
    in_two_processes(command(tiny, two, *FAST, iterations=2))
    assert_same_run(one, two, 2)


PARTED = """
import sys
import torch.distributed as dist
from ragen_bench.__main__ import main

assert main(sys.argv[1:]) == 0
print("together" if dist.is_initialized() else "parted", flush=True)
"""


def test_processes_part_before_they_end(tiny, tmp_path):
    """One that ends while gloo still holds a message of it aborts now and then."""
    (tmp_path / "parted.py").write_text(PARTED)
    arguments = command(tiny, tmp_path / "run", "evaluation.every=0", iterations=1)
    said = in_two_processes([sys.executable, tmp_path / "parted.py", *arguments[3:]])
    assert re.findall("parted|together", said) == ["parted"] * 2


@pytest.mark.parametrize(
    "more",
    [["--preset", "starpo-ppo"], ["--preset", "starpo-grpo", "lora.rank=4", "update.learning_rate=1e-2"]],
)  # fmt: skip
def test_processes_that_split_the_weights_learn_what_one_does(more, tiny, tmp_path):
    """Also where they go on from the checkpoint of one that had all weights, and it from theirs."""
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = [*FAST, *more]
    for iterations in (1, 3, 4):
        alone = command(tiny, one, *arguments, iterations=iterations)
        subprocess.run(alone, check=True, capture_output=True)
        if iterations == 1:
            shutil.copytree(one, two)
        if iterations == 3:
            in_two_processes(command(tiny, two, *arguments, "shard=true", iterations=3))
            assert_same_run(one, two, 3)
    subprocess.run(command(tiny, two, *arguments, iterations=4), check=True, capture_output=True)
    assert_same_run(one, two, 4)


HELD = """
import sys
from pathlib import Path
from ragen_agents.starpo import PRESETS, TrainConfig, merged
from ragen_agents.starpo.batch import TrainBatch
from ragen_agents.starpo.checkpoint import load
from ragen_agents.starpo.trainer import Trainer

own = {"model": sys.argv[1], "game": "ragen/BanditText-v0", "shard": True, "iterations": 1,
       "rollout": {"groups": 2, "members": 2, "max_tokens": 8}, "evaluation": {"every": 0}}
trainer = Trainer(TrainConfig(**merged(PRESETS["starpo-ppo"], own)), Path(sys.argv[2]), print, print)
trainer.run()
learner = trainer.learner
batch = TrainBatch.of(trainer.collector.collect(trainer._groups(0), 0), trainer.codec.pad)
learner.score(batch)  # without a backward pass behind it
load(Path(sys.argv[2], "checkpoints", "000001"), learner)
for parameters, optimizer in (
    (learner.models.policy_parameters(), learner.optimizer),
    (learner.models.critic_parameters(), learner.critic_optimizer),
):
    held = sum(p.to_local().numel() for p in parameters) / sum(p.numel() for p in parameters)
    moments = [optimizer.state[p]["exp_avg"] for p in parameters]
    kept = sum(m.to_local().numel() for m in moments) / sum(m.numel() for m in moments)
    print(f"held {held:.2f} {kept:.2f}", flush=True)
trainer.close()
"""


def test_each_process_holds_its_half_of_what_is_split(tiny, tmp_path):
    """Also right after a pass without gradients, when weights are loaded for a rollback."""
    (tmp_path / "held.py").write_text(HELD)
    (tmp_path / "run").mkdir()
    said = in_two_processes([sys.executable, tmp_path / "held.py", tiny, tmp_path / "run"])
    shares = [float(s) for pair in re.findall(r"held (\d\.\d\d) (\d\.\d\d)", said) for s in pair]
    assert shares == pytest.approx([0.5] * 8, abs=0.02)


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chess"], ["unknown game 'chess'", "sokoban"]),
        (["sokoban", "--preset", "ppo"], ["unknown preset 'ppo'", "starpo-s"]),
        (["sokoban", "--scale", "huge"], ["unknown scale 'huge'", "laptop"]),
        (["sokoban", "update.lr=1"], ["unknown option 'lr' in update", "learning_rate"]),
        (["sokoban", "update.batch=0"], ["update.batch", "greater than or equal to 1", "0"]),
        (["sokoban", "update.batch"], ["'update.batch' must have the form field=value"]),
        (["sokoban", "advantage.kind=ppo"], ["advantage.kind", "'gae'", "'ppo'"]),
        (["sokoban", "rollout.members=1"], ["rollout.members is 1", "at least 2"]),
        (["sokoban", "env_kwargs.history=none"], ["history must be full"]),
        (["sokoban", "env_kwargs.observation=image"], ["observation is image", "grid"]),
        (["sokoban", "--preset", "starpo-grpo", "update.critic_warmup=2"], ["critic_warmup is 2"]),
        (["sokoban", "model=nowhere"], ["model is 'nowhere'", "folder that exists"]),
        (["sokoban", "rollout.max_tokens=4000"], ["reads 2048 tokens", "rollout.max_tokens=4000"]),
        (["sokoban", "env_kwargs.boxes=none"], ["boxes"]),
        (["sokoban", "evaluation.episodes=600"], ["evaluation.episodes is 600", "0 to 511"]),
        (["sokoban", "env_kwargs.size=7"], ["no frozen instances", "evaluation.every=0"]),
        (["missing.yaml"], ["missing.yaml", "cannot be read"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_leaves_nothing(arguments, words, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *arguments, "--out", str(out)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    for word in words:
        assert word in said
    assert not out.exists()


def test_a_directory_of_another_run_is_refused(tiny, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(command(tiny, out, iterations=1)[3:]) == 0
    assert main(command(tiny, out, "loss.clip_high=0.3", iterations=1)[3:]) == 2
    assert "holds another run: loss.clip_high" in capsys.readouterr().err
    assert main([*command(tiny, out, iterations=1)[3:], "--no-resume"]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_a_file_of_settings(tiny, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"game: bandit\nmodel: {tiny}\niterations: 1\nevaluation: {{every: 0}}\n"
                    "rollout: {groups: 2, members: 2, max_tokens: 8}\n")  # fmt: skip
    out = tmp_path / "run"
    assert main(["train", str(path), "--out", str(out), "--preset", "starpo-grpo"]) == 0
    assert "game: ragen/BanditText-v0" in Path(out / "config.yaml").read_text()


def test_a_file_has_the_fields_own_defaults_unless_a_preset_is_named(tiny, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"game: bandit\nmodel: {tiny}\nupdate: {{batch: 8}}\n")
    plain = make_train_config(str(path), None, None, [])
    assert plain.model_copy(update={"game": "", "model": "", "weights": None}) == TrainConfig(
        game="", model="", update={"batch": 8}
    )
    assert make_train_config(str(path), "starpo-s", None, []).filter.kind == "std"
    named = make_train_config("bandit", None, None, [])
    assert (named.filter.kind, named.update.learning_rate) == ("std", 3e-4)
    other = make_train_config("bandit", None, None, [f"model={tiny}"])
    assert other.update.learning_rate == TrainConfig().update.learning_rate


def test_a_run_is_of_the_weights_that_it_began_with(tiny, tmp_path, capsys):
    model, out = tmp_path / "model", tmp_path / "run"
    shutil.copytree(tiny, model)
    assert main(command(model, out, iterations=1)[3:]) == 0
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "note": "another model"}))
    assert main(command(model, out, iterations=2)[3:]) == 2
    assert "holds another run: weights" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.safetensors"])
def test_a_damaged_file_is_one_line(name, tiny, tmp_path, capsys):
    out, model = tmp_path / "run", tmp_path / "model"
    shutil.copytree(tiny, model)
    assert main(command(model, out, iterations=1)[3:]) == 0
    damaged = out / "checkpoints" / "000001" / name
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert main(command(model, out, iterations=2)[3:]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    assert "000001' is no checkpoint of this run" in said


def test_information_is_about_different_prompts(tiny, tmp_path):
    one = trainer(tmp_path / "run", {"model": str(tiny)})
    same = one.collector.collect([GroupSpec(g, 2, {"seed": 1}) for g in range(3)], 0)
    assert prompt_information(one.learner, same, one.codec.pad) == {}
    apart = one.collector.collect([GroupSpec(g, 2, {"seed": g // 2}) for g in range(4)], 0)
    found = prompt_information(one.learner, apart, one.codec.pad)
    assert found["mutual_information"] <= math.log(2) + 1e-6
