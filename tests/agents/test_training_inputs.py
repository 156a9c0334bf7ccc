"""What `ragen train` is given: settings, files, models, run directories; and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main
from ragen_bench.training.train_settings import make_train_config
from training_runs import command

from ragen_agents.starpo import TrainConfig


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chess"], ["unknown game 'chess'", "Sokoban"]),
        (["sokoban", "--preset", "ppo"], ["unknown preset 'ppo'", "starpo-s"]),
        (["sokoban", "--scale", "huge"], ["unknown scale 'huge'", "laptop"]),
        (["sokoban", "update.lr=1"], ["unknown option 'lr' in update", "learning_rate"]),
        (
            ["sokoban", "update.mini_batch_size=0"],
            ["update.mini_batch_size", "greater than or equal to 1", "0"],
        ),
        (["sokoban", "update.mini_batch_size"], ["'update.mini_batch_size' must have the form field=value"]),
        (["sokoban", "advantage.estimator=ppo"],
         ["advantage.estimator is 'ppo', but must be one of grpo, ", "others"]),
        (["sokoban", "rollout.group_size=1"], ["rollout.group_size is 1", "at least 2"]),
        (["sokoban", "--preset", "starpo-grpo", "loss.kl=reward", "loss.kl_estimator=k1"],
         ["loss.kl=reward has no effect on advantage.estimator=grpo"]),
        (["sokoban", "env_kwargs.observation=image"], ["observation is image", "grid"]),
        (["sokoban", "env_kwargs.split=test"], ["split is 'test'", "always uses the training split"]),
        (["sokoban", "env_kwargs.render_mode=human"], ["render_mode is 'human'", "leave it out"]),
        (["sokoban", "--preset", "starpo-grpo", "update.critic_warmup=2"], ["critic_warmup is 2"]),
        (["sokoban", "model=nowhere"], ["model is 'nowhere'", "folder that exists"]),
        (["sokoban", "rollout.max_tokens=4000"], ["reads 2048 tokens", "rollout.max_tokens=4000"]),
        (["sokoban", "env_kwargs.boxes=none"], ["boxes"]),
        (["sokoban", "evaluation.episodes=600"], ["evaluation.episodes is 600", "0 to 511"]),
        (["sokoban", "env_kwargs.levels=['####/#PX_O#/####']"], ["rows of equal length"]),
        (["sokoban", "update.betas=[0.9, 1]"], ["update.betas", "less than 1"]),
        (["sokoban", f"seed={1 << 64}"], ["seed", f"less than {1 << 63}"]),
        (["sokoban", "weights=deadbeef"], ["weights is deadbeef", "have the hash"]),
        (["missing.yaml"], ["there is no file 'missing.yaml'"]),
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
    assert main(command(tiny, out, "loss.clip_ratio_high=0.3", iterations=1)[3:]) == 2
    assert "holds another run: loss.clip_ratio_high" in capsys.readouterr().err


def test_the_folder_of_a_benchmark_is_named(tmp_path, capsys):
    out = str(tmp_path / "run")
    played = ["bench", "--agent", "noop", "--game", "Bandit", "--episodes", "1", "--out", out]
    assert main(played) == 0
    assert main(["train", "bandit", "--out", out]) == 2
    assert f"'{out}' holds a run of ragen bench or ragen match" in capsys.readouterr().err


def test_a_file_of_settings(tiny, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"game: bandit\nmodel: {tiny}\niterations: 1\nevaluation: {{every: 0}}\n"
                    "rollout: {prompts_per_iteration: 2, group_size: 2, max_tokens: 8}\n")  # fmt: skip
    out = tmp_path / "run"
    assert main(["train", str(path), "--out", str(out), "--preset", "starpo-grpo"]) == 0
    assert "game: ragen/BanditText-v0" in Path(out / "config.yaml").read_text()


def test_a_file_has_the_fields_own_defaults_unless_a_preset_is_named(tiny, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"game: bandit\nmodel: {tiny}\nupdate: {{mini_batch_size: 8}}\n")
    plain = make_train_config(str(path), None, None, [])
    assert plain.model_copy(update={"game": "", "model": "", "weights": None}) == TrainConfig(
        game="", model="", update={"mini_batch_size": 8}
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
    assert f"the checkpoint '{damaged.parent}' cannot be loaded" in said


@pytest.mark.parametrize(("line", "words"), [(b"\xff\xfe", "cannot be read"), (b"[1]", "is corrupt")])
def test_damaged_metrics_are_one_line(line, words, tiny, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(command(tiny, out, iterations=1)[3:]) == 0
    metrics = out / "metrics.jsonl"
    metrics.write_bytes((line + b"\n") * metrics.stat().st_size)
    assert main(command(tiny, out, iterations=2)[3:]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    assert words in said
