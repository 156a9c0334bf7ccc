"""Log-probabilities and entropies of tokens, with fewer tensors of the logits' size than autograd keeps."""

from typing import Any

import torch
from torch import Tensor


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
