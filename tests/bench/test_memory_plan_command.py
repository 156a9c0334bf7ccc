"""``ragen train --plan``, and a run that is refused because it does not fit."""

import json

import pytest
from ragen_bench.__main__ import main

from ragen_agents.starpo.memory import planning
from ragen_agents.starpo.memory.training_memory import GIB, Device

QWEN_3B = {
    "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 11_008,
    "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
    "max_position_embeddings": 32_768, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def qwen(tmp_path):
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN_3B))
    return f"model={folder.name}"


def said(capsys, *arguments):
    code = main(["train", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def keep_config(tmp_path, monkeypatch, config):
    """Put the config of hf:someone/qwen into a cache of the hub, which is out of reach."""
    model = tmp_path / "hub" / "models--someone--qwen"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("0")
    (model / "snapshots" / "0").mkdir(parents=True)
    (model / "snapshots" / "0" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_plan_of_the_starter_on_this_machine(capsys, tmp_path):
    code, out, _ = said(capsys, "bandit", "--plan")
    assert code == 0
    for word in ("policy weights", "critic weights", "optimizer moments", "KV cache", "total"):
        assert word in out
    assert "micro-batches of up to 3072 tokens\n" in out
    assert out.rstrip().splitlines()[-1].startswith("fits")
    assert max(map(len, out.splitlines())) <= 80
    assert not list(tmp_path.iterdir()), "a plan writes nothing"


def test_plan_for_another_gpu_needs_no_weights(capsys, qwen):
    code, out, _ = said(
        capsys, "bandit", "--scale", "paper", qwen, "engine=vllm", "lora.rank=64", "--plan",
        "--device-memory", "48",
    )  # fmt: skip
    assert code == 0
    assert "qwen (3,086 M weights) on a GPU of 48.0 GiB" in out
    assert "tokens, chosen by the plan" in out
    assert "lengths are estimated with the starter's" in " ".join(out.split())
    assert "vLLM, without cache" in out
    assert max(map(len, out.splitlines())) <= 80


def test_plan_that_does_not_fit_says_what_would(capsys, qwen):
    arguments = ("bandit", "--scale", "paper", qwen, "engine=vllm", "--plan", "--device-memory")
    code, out, _ = said(capsys, *arguments, "24")
    assert code == 2
    told = " ".join(out.split())
    assert "does not fit: the run needs" in told
    assert "it would fit with lora.rank=64" in told
    assert "chosen by the plan" not in out
    assert said(capsys, *arguments, "24", "lora.rank=64")[0] == 0
    shared = ("40", "engine=vllm-server", "fsdp=true", "--devices", "8")
    assert said(capsys, *arguments, *shared)[0] == 0


def test_plan_of_the_papers_model_needs_no_hub(capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, _ = said(capsys, "sokoban", "--scale", "paper", "--plan", "--device-memory", "78")
    assert code == 0
    assert "Qwen2.5-0.5B-Instruct (494 M weights) on a GPU of 78.0 GiB" in " ".join(out.split())


def test_plan_of_a_model_whose_config_is_not_here(capsys):
    code, out, err = said(capsys, "bandit", "model=hf:nobody/nothing", "--plan")
    assert (code, out) == (2, "")
    assert "whose config.json is not on this machine" in err
    assert len(err.splitlines()) == 1


def test_plan_of_a_hub_model_of_which_only_the_config_is_here(tmp_path, monkeypatch, capsys):
    """As the message above asks for it: ``hf download MODEL config.json``."""
    keep_config(tmp_path, monkeypatch, QWEN_3B)
    code, out, err = said(capsys, "bandit", "model=hf:someone/qwen", "--plan", "--device-memory", "120")
    assert code == 0, err
    assert "the model's tokenizer is not here" in " ".join(out.split())


def test_plan_of_a_hub_model_of_an_unknown_type(tmp_path, monkeypatch, capsys):
    keep_config(tmp_path, monkeypatch, {**QWEN_3B, "model_type": "brandnew"})
    code, _, err = said(capsys, "bandit", "model=hf:someone/qwen", "--plan", "--device-memory", "120")
    assert code == 2
    assert "'hf:someone/qwen', which could not be loaded" in err
    assert "brandnew" in err


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("hidden_size", "big", "hidden_size is 'big', but must be an integer from 1"),
        ("num_hidden_layers", 0, "num_hidden_layers is 0, but must be an integer from 1"),
        ("hidden_act", "foo", "the model of type qwen2 could not be made: 'foo'"),
    ],
)
def test_an_impossible_config_is_refused_in_one_line(field, value, told, qwen, tmp_path, capsys):
    (tmp_path / "qwen" / "config.json").write_text(json.dumps({**QWEN_3B, field: value}))
    code, _, err = said(capsys, "bandit", qwen, "--plan")
    assert code == 2
    assert told in err
    assert len(err.splitlines()) == 1


def test_options_of_a_plan_alone(capsys):
    code, _, err = said(capsys, "bandit", "--device-memory", "24")
    assert code == 2
    assert "--device-memory and --devices are for --plan" in err


def test_a_run_that_does_not_fit_is_refused_in_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "this_device", lambda: Device(GIB // 2, True))
    monkeypatch.setattr("ragen_agents.starpo.trainer.load_policy", None)
    code, _, err = said(capsys, "bandit")
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "GiB" in lines[0]
    assert "ragen train --plan" in lines[0]
    assert not list(tmp_path.iterdir())


def test_vllm_in_the_trainer_is_planned_for_one_process(capsys, qwen):
    code, _, err = said(
        capsys, "bandit", qwen, "engine=vllm", "--plan", "--device-memory", "48", "--devices", "4"
    )
    assert code == 2
    assert "use engine=vllm-server with --devices 4" in err


def test_plan_for_devices_that_cannot_share_the_groups(capsys, qwen):
    shared = (
        "engine=vllm-server",
        "fsdp=true",
        "--plan",
        "--device-memory",
        "80",
        "--devices",
        "3",
    )
    code, out, err = said(capsys, "bandit", qwen, *shared)
    assert (code, out) == (2, "")
    assert "prompts_per_iteration is 8, but must be a multiple of the 3 processes" in err
