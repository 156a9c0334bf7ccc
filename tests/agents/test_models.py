"""What models say of tokens, against what their own forward pass says."""

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from ragen_bench.__main__ import main  # noqa: E402

from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.update.models import ActorCritic, load_policy  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1,
}  # fmt: skip


def saved_model(folder, config):
    """Save a model with random weights, of the starter's tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(STARTER)
    config.vocab_size = len(tokenizer)
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Granite", {"logits_scaling": 0.1}),
        ("Cohere", {"logit_scale": 8.0}),
        ("Gemma2", {"final_logit_softcapping": 0.1, "head_dim": 16, "sliding_window": 16}),
        ("Qwen2", {}),
    ],
)  # fmt: skip
def test_models_that_do_something_to_their_logits_are_scored_as_they_say(family, more, tmp_path):
    config = getattr(transformers, f"{family}Config")(**SIZES, **more)
    source = str(saved_model(tmp_path, config))
    model, _ = load_policy(TrainConfig(model=source), torch.device("cpu"))
    ids = torch.randint(0, config.vocab_size, (3, 40), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, :20] = False
    ours = ActorCritic(model, None, 1.0)(ids, mask | True, mask, 20).logprobs[:, 20:]
    logs = torch.log_softmax(model(ids).logits[:, :-1], dim=-1)
    theirs = logs.gather(2, ids[:, 1:, None])[:, 19:, 0]
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_model_whose_logits_come_in_an_unknown_way_is_refused(tmp_path, capsys):
    """A Llama that says it scales its logits does not."""
    source = saved_model(tmp_path / "odd", transformers.LlamaConfig(**SIZES, logits_scaling=0.1))
    assert main(["train", "bandit", "--out", str(tmp_path / "run"), f"model={source}"]) == 2
    said = capsys.readouterr().err
    assert "log-probabilities" in said
    assert "LlamaForCausalLM" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_text_model_of_a_larger_one_is_trained_and_played_within_its_context(tmp_path, capsys):
    text = {**SIZES, "vocab_size": 4096, "head_dim": 16, "max_position_embeddings": 2048}
    vision = {**SIZES, "image_size": 8, "patch_size": 4}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    model = str(saved_model(tmp_path / "model", config))
    train = [
        "train", "bandit", f"model={model}", "iterations=1", "evaluation.every=0", "filter.kind=none",
        "rollout.prompts_per_iteration=1", "rollout.group_size=4", "rollout.max_tokens=8", "--out",
    ]  # fmt: skip
    assert main([*train, str(tmp_path / "run")]) == 0
    config.text_config.max_position_embeddings = 64
    config.save_pretrained(model)
    assert main([*train, str(tmp_path / "short")]) == 2
    assert "the model reads 64 tokens" in capsys.readouterr().err
    sft = ["sft", "bandit", f"model={model}", "demonstrations=1", "--out", str(tmp_path / "sft")]
    assert main(sft) == 2
    assert "the model reads 64 tokens" in capsys.readouterr().err
    bench = ["bench", "--agent", model, "--game", "Bandit", "--episodes", "2", "--out", str(tmp_path / "b")]
    assert main(bench) == 0
    ends = [json.loads(line)["end"] for line in (tmp_path / "b/episodes.jsonl").read_text().splitlines()]
    assert ends == ["overflow"] * 2


def test_values_are_not_rounded_where_the_passes_are(tmp_path):
    source = str(saved_model(tmp_path, transformers.Qwen2Config(**SIZES)))
    model, _ = load_policy(TrainConfig(model=source), torch.device("cpu"))
    models = ActorCritic(model, "shared", 1.0)
    torch.nn.init.constant_(models.value_head.bias, 10.93)
    ids = torch.arange(8)[None]
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = models(ids, everywhere, everywhere & (ids > 3), 4).values
    assert values[0, 4:].tolist() == pytest.approx([10.93] * 4)
