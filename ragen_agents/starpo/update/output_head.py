"""The output head: logits without rounding the result, and the scores of tokens in little memory."""

from contextlib import nullcontext
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LOGIT_CHUNK: Final = 2048
"""Action tokens whose logits exist at the same time."""


def chunked_logprobs(
    policy: Any, hidden: Tensor, targets: Tensor, temperature: float, float32_head: bool = False
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of targets and entropies, (n,) each, without logits of all n at once.

    Hidden states, (n, d), predict the targets, (n,) token ids. With ``float32_head``, logits are computed in
    float32 also under autocast.
    """
    # Made once, for autocast would round the weight again for each part.
    rounded = None
    if hidden.is_cuda and torch.is_autocast_enabled("cuda") and not float32_head:
        rounded = policy.get_output_embeddings().weight.detach().bfloat16()

    def part(states: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        logits = _logits(policy, states, float32_head, rounded)
        if temperature != 1:
            logits.div_(temperature)  # a copy would be one more of the largest tensors of a pass
        return token_scores(logits, wanted)

    if len(targets) <= LOGIT_CHUNK:
        return part(hidden, targets)
    pairs = [
        checkpoint(part, states, wanted, use_reentrant=False)
        for states, wanted in zip(hidden.split(LOGIT_CHUNK), targets.split(LOGIT_CHUNK), strict=True)
    ]
    return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])


def _logits(policy: Any, states: Tensor, float32_head: bool, rounded: Tensor | None) -> Tensor:
    """Compute a model's logits from its last hidden states, (n, d): (n, vocabulary), float32.

    With ``float32_head`` autocast is suspended. With ``rounded``, the head's weight in bfloat16, operands are
    rounded and the result is not.
    """
    head, config = policy.get_output_embeddings(), policy.config.get_text_config()
    weight, bias = head.weight, head.bias
    if rounded is not None:
        logits = head_product(states, weight, rounded)
        if bias is not None:
            logits = logits + bias.float()
    else:
        if float32_head:
            states, weight = states.float(), weight.float()
            bias = None if bias is None else bias.float()
        with torch.autocast(states.device.type, enabled=False) if float32_head else nullcontext():
            logits = nn.functional.linear(states, weight, bias).float()
    if scale := getattr(config, "logits_scaling", None):  # Granite
        logits = logits / scale
    if scale := getattr(config, "logit_scale", None):  # Cohere
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):  # Gemma 2
        logits = cap * torch.tanh(logits / cap)
    return logits


def head_product(states: Tensor, weight: Tensor, rounded: Tensor) -> Tensor:
    """Return ``states @ weight.T``, (n, vocabulary) in float32, computed from bfloat16 operands.

    Autocast would round the result as well, and neighbouring bfloat16 numbers between 16 and 32 differ by
    0.125. A product in float32 takes about ten times as long on tensor cores.

    The weight, (vocabulary, d), receives the gradient; several products share its copy in bfloat16.
    """
    product: Tensor = _HeadProduct.apply(states, weight, rounded)  # type: ignore[no-untyped-call]
    return product


class _HeadProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, rounded: Tensor) -> Tensor:
        operand = states.bfloat16()
        ctx.save_for_backward(operand, rounded)
        ctx.types = states.dtype, weight.dtype
        return _summed_in_float32(operand, rounded.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        operand, rounded = ctx.saved_tensors
        states_dtype, weight_dtype = ctx.types
        gradient = gradient.bfloat16()
        to_states = to_weight = None
        if ctx.needs_input_grad[0]:
            to_states = _summed_in_float32(gradient, rounded).to(states_dtype)
        if ctx.needs_input_grad[1]:
            to_weight = _summed_in_float32(gradient.T, operand).to(weight_dtype)
        return to_states, to_weight, None


def _summed_in_float32(left: Tensor, right: Tensor) -> Tensor:
    """Return the float32 product of two bfloat16 matrices."""
    with torch.autocast(left.device.type, enabled=False):
        if left.is_cuda:
            return torch.mm(left, right, out_dtype=torch.float32)
        return left.float() @ right.float()


def token_scores(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of targets and the entropies of their distributions, (n,) each, in nats.

    Logits are (n, vocabulary) in float32.
    """
    logprobs, entropies = _TokenScores.apply(logits, targets)  # type: ignore[no-untyped-call]
    return logprobs, entropies


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
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
