"""The memory plan: what it counts, compared with what training allocates, and what it refuses."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from chat_templates import SHAPES, stops_of, tokenizer_with
from ragen_bench.__main__ import main
from speed.memory import Case, measured_peaks, planned, planned_peaks
from transformers import (
    AutoModelForCausalLM,
    Gemma3nTextConfig,
    GenerationConfig,
    GPT2Config,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
)

from ragen_agents.engines.vllm.memory import MemoryNeeds
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, Trainer, merged, processes
from ragen_agents.starpo.memory import planning, training_memory
from ragen_agents.starpo.memory.fitting import (
    _smaller,
    advice,
    fitted,
    most_tokens,
    refusal,
)
from ragen_agents.starpo.memory.model_shape import UnknownShapeError, read_config, shape_of
from ragen_agents.starpo.memory.planning import Sizes
from ragen_agents.starpo.memory.training_memory import GIB, Conversations, Device, plan_memory
from ragen_agents.starpo.setup import env_factory
from ragen_agents.starter import STARTER
from ragen_envs.errors import RagenError

GAME = "ragen/BanditText-v0"
SMALL = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
LLAMA = LlamaConfig(
    vocab_size=256, hidden_size=128, intermediate_size=384, num_hidden_layers=4,
    tie_word_embeddings=True, **SMALL,
)  # fmt: skip
QWEN3 = Qwen3Config(
    vocab_size=2000, hidden_size=64, intermediate_size=160, num_hidden_layers=3, head_dim=32,
    tie_word_embeddings=False, **SMALL,
)  # fmt: skip
QWEN_3B = {
    "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 11_008,
    "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
    "max_position_embeddings": 32_768, "tie_word_embeddings": True,
}  # fmt: skip
LENGTHS = Conversations(prompt=176, whole=2016)
LORA = {"rank": 8, "alpha": 8}
SETTINGS = {
    "plain": {"advantage": {"estimator": "grpo"}},
    "critic": {"advantage": {"estimator": "gae"}},
    "shared critic": {"critic": {"kind": "shared"}},
    "reference": {"loss": {"kl": "reward"}, "update": {"precision": "bfloat16"}},
    "recomputed": {"update": {"gradient_checkpointing": True}},
    "recomputed bfloat16": {
        "update": {"gradient_checkpointing": True, "precision": "bfloat16", "float32_head": True}
    },
    "lora critic bfloat16": {"lora": LORA, "update": {"precision": "bfloat16"}},
    "lora recomputed": {
        "lora": LORA,
        "update": {"gradient_checkpointing": True, "precision": "bfloat16"},
    },
}


def on_gpu(config, gib, shape=None, **more):
    shape = shape or shape_of(Qwen2Config(**QWEN_3B))
    return lambda changed: plan_memory(
        changed, shape, LENGTHS, Device(int(gib * GIB), True), own_engine=True, **more
    )


RECOMPUTED = {"update": {"gradient_checkpointing": True}}
KEPT = {"update": {"gradient_checkpointing": False}}


def paper(*layers):
    """Settings of the paper, with layers that are computed again."""
    common = (SCALES["paper"], PRESETS["starpo-s"], {"game": GAME}, RECOMPUTED)
    return TrainConfig(**merged(*common, *layers))


CASES = [
    (LLAMA, "critic", True),
    (QWEN3, "shared critic", False),
    (LLAMA, "reference", False),
    (QWEN3, "recomputed bfloat16", True),
    (LLAMA, "lora critic bfloat16", False),
    (QWEN3, "lora recomputed", True),
]
"""Models and passes alternate, so that each pair of them occurs."""


@pytest.mark.parametrize(("model", "settings", "tree"), CASES)
def test_plan_is_within_15_percent_of_what_training_allocates(model, settings, tree):
    case = Case(model, SETTINGS[settings], 40, 60, tree)
    plan, found = planned_peaks(case), measured_peaks(case)
    assert plan.scores == pytest.approx(found.scores, rel=0.15)
    assert plan.update == pytest.approx(found.update, rel=0.15)


def test_a_temperature_needs_no_more_memory():
    tempered = merged(SETTINGS["plain"], {"rollout": {"temperature": 0.7}})
    plain, found = (
        measured_peaks(Case(QWEN3, settings, 40, 60, False)) for settings in (SETTINGS["plain"], tempered)
    )
    assert found.scores == pytest.approx(plain.scores, rel=0.02)
    assert found.update == pytest.approx(plain.update, rel=0.02)


def test_activations_alone_are_within_15_percent():
    """Of a model with few weights and many tokens, in two sizes: their difference has no weights in it."""
    found, expected = [], []
    for reply in (60, 180):
        case = Case(LLAMA, SETTINGS["plain"], 40, reply, True)
        found.append(measured_peaks(case).update)
        expected.append(planned_peaks(case).update)
    assert expected[1] - expected[0] == pytest.approx(found[1] - found[0], rel=0.15)


@pytest.mark.parametrize(
    "passes_rows",
    [
        {"on_cuda": True},
        {"config": {"fsdp": True}, "devices": 2},
        {"config": {"update": {"gradient_checkpointing": True}}},
        {"has_kernel": False},
    ],
    ids=["GPU", "split weights", "recomputed layers", "no kernel"],
)
def test_trees_are_planned_only_where_they_are_passed(passes_rows, monkeypatch):
    """As `reads_trees` of the passes decides, of several whole processes as of one."""
    shape = shape_of(LLAMA)

    def how(on_cuda=False, config=None, devices=1, has_kernel=True):
        monkeypatch.setattr(training_memory, "has_kernel", lambda: has_kernel)
        config = TrainConfig(**(config or {}))
        return training_memory.arithmetic_of(config, shape, Device(GIB, on_cuda), devices)

    assert how().tree
    assert how(devices=2).tree
    assert how(config={"fsdp": True}).tree
    assert not how(**passes_rows).tree


@pytest.mark.parametrize("model", [LLAMA, QWEN3, Qwen2Config(**{**QWEN_3B, "num_hidden_layers": 1})])
def test_weights_are_counted_from_the_config(model):
    shape = shape_of(model)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(model)
    assert shape.parameters == sum(p.numel() for p in built.parameters())
    head = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    assert shape.head_parameters == head


def test_no_second_gradient_of_each_weight_exists_while_prompts_are_differentiated():
    """Few tokens make an update small beside what learning keeps, also with all weights."""
    case = Case(QWEN3, SETTINGS["recomputed"], 4, 4)
    parts = planned(case).phases["update"]
    kept = sum(parts[name] for name in ("policy", "critic", "gradients", "optimizer", "logits"))
    assert measured_peaks(case).update < kept + 2 * shape_of(QWEN3).trunk_parameters


def test_adapters_share_one_base():
    both, one = (
        on_gpu(None, 80)(paper({"lora": LORA, "advantage": {"estimator": name}})) for name in ("gae", "grpo")
    )
    assert both.phases["update"]["critic"] < both.phases["update"]["policy"] / 50
    assert one.phases["update"]["critic"] == 0
    assert both.phases["update"]["reference"] == 0


def test_fsdp_divides_what_is_learned_among_devices():
    config = paper({"fsdp": True})
    alone, four = on_gpu(None, 80)(config), on_gpu(None, 80, devices=4)(config)
    assert four.phases["step"]["optimizer"] == alone.phases["step"]["optimizer"] // 4
    assert four.total("update") < alone.total("update") / 2


def test_a_split_policy_is_whole_only_where_it_generates():
    shape = shape_of(Qwen2Config(**QWEN_3B))
    policies = [
        plan_memory(
            paper({"fsdp": True, "engine": engine}), shape, LENGTHS, Device(80 * GIB, True),
            devices=4, own_engine=own,
        ).phases["update"]["policy"]
        for engine, own in (("transformers", False), ("vllm-server", False), ("vllm-server", True))
    ]  # fmt: skip
    assert policies[0] - policies[1] == 4 * shape.parameters
    assert policies[2] == policies[0]


def test_chosen_micro_batches_are_the_largest_that_fit():
    config = paper({"lora": LORA})
    tokens = [fitted(config, on_gpu(None, gib)).update.micro_batch_tokens for gib in (11, 12, 13)]
    assert tokens == sorted(set(tokens))
    for gib, chosen in zip((11, 12, 13), tokens, strict=True):
        sizes = [{"update": {"max_tokens_per_micro_batch": chosen + n}} for n in (0, LENGTHS.whole)]
        plans = [on_gpu(None, gib)(paper({"lora": LORA}, size)) for size in sizes]
        assert chosen < 16384
        assert [plan.fits for plan in plans] == [True, False]


def test_more_tokens_than_usual_are_chosen_where_they_leave_some_memory_free():
    config = paper({"lora": LORA})
    tokens = [fitted(config, on_gpu(None, gib)).update.micro_batch_tokens for gib in (20, 24, 80)]
    assert 16384 < tokens[0] < tokens[1] < tokens[2] == 65536
    plan = on_gpu(None, 24)(fitted(config, on_gpu(None, 24)))
    assert 0.75 * plan.device.memory < plan.least["update"] < 0.85 * plan.device.memory


def test_layers_are_recomputed_only_where_passes_would_be_small_without():
    auto = paper({"lora": LORA}, {"update": {"gradient_checkpointing": "auto"}})
    chosen = [fitted(auto, on_gpu(None, gib)).update for gib in (20, 24, 40, 80)]
    again = [update.gradient_checkpointing for update in chosen]
    assert again == sorted(again, reverse=True)
    assert again[0] is True
    assert again[-1] is False
    assert all(update.micro_batch_tokens >= 8192 for update in chosen)
    few = paper({"lora": LORA}, {"update": {"max_tokens_per_micro_batch": 2048}}, KEPT)
    few = few.model_copy(update={"update": few.update.model_copy(update={"gradient_checkpointing": "auto"})})
    assert fitted(few, on_gpu(None, 20)).update.gradient_checkpointing is False
    for given in (RECOMPUTED, KEPT):
        kept = fitted(paper({"lora": LORA}, given), on_gpu(None, 40)).update
        assert kept.gradient_checkpointing is given["update"]["gradient_checkpointing"]


def test_a_cpu_recomputes_layers_only_where_nothing_fits_without():
    shape = shape_of(Qwen2Config(**QWEN_3B))

    def recomputes(gib):
        device = Device(gib * GIB, False)
        auto = paper({"lora": LORA}, {"update": {"gradient_checkpointing": "auto"}})
        found = fitted(auto, lambda c: plan_memory(c, shape, LENGTHS, device, own_engine=True))
        assert found.update.max_tokens_per_micro_batch == 16384
        return found.update.gradient_checkpointing

    assert recomputes(20)
    assert not recomputes(200)


def test_what_is_recomputed_anyway_is_no_advice():
    config = paper({"update": {"gradient_checkpointing": "auto"}})
    refused = refusal(config, on_gpu(config, 24))
    assert "would fit with lora.rank=64" in refused
    assert "gradient_checkpointing" not in refused


def test_a_given_size_is_kept_and_a_cpu_takes_the_default():
    given = paper({"update": {"max_tokens_per_micro_batch": 5000}})
    assert fitted(given, on_gpu(None, 8)).update.max_tokens_per_micro_batch == 5000
    shape = shape_of(LLAMA)
    found = fitted(paper(), lambda c: plan_memory(c, shape, LENGTHS, Device(1, False), own_engine=True))
    assert found.update.max_tokens_per_micro_batch == 16384


def test_a_run_that_does_not_fit_is_told_what_would():
    config = paper(KEPT)
    refused = refusal(config, on_gpu(config, 24))
    assert re.search(r"needs .* GiB .*, but the GPU has 24\.0", refused)
    assert "lora.rank=64" in refused
    assert "\n" not in refused
    followed = paper({"lora": {"rank": 64, "alpha": 64}})
    assert refusal(followed, on_gpu(config, 24)) is None


def test_smaller_micro_batches_are_named_first():
    tokens = {"update": {"max_tokens_per_micro_batch": 16384}, "lora": LORA}
    config = paper(tokens)
    told = advice(config, on_gpu(config, 12))
    assert told.startswith("it would fit with update.max_tokens_per_micro_batch=")
    named = int(told.rpartition("=")[2])
    assert named == most_tokens(config, on_gpu(config, 12)) < 16384


@pytest.mark.parametrize("gib", [30, 100, 120])
def test_what_a_cpu_is_told_to_take_fits(gib):
    shape, device = shape_of(Qwen2Config(**QWEN_3B)), Device(gib * GIB, False)

    def planner(changed):
        return plan_memory(changed, shape, LENGTHS, device, own_engine=True)

    told = advice(paper(KEPT), planner)
    named = dict(word.split("=") for word in told.removeprefix("it would fit with ").split())
    rank = int(named.get("lora.rank", 0))
    followed = {
        "update": {
            "gradient_checkpointing": named.get("update.gradient_checkpointing") == "true",
            "max_tokens_per_micro_batch": int(named["update.max_tokens_per_micro_batch"]),
        },
        "lora": {"rank": rank, "alpha": rank} if rank else {},
    }
    assert planner(paper(followed)).fits


def test_too_many_episodes_are_named_where_nothing_else_helps(capsys):
    plan = ["train", "bandit", "--plan", "--device-memory", "1"]
    assert main([*plan, "rollout.group_size=4096"]) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert "lower rollout.group_size, evaluation.episodes or rollout.prompts_per_iteration" in told
    assert main([*plan, "rollout.group_size=16"]) == 0


def test_several_devices_are_told_to_shard_before_anything_changes_results():
    config = paper({"engine": "vllm-server"})
    planner = on_gpu(None, 40, devices=8)
    assert advice(config, planner) == "it would fit with fsdp=true"
    assert planner(paper({"engine": "vllm-server", "fsdp": True})).fits
    assert "fsdp" not in advice(config, on_gpu(None, 40))


def test_vllm_in_the_trainer_is_for_one_device():
    def remedies(devices):
        planner = on_gpu(None, 1, devices=devices)
        return {name for names, _ in _smaller(paper(), planner) for name in names}

    assert remedies(1) >= {"engine=vllm"}
    assert not remedies(1) & {"engine=vllm-server", "fsdp=true"}
    assert remedies(2) >= {"engine=vllm-server", "fsdp=true"}
    assert "engine=vllm" not in remedies(2)


def test_vllm_needs_room_for_one_conversation_only():
    config = paper({"engine": "vllm", "lora": LORA})
    shape = shape_of(Qwen2Config(**QWEN_3B))
    needs = MemoryNeeds(6 * GIB, 2 * GIB, wanted_cache=40 * GIB, least_cache=GIB)
    plan = plan_memory(config, shape, LENGTHS, Device(24 * GIB, True), vllm=needs)
    assert plan.fits
    assert GIB <= plan.phases["rollout"]["KV cache"] < needs.wanted_cache
    assert plan.total("rollout") <= 24 * GIB
    larger = paper({"engine": "vllm", "lora": LORA, "vllm": {"cache_gib": 20}})
    assert not plan_memory(larger, shape, LENGTHS, Device(24 * GIB, True), vllm=needs).fits


def test_keys_and_values_at_full_length_do_not_refuse_a_run():
    config = paper({"lora": LORA})
    shape = shape_of(Qwen2Config(**QWEN_3B))
    plan = plan_memory(config, shape, LENGTHS, Device(24 * GIB, True))
    assert plan.fits
    assert not plan.always_fits


def test_a_folder_needs_no_more_than_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN_3B))
    config = paper({"model": str(tmp_path)})
    sizes = Sizes(config, env_factory(config, None))
    assert sizes.shape == shape_of(Qwen2Config(**QWEN_3B))
    assert not sizes.has_tokenizer
    lengths = sizes.conversations(100)
    assert 0 < lengths.prompt < lengths.whole < sizes.conversations(200).whole


@pytest.mark.parametrize("shape", ["gemma3", "phi3"])
def test_tokens_that_end_a_turn_are_read_from_the_generation_config(shape, tmp_path):
    """Such models' tokenizers know another end, that of a text."""
    tokenizer = tokenizer_with(SHAPES[shape].template)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(QWEN_3B))
    stops = stops_of(tokenizer, SHAPES[shape])
    GenerationConfig(eos_token_id=[tokenizer.eos_token_id, *stops]).save_pretrained(tmp_path)
    config = paper({"model": str(tmp_path), "env_kwargs": {"max_turns": 3}})
    sizes = Sizes(config, env_factory(config, None))
    assert sizes.has_tokenizer
    assert sizes.conversations(100).rows == 1


def test_a_model_of_a_hub_whose_config_is_not_here():
    with pytest.raises(RagenError, match=r"hf:nobody/nothing.*config\.json is not on this machine"):
        read_config("hf:nobody/nothing")


GEMMA_3N = Gemma3nTextConfig(
    vocab_size=64, hidden_size=32, intermediate_size=[64, 96], num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, vocab_size_per_layer_input=64, hidden_size_per_layer_input=8,
    laurel_rank=4, layer_types=["full_attention"] * 2, num_kv_shared_layers=0,
    activation_sparsity_pattern=[0.0, 0.0],
)  # fmt: skip
"""Its layers differ in width, so the config has a list of widths."""


@pytest.mark.parametrize("model", [GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64), GEMMA_3N])
def test_other_architectures_are_left_to_try(model):
    with pytest.raises(UnknownShapeError, match=f"type {model.model_type} cannot be planned"):
        shape_of(model)


def test_all_processes_take_the_micro_batches_of_the_smallest_device(monkeypatch):
    """Each passes its share of the same micro-batches, so their devices must not choose differently."""
    config = TrainConfig(game=GAME, model=str(STARTER), rollout={"group_size": 4}, **KEPT)
    monkeypatch.setattr(planning, "this_device", lambda: Device(int(0.8 * GIB), True))
    small = Device(int(0.75 * GIB), True)
    monkeypatch.setattr(processes, "gather_object", lambda mine: [*mine, small.memory])
    planner = Sizes(config, env_factory(config, None)).on(small, 2)
    expected = fitted(config, planner).update.max_tokens_per_micro_batch
    two = SimpleNamespace(num_processes=2)
    found = planning.fitted_to_device(config, env_factory(config, None), two, own_engine=False)
    assert found.update.max_tokens_per_micro_batch == expected < 16384
    one = SimpleNamespace(num_processes=1)
    alone = planning.fitted_to_device(config, env_factory(config, None), one, own_engine=False)
    assert alone.update.max_tokens_per_micro_batch > expected


def test_processes_on_the_cpu_share_the_machine(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    alone = planning.this_device()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert planning.this_device() == Device(alone.memory // 4, False)


def test_scoring_passes_more_trajectories_together_than_an_optimizer_step():
    plans = [
        on_gpu(None, 80)(paper({"update": {"mini_batch_size": size, "max_tokens_per_micro_batch": 16384}}))
        for size in (2, 8)
    ]
    assert plans[0].total("scores") == plans[1].total("scores")
    assert plans[0].total("update") < plans[1].total("update")


def test_trainer_refuses_before_it_loads_a_model(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "this_device", lambda: Device(GIB // 2, True))
    monkeypatch.setattr("ragen_agents.starpo.trainer.load_policy", None)
    config = TrainConfig(game=GAME)
    with pytest.raises(RagenError, match=r"lower rollout\.max_tokens|would fit with"):
        Trainer(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_trainer_takes_the_plans_micro_batches(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "this_device", lambda: Device(int(0.8 * GIB), True))
    config = TrainConfig(game=GAME, model=str(STARTER), rollout={"group_size": 4}, **KEPT)
    trainer = Trainer(config, tmp_path / "run")
    trainer.close()
    assert 256 <= trainer.config.update.max_tokens_per_micro_batch < 16384
    assert trainer.learner.config == trainer.config
