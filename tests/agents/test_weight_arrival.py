"""What is sent of a model, adapters included, and how it is seen that it arrived."""

import copy
import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from fake_vllm_engine import sleeping_model  # noqa: E402

from ragen_agents.engines import EngineError  # noqa: E402
from ragen_agents.engines.vllm.engine import VllmEngine  # noqa: E402
from ragen_agents.engines.weights import (  # noqa: E402  # noqa: E402
    ArrivalCheck,
    check_sums,
    digests_of,
    named_weights,
    noted,
    sum_of,
)


def model_of(tied=True):
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).eval()


def adapted(model, **changes):
    torch.manual_seed(1)
    settings = {
        "r": 4,
        "lora_alpha": 12,
        "target_modules": "all-linear",
        "init_lora_weights": False,
    }
    return peft.get_peft_model(model, peft.LoraConfig(**{**settings, **changes})).eval()


@pytest.mark.parametrize("changes", [{}, {"target_modules": ["q_proj", "down_proj"]}, {"use_rslora": True}])
@pytest.mark.parametrize("tied", [True, False])
def test_adapters_are_merged_as_peft_merges_them(changes, tied):
    model = adapted(model_of(tied), **changes)
    sent = dict(named_weights(model))
    merged = copy.deepcopy(model).merge_and_unload()
    expected = {**dict(merged.named_parameters()), "lm_head.weight": merged.lm_head.weight}
    assert sent.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.allclose(sent[name], weight, atol=1e-6), name


def test_weights_are_made_one_at_a_time_and_the_model_stays(monkeypatch):
    model = adapted(model_of())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    monkeypatch.setattr(copy, "deepcopy", None)
    seen = 0
    for name, weight in named_weights(model, torch.bfloat16):
        assert weight.dtype == torch.bfloat16, name
        assert not weight.requires_grad
        seen += 1
    assert seen == 3 * 12 + 3
    assert all(weight.equal(before[name]) for name, weight in model.state_dict().items())


def test_a_hand_over_holds_one_new_tensor_at_a_time():
    """And the one before it, until vLLM asks for the next."""
    made = []

    def take(method, kwargs):
        assert method == "reload_weights"
        for _, weight in kwargs["weights_iterator"]:
            made.append(weakref.ref(weight))
            assert sum(one() is not None for one in made) <= 2
        raise RuntimeError("that is all")

    engine = VllmEngine(sleeping_model(SimpleNamespace(collective_rpc=take)), frozenset(), 8)
    with pytest.raises(EngineError, match="that is all"):
        engine.sync(adapted(model_of()), 1)
    assert len(made) == 3 * 12 + 3


def test_a_base_in_bfloat16_does_not_swallow_what_adapters_add():
    model = adapted(model_of().to(torch.bfloat16), init_lora_weights=True)
    before = dict(named_weights(model, torch.float32))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(1e-6)
    after = dict(named_weights(model, torch.float32))
    changed = {name for name, weight in after.items() if not weight.equal(before[name])}
    assert len(changed) == 3 * 7


def test_merged_layers_are_not_merged_twice():
    model = adapted(model_of())
    expected = {name: weight.clone() for name, weight in named_weights(model)}
    model.merge_adapter()
    for name, weight in named_weights(model):
        assert torch.allclose(weight, expected[name], atol=1e-6), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sum_sees_one_bit_and_no_layout(dtype):
    weight = torch.randn(64, 32).to(dtype)
    parts = sum_of(weight[:48]) + sum_of(weight[48:])
    padded = torch.cat([weight.T.flip(0), torch.zeros(5, 64, dtype=dtype)])
    assert sum_of(weight) % 2**64 == parts % 2**64
    assert sum_of(weight) == sum_of(padded)
    weight[3, 4] = torch.nextafter(weight[3, 4], torch.tensor(9.0, dtype=dtype))
    assert sum_of(weight) != sum_of(padded)


def sums_of(model):
    sums = {}
    for _ in noted(named_weights(model, torch.bfloat16), sums):
        pass
    return sums


def test_sums_name_what_is_stale():
    model = model_of()
    before = sums_of(model)
    tied = {place: value for place, value in before.items() if place != "lm_head.weight"}
    check_sums(before, tied, "1")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0].mul_(1.1)
    with pytest.raises(EngineError, match=r"version '1' of the weights was sent, .* in layer 1: "):
        check_sums(sums_of(model), tied, "1")
    with pytest.raises(EngineError, match="in all layers"):
        check_sums({}, {}, "1")


def told_by(weights, workers=("dp0:pp0:pcp0:tp0", "dp1:pp0:pcp0:tp0")):
    """What a server tells that holds some weights: joined ones under names of their own."""
    own = {n: d for n, d in weights.items() if "q_proj" not in n}
    joined = {"model.layers.0.self_attn.qkv_proj.weight": "?"}
    return {f"{worker}:{n}": d for worker in workers for n, d in {**own, **joined}.items()}


@pytest.mark.parametrize("vocabulary", [50, 64])
def test_digests_find_a_replica_that_was_left_behind(vocabulary):
    model, arrival = model_of(), ArrivalCheck()
    sent = digests_of(dict(named_weights(model, torch.bfloat16)), vocabulary)
    arrival.check(sent, told_by(sent), "0")
    stale = told_by(sent)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight).sign(), alpha=1e-5)
    sent = digests_of(dict(named_weights(model, torch.bfloat16)), vocabulary)
    arrival.check(sent, told_by(sent), "1")
    half = {k: v if k.startswith("dp0") else stale[k] for k, v in told_by(sent).items()}
    with pytest.raises(EngineError, match="holds others in dp1:"):
        arrival.check(sent, half, "1")


def test_digests_of_shards_must_change_with_the_weights():
    arrival, workers = ArrivalCheck(), ("dp0:pp0:pcp0:tp0", "dp0:pp0:pcp0:tp1")
    first, second = ({f"model.layers.{i}.mlp.up_proj.weight": f"{i}{k}" for i in range(2)} for k in "ab")
    arrival.check(first, told_by({n: f"part of {d}" for n, d in first.items()}, workers), "0")
    arrival.check(second, told_by({n: f"part of {d}" for n, d in second.items()}, workers), "1")
    with pytest.raises(EngineError, match="holds others in dp0:pp0:pcp0:tp0:layer 0"):
        arrival.check(first, told_by({n: f"part of {d}" for n, d in second.items()}, workers), "2")
