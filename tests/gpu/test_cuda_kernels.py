"""What only CUDA computes in its own way, against the plain computation: one line says which is wrong."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ragen_agents.engines.cpu import tree_pass  # noqa: E402
from ragen_agents.starpo.config import Update  # noqa: E402
from ragen_agents.starpo.update.learner import make_optimizer  # noqa: E402
from ragen_agents.starpo.update.output_head import chunked_logprobs, head_product  # noqa: E402
from ragen_agents.starpo.update.passes import (  # noqa: E402
    hidden_states,
    recompute_layers,
    states_before,
    trunk_of,
)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def gap(found, exact):
    """The error of a tensor, as a share of its size."""
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_head_rounds_operands_only_in_both_directions(kind, device):
    """Against float64, of the sizes of Qwen2.5-0.5B but for its vocabulary."""
    states, weight, given = (
        each.to(device) for each in (3 * drawn(300, 896), drawn(2000, 896), drawn(300, 2000))
    )
    states = states.to(getattr(torch, kind)).requires_grad_(True)
    weight.requires_grad_(True)
    with torch.autocast(device.type, torch.bfloat16):
        product = head_product(states, weight, weight.detach().bfloat16())
    (product * given).sum().backward()
    rounded = [each.detach().bfloat16().double() for each in (states, weight, given)]
    assert gap(product.detach(), rounded[0] @ rounded[1].T) < 1e-5
    assert gap(weight.grad, rounded[2].T @ rounded[0]) < 1e-5
    assert gap(states.grad, rounded[2] @ rounded[1]) < (1e-5 if kind == "float32" else 5e-3)
    exact = [each.detach().double() for each in (states, weight, given)]
    assert gap(product.detach(), exact[0] @ exact[1].T) < 5e-3
    assert gap(weight.grad, exact[2].T @ exact[0]) < 5e-3
    assert gap(states.grad, exact[2] @ exact[1]) < 5e-3


class Head:
    """The output head of a model, as large logits as a trained one's."""

    def __init__(self, device):
        self.weight = drawn(500, 64).to(device)
        self.bias = None
        self.config = transformers.LlamaConfig()

    def get_output_embeddings(self):
        return self


def test_logprobs_under_autocast_are_not_rounded_where_float32_is_not_asked_for(cuda, device):
    head, states = Head(device), (2 * drawn(5000, 64)).to(device)
    targets = torch.arange(5000, device=device) % 500
    logits = states.bfloat16().double() @ head.weight.bfloat16().double().T
    exact = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    with torch.autocast("cuda", torch.bfloat16):
        found, _ = chunked_logprobs(head, states, targets, 1.0)
    assert float((found - exact).abs().max()) < 1e-3


def test_the_optimizer_takes_the_steps_of_a_cpu(device):
    """On CUDA in one kernel, with weights that decay and weights that do not."""
    changed = []
    for place in (torch.device("cpu"), device):
        weights = [torch.nn.Parameter(drawn(*shape).to(place)) for shape in ((30, 40), (50,))]
        optimizer = make_optimizer(weights, 1e-2, Update(weight_decay=0.1))
        for step in range(3):
            for weight in weights:
                weight.grad = (drawn(*weight.shape) * (step + 1)).to(place)
            optimizer.step()
        assert all(group["fused"] is (place.type == "cuda" or None) for group in optimizer.param_groups)
        changed.append([weight.detach().cpu() for weight in weights])
    for ours, theirs in zip(*changed, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_kernel_of_packed_rows_is_there_and_right(cuda):
    """Else rows are passed with a mask, and no result shows it."""
    assert torch.cuda.get_device_capability() >= (8, 0)
    assert tree_pass.has_packed_kernel()


def shaped_like_qwen():
    """Two layers with the heads of Qwen2.5-0.5B: fourteen that share two keys."""
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        hidden_size=896, intermediate_size=512, num_hidden_layers=2, num_attention_heads=14,
        num_key_value_heads=2, vocab_size=500, initializer_range=0.05,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def rows_of_two_groups():
    """Four rows a group of two prompts, with padding on both sides."""
    ids = torch.randint(500, (8, 400), generator=torch.Generator().manual_seed(1))
    ids[:4, :100], ids[4:, :100] = ids[0, :100], ids[4, :100]
    ids[:, 10:60] = ids[0, 10:60]
    real = torch.ones_like(ids, dtype=torch.bool)
    real[4:, :10] = False
    for row in range(8):
        real[row, 400 - 35 * row :] = False
    chosen = real.clone()
    chosen[:, :100] = False
    return ids, real, chosen, 100


@pytest.mark.parametrize("recompute", [False, True])
def test_packed_rows_are_rounded_as_padded_rows_are(recompute, device):
    """States and gradients of a pass in bfloat16, against one in float32 on a CPU."""
    ids, real, chosen, start = rows_of_two_groups()

    def of_rows(trunk, ids, real, chosen, start):
        return hidden_states(trunk, ids, real, start)[:, :-1][chosen[:, 1:]]

    def passed(function, place, rounds):
        model = shaped_like_qwen().to(place)
        if recompute:
            recompute_layers(model)
        given = [each.to(place) for each in (ids, real, chosen)]
        with torch.autocast(place.type, torch.bfloat16, enabled=rounds):
            if place.type == "cuda" and rounds:
                assert tree_pass.reads_trees(trunk_of(model))
            states = function(trunk_of(model), *given, start)
        factors = torch.linspace(-1, 1, states.numel(), device=place).view_as(states)
        (states.float() * factors).sum().backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return states.detach().cpu().double(), torch.cat(gradients).cpu().double()

    exact = passed(of_rows, torch.device("cpu"), False)
    rows, packed = passed(of_rows, device, True), passed(states_before, device, True)
    for padded, ours, right in zip(rows, packed, exact, strict=True):
        assert gap(ours, right) < 1.5 * gap(padded, right) < 0.05
