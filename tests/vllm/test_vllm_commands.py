"""``ragen train engine=vllm`` and ``ragen bench --agent vllm:MODEL``, as a user runs them."""

import shutil

import transformers
from ragen_bench.__main__ import main
from vllm_commands import SUITE, lines, ragen

from ragen_agents.starter import STARTER


def test_iterations_of_starpo_s(tmp_path):
    out = tmp_path / "run"
    ragen(
        "train", "bandit", "--preset", "starpo-s", "--out", out, "engine=vllm", "vllm.cache_gib=0.25",
        "iterations=3", "rollout.prompts_per_iteration=4", "rollout.group_size=4", "rollout.max_tokens=60",
        "update.mini_batch_size=4", "evaluation.every=3", "evaluation.episodes=8", "save_every=2",
    )  # fmt: skip
    found = lines(out / "metrics.jsonl")
    assert [line["iteration"] for line in found] == list(range(4))
    for line in found[1:]:
        assert line["mismatch_max"] < 1e-3
        assert line["grad_norm"] > 0
        assert line["kept_groups"] == 1
        assert line["seconds/games"] < line["seconds/rollout"] < line["seconds/total"]
    trained = transformers.AutoModelForCausalLM.from_pretrained(out / "checkpoints" / "000003")
    base = transformers.AutoModelForCausalLM.from_pretrained(STARTER)
    assert not trained.get_input_embeddings().weight.equal(base.get_input_embeddings().weight)


def test_greedy_episodes_are_those_of_the_transformers_agent(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    ragen(
        "bench", "--suite", tmp_path / "suite.yaml", "--episodes", 12, "--out", tmp_path / "run",
        "--agent", "starter", "--agent", f"vllm:{STARTER}/",
    )  # fmt: skip
    played = lines(tmp_path / "run" / "episodes.jsonl")
    for episode in played:
        for turn in episode["turns"]:
            del turn["seconds"]
    plain, ours = ([e for e in played if (e["agent"] == "starter") == is_plain] for is_plain in (True, False))
    assert {e.pop("agent") for e in ours} == {f"vllm:{STARTER}"}
    assert {e.pop("agent") for e in plain} == {"starter"}
    assert plain == ours
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_model_that_vllm_cannot_load_is_one_line(tmp_path):
    shutil.copytree(STARTER, tmp_path / "torn")
    weights = tmp_path / "torn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    said = ragen(
        "bench", "--agent", f"vllm:{tmp_path}/torn", "--game", "Bandit", "--episodes", 2, "--out",
        tmp_path / "run", code=2,
    )  # fmt: skip
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"error: vLLM could not load '{tmp_path}/torn': ")
