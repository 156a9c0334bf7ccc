"""The transformers engine: what it samples, and that keeping keys and values changes nothing."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from ragen_agents.engines import TokenRequest  # noqa: E402
from ragen_agents.engines.cpu import forward  # noqa: E402
from ragen_agents.engines.cpu.decoding import Decoder  # noqa: E402
from ragen_agents.engines.cpu.engine import PrefixCache, TransformersEngine  # noqa: E402

VOCABULARY, END, PAD = 50, 1, 0


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).eval()


def prompts(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 20, (count,), generator=generator).tolist()
    return [torch.randint(2, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def engine_of(model):
    return TransformersEngine(model, frozenset({END}), PAD, 12)


def answers(engine, requests):
    engine.submit(requests)
    return {completion.key: completion for completion in engine.poll()}


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_those_of_a_plain_forward_pass(model, temperature):
    decoder = Decoder(model, frozenset({END}), PAD, temperature, 30)
    given = [*prompts(5), *prompts(5)]
    samples, _ = decoder.run(given, list(range(10)))
    assert {sample.finish for sample in samples} == {"stop", "length"}
    for prompt, sample in zip(given, samples, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + sample.ids])).logits[0] / temperature
        logs = torch.log_softmax(logits, -1)
        expected = [float(logs[len(prompt) + i - 1, t]) for i, t in enumerate(sample.ids)]
        assert sample.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_row_depends_on_its_prompt_and_seed_alone(model):
    decoder = Decoder(model, frozenset({END}), PAD, 1.0, 12)
    given = prompts(8)
    together, _ = decoder.run(given, list(range(8)))
    for i in reversed(range(8)):
        alone, _ = decoder.run([given[i]], [i])
        assert alone[0].ids == together[i].ids
    other, _ = decoder.run(given, list(range(100, 108)))
    assert [s.ids for s in other] != [s.ids for s in together]


def test_members_of_a_group_differ(model):
    decoder = Decoder(model, frozenset({END}), PAD, 1.0, 12)
    samples, _ = decoder.run([prompts(1)[0]] * 6, list(range(6)))
    assert len({tuple(sample.ids) for sample in samples}) > 3


def test_samples_follow_the_distribution(model):
    prompt = prompts(1)[0]
    decoder = Decoder(model, frozenset({END}), PAD, 1.0, 1)
    samples, _ = decoder.run([prompt] * 4000, list(range(4000)))
    found = torch.bincount(torch.tensor([s.ids[0] for s in samples]), minlength=VOCABULARY) / 4000
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor([prompt])).logits[0, -1], -1)
    assert float((found - expected).abs().sum()) < 0.15


def test_greedy_decoding_takes_the_likeliest(model):
    decoder = Decoder(model, frozenset({END}), PAD, 0.0, 12)
    prompt = prompts(1)[0]
    sample = decoder.run([prompt], [5])[0][0]
    expected = model.generate(
        torch.tensor([prompt]),
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    assert sample.ids == expected[0, len(prompt) :].tolist()


def test_later_turns_reuse_what_was_read(model):
    kept = engine_of(model)
    requests = [TokenRequest(k, p, k, 1.0) for k, p in enumerate(prompts(9))]
    for turn in range(4):
        found = answers(kept, requests)
        fresh = answers(engine_of(model), requests)
        for key, completion in found.items():
            assert completion.ids == fresh[key].ids
            assert completion.logprobs == pytest.approx(fresh[key].logprobs, abs=1e-4)
        requests = [
            TokenRequest(r.key, [*r.ids, *found[r.key].ids, *bridge], 100 * turn + r.key, 1.0)
            for r, bridge in zip(requests, prompts(9, seed=turn), strict=False)
            if r.key % 4 != turn  # some episodes end
        ]
        if turn == 0:
            requests.reverse()


class CountingDecoder:
    """A decoder that notes how many tokens it had to read."""

    reads_in_parts = True

    def __init__(self, model):
        self.decoder = Decoder(model, frozenset({END}), PAD, 1.0, 12)
        self.read = []

    def run(self, chunks, seeds, past=None):
        self.read.append(sum(map(len, chunks)))
        return self.decoder.run(chunks, seeds, past)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_the_prefix_cache_changes_no_sample_whatever_was_read_before(model, data):
    token = st.integers(2, 5)  # few, so that beginnings are shared by chance too
    text = st.lists(token, min_size=1, max_size=9)
    decoder, cache = CountingDecoder(model), PrefixCache()
    fresh = Decoder(model, frozenset({END}), PAD, 1.0, 12)
    given_before = []
    for turn in range(3):
        known = [p[: data.draw(st.integers(0, len(p)))] for p in given_before]
        parts = st.sampled_from([[], *known])
        batch = data.draw(st.lists(st.tuples(parts, text).map(lambda t: t[0] + t[1]), min_size=1, max_size=6))
        seeds = [100 * turn + i for i in range(len(batch))]
        found, expected = cache.sample(decoder, batch, seeds), fresh.run(batch, seeds)[0]
        assert [s.ids for s in found] == [s.ids for s in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        given_before = [p + s.ids for p, s in zip(batch, found, strict=True)]


def test_the_prefix_cache_reads_only_what_is_new(model):
    decoder, cache = CountingDecoder(model), PrefixCache()
    batch = prompts(7)
    for turn in range(3):
        samples = cache.sample(decoder, batch, list(range(7)))
        if turn:
            assert decoder.read[-1] == 7 * 4  # the last token of each reply, and the bridge
        batch = [p + s.ids + [2, 3, turn + 2] for p, s in zip(batch, samples, strict=True)][::-1]
    cache.clear()
    cache.sample(decoder, batch, list(range(7)))
    assert decoder.read[-1] == sum(map(len, batch))


def test_what_has_little_in_common_with_the_prefix_cache_is_read_afresh(model):
    decoder, cache = CountingDecoder(model), PrefixCache()
    cache.sample(decoder, [[2, 3, *p] for p in prompts(5)], list(range(5)))
    other = [[2, 3, *range(4, 30), 40 + i] for i in range(5)]  # rules of their own, read once
    cache.sample(decoder, other, list(range(5)))
    assert decoder.read[-1] == sum(map(len, other))


def test_the_rules_that_all_prompts_begin_with_are_read_once(model):
    rules = list(range(2, 32))
    decoder = Decoder(model, frozenset({END}), PAD, 1.0, 1)
    decoder.run([[2, 3]], [0])  # compares the passes
    read = []
    hook = model.model.embed_tokens.register_forward_hook(lambda _, ids, __: read.append(ids[0].numel()))
    decoder.run([[*rules, 40 + i, 41] for i in range(6)], list(range(6)))
    hook.remove()
    assert sum(read) == len(rules) + 6 * 2


def test_what_all_prompts_begin_with_is_kept_once(model, monkeypatch):
    rules = list(range(2, 32))
    batch = [[*rules, 40 + i, *range(2, 4 + i)] for i in range(6)]
    seeds = list(range(6))
    shared, repeated = PrefixCache(), PrefixCache()
    decoder, plain = (Decoder(model, frozenset({END}), PAD, 1.0, 12) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(forward, "_KNOWN", frozenset())
        _, past = plain.run(batch, seeds)  # by the model's own pass, from now on
    assert not past.common_count
    _, past = decoder.run(batch, seeds)
    assert past.common_count == len(rules)
    for turn in range(3):
        found = shared.sample(decoder, batch, seeds)
        expected = repeated.sample(plain, batch, seeds)
        assert [s.ids for s in found] == [s.ids for s in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        batch = [p + s.ids + [2, 3, turn + 2] for p, s in zip(batch, found, strict=True)]
        # A new conversation shares the rules, but not all that the others begin with.
        batch[turn] = [*rules[: 25 - turn], 46, 47, 48, 49]


def test_a_prompt_that_was_changed_is_read_anew(model):
    engine = engine_of(model)
    answers(engine, [TokenRequest(0, [5, 6, 7], 0, 1.0)])
    changed = [TokenRequest(0, [9, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19], 1, 1.0)]
    assert answers(engine, changed)[0].ids == answers(engine_of(model), changed)[0].ids


def test_sync_forgets_what_the_old_weights_computed(model):
    changing = copy.deepcopy(model)
    engine = engine_of(changing)
    first = TokenRequest(0, prompts(1)[0], 0, 1.0)
    reply = answers(engine, [first])[0]
    with torch.no_grad():
        for weight in changing.parameters():
            weight.mul_(1.1)
    engine.sync(changing, 7)
    second = [TokenRequest(0, [*first.ids, *reply.ids, 4, 5], 1, 1.0)]
    found = answers(engine, second)[0]
    expected = answers(engine_of(changing), second)[0]
    assert found.version == 7
    assert found.ids == expected.ids
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


def test_nothing_queued_is_nothing_done(model):
    assert engine_of(model).poll() == []


def test_requests_of_several_temperatures_are_all_answered(model):
    prompt = prompts(1)[0]
    engine = engine_of(model)
    engine.submit([TokenRequest(k, prompt, k, (1.0, 0.0, 0.5)[k % 3]) for k in range(6)])
    found = {}
    while done := engine.poll():
        found |= {completion.key: completion for completion in done}
    for key, temperature in enumerate((1.0, 0.0, 0.5) * 2):
        decoder = Decoder(model, frozenset({END}), PAD, temperature, 12)
        assert found[key].ids == decoder.run([prompt], [key])[0][0].ids
    assert found[1].ids == found[4].ids


def test_a_window_of_attention_sees_tokens_and_no_padding():
    torch.manual_seed(5)
    config = transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3, sliding_window=16,
    )  # fmt: skip
    windowed = transformers.MistralForCausalLM(config).eval()
    rules = list(range(2, 22))
    short, long = [*rules, *range(5, 10)], [*rules, *range(10, 40)]
    decoder, cache = Decoder(windowed, frozenset(), PAD, 1.0, 8), PrefixCache()
    batch = [short, long]
    for seed in (0, 10):
        found = cache.sample(decoder, batch, [seed, seed + 1])
        for place, prompt in enumerate(batch):
            alone = decoder.run([prompt], [seed + place])[0][0]
            assert alone.ids == found[place].ids
        bridges = ([2, 3], [4] * 20)
        batch = [p + s.ids + b for p, s, b in zip(batch, found, bridges, strict=True)]
