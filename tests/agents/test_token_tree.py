"""Passes over trees of tokens: the same numbers as passes over rows, from fewer tokens."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from ragen_agents.engines.cpu import tree_pass  # noqa: E402
from ragen_agents.engines.cpu.token_tree import TokenTree  # noqa: E402
from ragen_agents.starpo.update import passes  # noqa: E402
from ragen_agents.starpo.update.models import ActorCritic  # noqa: E402
from ragen_agents.starpo.update.output_head import token_scores  # noqa: E402
from ragen_agents.starpo.update.passes import (  # noqa: E402
    hidden_states,
    recompute_layers,
    states_before,
    trunk_of,
)

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 50, "initializer_range": 0.3,
}  # fmt: skip
FAMILIES = {
    "Llama": {"attention_bias": True},
    "Mistral": {"sliding_window": None},
    "Qwen2": {},
    "Qwen3": {"head_dim": 16},
}


def random_model(family, **more):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **FAMILIES.get(family, {}), **more})
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def aligned(prompts, rests):
    """Return rows as the trainer lays them: prompts end at the same column."""
    start, after = max(map(len, prompts)), max(map(len, rests))
    ids = torch.zeros(len(prompts), start + after, dtype=torch.int64)
    real = torch.zeros_like(ids, dtype=torch.bool)
    for row, (prompt, rest) in enumerate(zip(prompts, rests, strict=True)):
        first, end = start - len(prompt), start + len(rest)
        ids[row, first:end] = torch.tensor([*prompt, *rest])
        real[row, first:end] = True
    return ids, real, start


def some_rows():
    """Rows of prompts of three lengths that begin alike, two of them equal, and one without a reply."""
    draw = np.random.default_rng(0).integers
    rules = draw(50, size=9).tolist()
    prompts = [[*rules, *draw(50, size=n).tolist()] for n in (4, 7, 5)]
    rests = [draw(50, size=n).tolist() for n in (3, 12, 11, 2)]
    return aligned([prompts[k] for k in (0, 1, 2, 0, 1, 0)], [rests[k] for k in (0, 1, 2, 3, 1)] + [[]])


def chosen_of(real, start):
    chosen = real.clone()
    chosen[:, :start] = False
    return chosen


def of_rows(trunk, ids, real, chosen, start):
    return hidden_states(trunk, ids, real, start)[:, :-1][chosen[:, 1:]]


TOKENS = st.lists(st.integers(1, 3), max_size=6)


@settings(max_examples=100)
@given(rows=st.lists(st.tuples(TOKENS.filter(bool), TOKENS), min_size=1, max_size=6))
def test_a_tree_holds_every_row_and_nothing_twice(rows):
    ids, real, start = aligned(*map(list, zip(*rows, strict=True)))
    tree = TokenTree.of(ids, real, start)
    assert torch.equal(tree.ids[tree.places[real]], ids[real])
    expected = real.cumsum(1) - 1
    assert torch.equal(tree.positions[tree.places[real]], expected[real])
    assert set(tree.places[real].tolist()) == set(range(len(tree.ids)))
    beginnings = {}
    for places, here, (prompt, rest) in zip(tree.places, real, rows, strict=True):
        row = [*prompt, *rest]
        for position, place in enumerate(places[here].tolist()):
            assert beginnings.setdefault(place, row[: position + 1]) == row[: position + 1]


def test_rows_share_rules_prompts_and_replies():
    tree = TokenTree.of(*some_rows())
    assert len(tree.ids) == 9 + 4 + 7 + 5 + 3 + 12 + 11 + 2


@pytest.mark.parametrize("adapters", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_of_rows(family, adapters):
    model = random_model(family)
    if adapters:
        config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        model = peft.get_peft_model(model, config)
    ids, real, start = some_rows()
    chosen, trunk = chosen_of(real, start), trunk_of(model)
    found = []
    for function in (of_rows, states_before):
        states = function(trunk, ids, real, chosen, start)
        weights = torch.linspace(-1, 1, states.numel()).view_as(states)
        (states * weights).sum().backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        model.zero_grad(set_to_none=True)
        found.append((states.detach(), gradients))
    (rows, of_the_rows), (tree, of_the_tree) = found
    assert torch.allclose(rows, tree, atol=1e-4)
    assert of_the_rows.keys() == of_the_tree.keys()
    for name, gradient in of_the_rows.items():
        assert torch.allclose(gradient, of_the_tree[name], rtol=1e-3, atol=1e-3), name


def test_the_model_reads_each_token_once():
    model = random_model("Llama")
    ids, real, start = some_rows()
    read = []
    trunk_of(model).layers[0].mlp.register_forward_hook(lambda *given: read.append(given[1][0].shape))
    states_before(trunk_of(model), ids, real, chosen_of(real, start), start)
    assert read == [(53, 32)]


def test_bfloat16_rounds_a_tree_as_it_rounds_rows():
    model = random_model("Llama", initializer_range=0.05)
    ids, real, start = some_rows()
    given = (trunk_of(model), ids, real, chosen_of(real, start), start)
    with torch.no_grad():
        exact = states_before(*given)
        with torch.autocast("cpu", torch.bfloat16):
            rows, tree = of_rows(*given), states_before(*given)
    assert (rows - exact).abs().mean() > 0
    assert (tree - exact).abs().mean() < 1.5 * (rows - exact).abs().mean()


def test_the_nodes_of_a_packed_tree_see_the_rows_that_end_with_them():
    ids, real, start = some_rows()
    tree = TokenTree.of(ids, real, start)
    packed = tree_pass.Packed.of(tree)
    paths = packed.seen.tensor_split(packed.key_starts[1:-1].tolist())
    nodes = torch.arange(len(tree.ids)).tensor_split(packed.query_starts[1:-1].tolist())
    assert (packed.longest_node, packed.longest_path) == (12, 9 + 7 + 12)
    for node, path in zip(nodes, paths, strict=True):
        assert torch.equal(path[-len(node) :], node)
        assert torch.equal(tree.positions[path], torch.arange(len(path)))
    rows = {tuple(places[here].tolist()) for places, here in zip(tree.places, real, strict=True)}
    assert rows <= {tuple(path.tolist()) for path in paths}


def one_node_after_another(query, keys, values, packed, scaling):
    """What the kernel of CUDA does with packed nodes: causal masks that end with their sequences."""
    queries = query.tensor_split(packed.query_starts[1:-1].tolist())
    ends = packed.key_starts[1:-1].tolist()
    attended = []
    for q, k, v in zip(queries, keys.tensor_split(ends), values.tensor_split(ends), strict=True):
        mask = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        heads = (each.transpose(0, 1)[None] for each in (q, k, v))
        found = torch.nn.functional.scaled_dot_product_attention(
            *heads, attn_mask=mask, scale=scaling, enable_gqa=True
        )
        attended.append(found[0].transpose(0, 1))
    return torch.cat(attended)


def of_packed(trunk, ids, real, chosen, start):
    before = torch.nn.functional.pad(chosen[:, 1:], (0, 1))
    return tree_pass.tree_states(trunk, ids, real, start, before)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_packed_tree_is_rounded_as_rows_are(family, recompute, monkeypatch):
    """In states and gradients, with layers that keep what they computed and that compute it again."""
    monkeypatch.setattr(tree_pass, "_attend_packed", one_node_after_another)
    monkeypatch.setattr(
        tree_pass,
        "_attention_in",
        lambda tree: partial(tree_pass.packed_attention, tree_pass.Packed.of(tree)),
    )
    model = random_model(family, initializer_range=0.05)
    if recompute:
        recompute_layers(model)
    ids, real, start = some_rows()
    given = (trunk_of(model), ids, real, chosen_of(real, start), start)

    def passed(function):
        states = function(*given)
        (states.float() * torch.linspace(-1, 1, states.numel()).view_as(states)).sum().backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        model.zero_grad(set_to_none=True)
        return states.detach(), torch.cat(gradients)

    exact = passed(of_rows)
    with torch.autocast("cpu", torch.bfloat16):
        rows, packed = passed(of_rows), passed(of_packed)
    for one, other, right in zip(rows, packed, exact, strict=True):
        assert 0 < (other - right).norm() < 1.5 * (one - right).norm() < 0.05 * right.norm()


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Gemma", {"head_dim": 16}),
        ("Mistral", {"sliding_window": 8}),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}),
        ("Llama", {"attn_implementation": "eager"}),
    ],
)  # fmt: skip
def test_other_models_pass_rows(family, more, monkeypatch):
    model = random_model(family, **more)
    monkeypatch.setattr(passes, "tree_states", None)
    ids, real, start = some_rows()
    chosen = chosen_of(real, start)
    states = states_before(trunk_of(model), ids, real, chosen, start)
    assert torch.equal(states, of_rows(trunk_of(model), ids, real, chosen, start))


def test_layers_that_are_computed_again_pass_rows(monkeypatch):
    model = random_model("Llama")
    recompute_layers(model)
    monkeypatch.setattr(passes, "tree_states", None)
    ids, real, start = some_rows()
    assert len(states_before(trunk_of(model), ids, real, chosen_of(real, start), start)) == 40


@pytest.mark.parametrize("fault", ["missing", "other", "raising"])
def test_without_the_kernel_models_pass_rows(fault, monkeypatch):
    """It is not of PyTorch's public interface, so another version may have it otherwise."""

    def attend(query, part, scaling):
        if fault == "missing":
            return torch.ops.aten.no_such_kernel(query)
        if fault == "raising":
            raise RuntimeError("another signature")
        return query * 0, query[..., 0] * 0

    monkeypatch.setattr(tree_pass, "_attend", attend)
    tree_pass.has_kernel.cache_clear()
    monkeypatch.setattr(passes, "tree_states", None)
    model = random_model("Llama")
    ids, real, start = some_rows()
    try:
        assert len(states_before(trunk_of(model), ids, real, chosen_of(real, start), start)) == 40
    finally:
        tree_pass.has_kernel.cache_clear()


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu", torch.bfloat16)]
)
def test_the_kernel_is_found_in_every_context(context):
    tree_pass.has_kernel.cache_clear()
    with context():
        assert tree_pass.has_kernel()


def test_scores_of_a_critic_of_its_own_are_those_of_rows(monkeypatch):
    models = ActorCritic(random_model("Qwen2"), "separate", 0.7)
    torch.nn.init.normal_(models.value_head.weight)
    ids, real, start = some_rows()
    chosen = chosen_of(real, start)
    tree = models(ids, real, chosen, start)
    monkeypatch.setattr(passes, "reads_trees", lambda trunk: False)
    rows = models(ids, real, chosen, start)
    for name in ("logprobs", "entropies", "values"):
        assert torch.allclose(getattr(tree, name), getattr(rows, name), atol=1e-4), name


def test_token_scores_are_those_of_autograd():
    drawn = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 7, dtype=torch.float64, generator=drawn, requires_grad=True)
    targets = torch.tensor([0, 6, 3, 3, 1])
    logs = logits.log_softmax(-1)
    logprobs, entropies = token_scores(logits, targets)
    assert torch.allclose(logprobs, logs.gather(1, targets[:, None])[:, 0])
    assert torch.allclose(entropies, -(logs.exp() * logs).sum(-1))
    for chosen in (lambda found: found, lambda found: found[0], lambda found: found[1]):
        assert torch.autograd.gradcheck(lambda x, c=chosen: c(token_scores(x, targets)), (logits,))


def test_entropies_are_not_rounded_under_autocast():
    logits = torch.randn(64, 200, generator=torch.Generator().manual_seed(0)) * 3
    targets = torch.zeros(64, dtype=torch.int64)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = token_scores(logits, targets)[1]
    assert torch.allclose(rounded, token_scores(logits, targets)[1], atol=1e-5)
