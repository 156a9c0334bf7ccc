"""The output head: its product without rounding the result, and the scores of tokens in little memory."""

from typing import Any

import torch
from torch import Tensor


def head_product(states: Tensor, weight: Tensor, rounded: Tensor) -> Tensor:
    """Return ``states @ weight.T`` in float32, computed from bfloat16 operands.

    Autocast would round the result as well, and neighbouring bfloat16 numbers between 16 and 32 differ by
    0.125. A product in float32 takes about ten times as long on tensor cores.

    Args:
        states: (n, d).
        weight: (vocabulary, d), which receives the gradient.
        rounded: The weight in bfloat16, which several products share.

    Returns:
        (n, vocabulary).
    """
    product: Tensor = _HeadProduct.apply(states, weight, rounded)  # type: ignore[no-untyped-call]
    return product


class _HeadProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, rounded: Tensor) -> Tensor:
        """Return the product."""
        operand = states.bfloat16()
        ctx.save_for_backward(operand, rounded)
        ctx.types = states.dtype, weight.dtype
        return _summed_in_float32(operand, rounded.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of states and weight, summed in float32 from rounded operands."""
        operand, rounded = ctx.saved_tensors
        to_states, to_weight = ctx.types
        given = gradient.bfloat16()
        of_states = of_weight = None
        if ctx.needs_input_grad[0]:
            of_states = _summed_in_float32(given, rounded).to(to_states)
        if ctx.needs_input_grad[1]:
            of_weight = _summed_in_float32(given.T, operand).to(to_weight)
        return of_states, of_weight, None


def _summed_in_float32(left: Tensor, right: Tensor) -> Tensor:
    """Return the float32 product of two bfloat16 matrices."""
    with torch.autocast(left.device.type, enabled=False):
        if left.is_cuda:
            return torch.mm(left, right, out_dtype=torch.float32)
        return left.float() @ right.float()


def token_scores(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of targets and the entropies of their distributions, (n,) each, in nats.

    Args:
        logits: (n, vocabulary) float32.
        targets: (n,) token ids.
    """
    logprobs, entropies = _TokenScores.apply(logits, targets)  # type: ignore[no-untyped-call]
    return logprobs, entropies


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies."""
        ctx.set_materialize_grads(False)
        logs = logits.log_softmax(-1)
        # As a product of matrices, for vecdot makes one more tensor of this size.
        with torch.autocast(logs.device.type, enabled=False):
            entropies = -torch.bmm(logs.exp()[:, None], logs[:, :, None])[:, 0, 0]
        ctx.save_for_backward(logs, targets, entropies)
        return logs.gather(1, targets[:, None])[:, 0], entropies

    @staticmethod
    def backward(
        ctx: Any, to_logprobs: Tensor | None, to_entropies: Tensor | None
    ) -> tuple[Tensor | None, None]:
        """Return the gradient of the logits."""
        if to_logprobs is None and to_entropies is None:
            return None, None
        logs, targets, entropies = ctx.saved_tensors
        gradient = logs.exp()
        if to_entropies is not None:
            factor = (logs + entropies[:, None]).mul_(-to_entropies[:, None])
            gradient.mul_(factor if to_logprobs is None else factor.sub_(to_logprobs[:, None]))
        else:
            assert to_logprobs is not None
            gradient.mul_(-to_logprobs[:, None])
        if to_logprobs is not None:
            gradient.scatter_add_(1, targets[:, None], to_logprobs[:, None])
        return gradient, None
