"""How much texts tell about the prompts they were written for (RAGEN-2, arXiv 2604.06268).

Every text z_i is scored under every different prompt x_j: entry (i, j) of a matrix is log p(z_i | x_j), in
nats. A policy whose replies no longer depend on what it reads may still have high entropy; its replies
are then as likely under any other prompt.
"""

import math

import torch
from torch import Tensor

RANKS = (1, 2, 4, 8)
"""The k of retrieval@k."""


def information(logprobs: Tensor, own: Tensor, lengths: Tensor) -> dict[str, float]:
    """Return what a matrix of log-probabilities says.

    With matched_i = log p(z_i | own prompt) and marginal_i = log mean_j p(z_i | x_j):

    - ``conditional_entropy``: H(Z|X) = -mean(matched), and ``entropy``: H(Z) = -mean(marginal).
    - ``mutual_information``: mean(matched - marginal) = H(Z) - H(Z|X), if the N prompts are all that there
      are. For a sample of more prompts it is a lower bound, too low well before its maximum of ln N.
      ``mutual_information_se`` is its standard error over texts.
    - ``..._per_token``: the same from log-probabilities divided by the text's length. It compares texts of
      different lengths, but is no mutual information.
    - ``z_score``: mean(matched - marginal) / (std(marginal) + 0.001).
    - ``retrieval@k``: share of texts whose own prompt is among the k likeliest; a tie counts as not.
      ``chance@k`` is k / N.

    Args:
        logprobs: (n, N) float: of n >= 2 texts under N >= 2 different prompts.
        own: (n,) int64: the place of each text's own prompt among the N.
        lengths: (n,) int64: tokens of each text, >= 1.
    """
    count = logprobs.shape[1]
    gain, marginal, matched = _gain(logprobs, own)
    found = {
        "conditional_entropy": -float(matched.mean()),
        "entropy": -float(marginal.mean()),
        "mutual_information": float(gain.mean()),
        "mutual_information_se": float(gain.std() / math.sqrt(len(gain))),
        "z_score": float(gain.mean() / (marginal.std() + 1e-3)),
    }
    by_token, marginal_by_token, matched_by_token = _gain(logprobs / lengths[:, None], own)
    found |= {
        "conditional_entropy_per_token": -float(matched_by_token.mean()),
        "entropy_per_token": -float(marginal_by_token.mean()),
        "mutual_information_per_token": float(by_token.mean()),
    }
    rivals = (logprobs >= matched[:, None]).sum(1)  # the own prompt is one of them
    for rank in RANKS:
        if rank < count:
            found[f"retrieval@{rank}"] = float((rivals <= rank).double().mean())
            found[f"chance@{rank}"] = rank / count
    return found


def _gain(logprobs: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return matched - marginal, marginal and matched, (n,) each."""
    matched = logprobs.gather(1, own[:, None])[:, 0]
    marginal = torch.logsumexp(logprobs, dim=1) - math.log(logprobs.shape[1])
    return matched - marginal, marginal, matched
