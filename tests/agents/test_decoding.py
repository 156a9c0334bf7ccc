"""Decoding: the direct pass is the model's own, and nothing waits for the device between checks."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from training_runs import trainer  # noqa: E402

from ragen_agents.engines import TokenRequest  # noqa: E402
from ragen_agents.engines.cpu import decoding, forward  # noqa: E402
from ragen_agents.engines.cpu.decoding import Decoder  # noqa: E402
from ragen_agents.engines.cpu.engine import PrefixCache, TransformersEngine  # noqa: E402
from ragen_agents.engines.cpu.forward import LlamaForward, ModuleForward  # noqa: E402
from ragen_agents.engines.cpu.sampling import draw  # noqa: E402

VOCABULARY, END, PAD = 50, 1, 0
KINDS = ("llama", "mistral", "qwen2", "qwen3")
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.3,
    "sliding_window": None,
}  # fmt: skip


def model_of(kind):
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **SHAPE)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module")
def model():
    return model_of("llama")


def prompts(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 20, (count,), generator=generator).tolist()
    rules = list(range(2, 12))
    return [rules + torch.randint(2, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def played(decoder, batch):
    """Return the samples of two turns."""
    cache, seeds = PrefixCache(), list(range(len(batch)))
    first = cache.sample(decoder, batch, seeds)
    later = [p + s.ids + [2, 3, *p[:k]] for k, (p, s) in enumerate(zip(batch, first, strict=True))]
    return [*first, *cache.sample(decoder, later, seeds)]


def same(ours, theirs, gap=1e-5):
    assert [s.ids for s in ours] == [s.ids for s in theirs]
    assert [s.finish for s in ours] == [s.finish for s in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=gap, rel=1e-5)  # of float32


def adapted(model):
    peft = pytest.importorskip("peft")
    torch.manual_seed(4)
    settings = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    return peft.get_peft_model(copy.deepcopy(model), settings).eval()


@pytest.mark.parametrize("kind", [*KINDS, "adapters"])
def test_the_direct_pass_is_the_models_own(kind, monkeypatch):
    model = adapted(model_of("llama")) if kind == "adapters" else model_of(kind)
    direct = Decoder(model, frozenset({END}), PAD, 1.0, 12)
    ours = played(direct, prompts(9))
    assert isinstance(direct._forward, LlamaForward)
    monkeypatch.setattr(forward, "_KNOWN", frozenset())
    plain = Decoder(model, frozenset({END}), PAD, 1.0, 12)
    same(ours, played(plain, prompts(9)))
    assert isinstance(plain._forward, ModuleForward)


def test_a_model_that_does_something_else_is_passed_through_as_it_is(model):
    other = copy.deepcopy(model)
    other.model.layers[0].register_forward_hook(lambda _, __, states: states * 1.5)
    decoder = Decoder(other, frozenset({END}), PAD, 0.0, 4)
    prompt = prompts(1)[0]
    sample = decoder.run([prompt], [0])[0][0]
    assert isinstance(decoder._forward, ModuleForward)
    with torch.no_grad():
        logits = other(torch.tensor([prompt])).logits[0, -1]
    assert sample.ids[0] == int(logits.argmax())


class Waits(TorchDispatchMode):
    """Counts operations that would wait for a GPU, or copy to or from one."""

    NAMES = ("item", "_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "unique", "equal",
             "lift_fresh", "repeat_interleave")  # fmt: skip

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            isinstance(i, torch.Tensor) and i.dtype == torch.bool
            for a in args[1:2] if isinstance(a, (list, tuple)) for i in a
        )  # fmt: skip
        self.count += by_mask or any(name.startswith(n) for n in self.NAMES)
        return func(*args, **(kwargs or {}))


def waits_of(decoder, monkeypatch):
    waits = Waits()
    with monkeypatch.context() as patch, waits:
        for name in ("tolist", "cpu", "numpy"):
            plain = getattr(torch.Tensor, name)

            def counted(tensor, *arguments, plain=plain):
                waits.count += 1
                return plain(tensor, *arguments)

            patch.setattr(torch.Tensor, name, counted)
        played(decoder, prompts(9))
    return waits.count


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["direct", "module"])
@pytest.mark.parametrize("temperature", [0.6, 0.0])
def test_nothing_waits_for_the_device_between_checks(model, known, temperature, monkeypatch):
    monkeypatch.setitem(decoding._STEPS_BETWEEN_CHECKS, "cpu", 8)
    if not known:
        monkeypatch.setattr(forward, "_KNOWN", frozenset())
    counts = []
    for steps in (9, 9 + 32):
        decoder = Decoder(model, frozenset(), PAD, temperature, steps)
        decoder.run(prompts(2), [0, 1])  # compares the passes
        counts.append(waits_of(decoder, monkeypatch))
    assert 0 < counts[1] - counts[0] <= 2 * 32 // 8  # two turns, one look every eight steps


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_how_often_it_is_asked_who_is_open_changes_no_sample(model, temperature, monkeypatch):
    decoder = Decoder(model, frozenset({END, 7}), PAD, temperature, 30)
    each = played(decoder, prompts(12))
    assert {sample.finish for sample in each} == {"stop", "length"}
    monkeypatch.setitem(decoding._STEPS_BETWEEN_CHECKS, "cpu", 8)
    same(each, played(decoder, prompts(12)))


@pytest.mark.parametrize("size", [1, 7, 997, 2432])
def test_a_draw_inverts_the_cumulative_distribution(size):
    generator = torch.Generator().manual_seed(size)
    logits = 4 * torch.randn(500, size, generator=generator)
    draws = torch.rand(500, dtype=torch.float64, generator=generator)
    draws[:2] = torch.tensor([0.0, 1 - 1e-16])
    found = draw(logits, draws, 0.7)
    logs = (logits.double() / 0.7).log_softmax(-1)
    ends = logs.exp().cumsum(-1)
    expected = (ends > draws[:, None] * ends[:, -1:]).to(torch.uint8).argmax(-1)
    assert float((found.tokens == expected).double().mean()) > 0.99  # the others round differently
    chosen = logs.gather(1, found.tokens[:, None])[:, 0]
    assert found.logprobs.double() == pytest.approx(chosen, abs=1e-5)


def test_entropies_are_exact_where_the_model_computes_in_bfloat16():
    logits = 20 + torch.randn(50, 997, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        found = draw(logits, torch.full((50,), 0.5, dtype=torch.float64), 1.0)
    logs = logits.double().log_softmax(-1)
    expected = -(logs.exp() * logs).sum(-1)
    assert found.entropies.dtype == torch.float32
    assert found.entropies.double() == pytest.approx(expected, abs=1e-4)


def completions(model, precision):
    engine = TransformersEngine(model, frozenset({END}), PAD, 12, precision)
    engine.submit([TokenRequest(k, p, k, 1.0) for k, p in enumerate(prompts(9))])
    return engine.poll()


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "adapters"])
def test_rollouts_in_bfloat16_are_those_of_autocast(model, lora):
    trained = adapted(model) if lora else copy.deepcopy(model)
    needed = [weight.requires_grad for weight in trained.parameters()]
    found = completions(trained, torch.bfloat16)
    assert [weight.requires_grad for weight in trained.parameters()] == needed
    assert all(weight.dtype == torch.float32 for weight in trained.parameters())
    gaps = []
    for completion, prompt in zip(found, prompts(9), strict=True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = trained(torch.tensor([prompt + completion.ids])).logits[0].float()
        logs = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        own = logs.gather(1, torch.tensor(completion.ids)[:, None])[:, 0]
        gaps += (own - torch.tensor(completion.logprobs)).abs().tolist()
    assert 0 < sum(gaps) / len(gaps) < 0.1


def replies(engine):
    engine.submit([TokenRequest(k, p, k, 1.0) for k, p in enumerate(prompts(9))])
    return sorted((c.key, c.ids, c.logprobs) for c in engine.poll())


def test_a_run_rolls_out_in_its_own_precision(tiny, tmp_path):
    own = {"model": str(tiny), "update": {"precision": "bfloat16"}}
    one = trainer(tmp_path / "run", own)
    stops, most = one.codec.stop_token_ids, one.config.rollout.max_tokens
    rounded, plain = (
        replies(TransformersEngine(one.learner.models.policy, stops, PAD, most, precision))
        for precision in (torch.bfloat16, None)
    )
    assert replies(one.engine) == rounded != plain


class Casts(TorchDispatchMode):
    """Counts casts of weights."""

    def __init__(self, model):
        super().__init__()
        self.weights = {weight.data_ptr() for weight in model.parameters() if weight.dim() > 1}
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("to", "_to_copy") and result.dtype != args[0].dtype:
            self.count += args[0].data_ptr() in self.weights
        return result


def test_weights_are_cast_once_for_all_steps_frozen_ones_too(model):
    trained = adapted(model)
    counts = []
    for steps in (2, 10):
        decoder = Decoder(trained, frozenset(), PAD, 1.0, steps, torch.bfloat16)
        decoder.run(prompts(2), [0, 1])
        with Casts(trained) as casts:
            decoder.run(prompts(2), [0, 1])
        counts.append(casts.count)
    assert counts[0] == counts[1] > 0
