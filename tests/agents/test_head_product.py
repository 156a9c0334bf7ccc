"""The output head on a GPU: bfloat16 operands, and sums that nothing rounds."""

import pytest

torch = pytest.importorskip("torch")

from ragen_agents.starpo.update.output_head import head_product  # noqa: E402


def operands(rows=24, width=96, vocabulary=200):
    drawn = torch.Generator().manual_seed(0)
    states = 3.0 * torch.randn(rows, width, generator=drawn)
    weight = torch.randn(vocabulary, width, generator=drawn)
    return states, weight, torch.randn(rows, vocabulary, generator=drawn)


def gap(found, exact):
    """The error of a tensor, as a share of its size."""
    return float((found.double() - exact).norm() / exact.norm())


def test_operands_are_rounded_and_sums_are_not():
    states, weight, _ = operands()
    exact = states.bfloat16().double() @ weight.bfloat16().double().T
    with torch.autocast("cpu", torch.bfloat16):
        found = head_product(states, weight, weight.bfloat16())
        rounded = torch.nn.functional.linear(states, weight)
    assert found.dtype == torch.float32
    assert gap(found, exact) < 1e-6 < 1e-3 < gap(rounded, exact)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_an_exact_product_up_to_rounded_operands(kind):
    states, weight, given = operands()
    states = states.to(kind).requires_grad_(True)
    weight.requires_grad_(True)
    exact = [each.detach().double().requires_grad_(True) for each in (states, weight)]
    (exact[0] @ exact[1].T * given.double()).sum().backward()
    with torch.autocast("cpu", torch.bfloat16):
        product = head_product(states, weight, weight.detach().bfloat16())
    (product * given).sum().backward()
    assert states.grad.dtype == kind
    assert weight.grad.dtype == torch.float32
    for found, expected in zip((states, weight), exact, strict=True):
        assert gap(found.grad, expected.grad) < 5e-3
    of_weight = given.bfloat16().double().T @ states.detach().bfloat16().double()
    assert gap(weight.grad, of_weight) < 1e-6


def test_a_frozen_head_gets_no_gradient():
    states, weight, given = operands()
    states.requires_grad_(True)
    (head_product(states, weight, weight.bfloat16()) * given).sum().backward()
    assert weight.grad is None
    assert states.grad is not None
