"""Measure in training what changes nothing in it: how replies depend on prompts, and gradients on returns.

How much replies tell about their prompts is the sign of template collapse. Every text z_i is scored under
every different prompt x_j: entry (i, j) of a matrix is log p(z_i | x_j), in nats (RAGEN-2, arXiv 2604.06268).
A policy whose replies no longer depend on what it reads may still have high entropy; its replies are then as
likely under any other prompt.

Two samples: the first reply of one episode of each first prompt; and pairs of a trajectory and one of its
turns, the trajectory drawn first. Of each, two texts: the thought, which lies strictly between its tags,
and the whole reply. A prompt is everything that the model had read before the reply.

The gradient of each term of the loss is measured in six buckets of groups by the deviation of their returns
(RAGEN-2 too). A policy gradient should be larger where returns differ more; those of the entropy bonus and of
the divergence know nothing of returns.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.losses import Term
from ragen_agents.starpo.parts.filters import group_std
from ragen_agents.starpo.rollout_step import filtered_returns, group_numbers, learnable
from ragen_agents.starpo.run.metrics import BUCKETS
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner

_OPEN, _CLOSE = "<think>", "</think>"
RANKS = (1, 2, 4, 8)
"""The k of retrieval@k."""


class _Reply(NamedTuple):
    prompt: tuple[int, ...]
    ids: list[int]


def measure_information(
    learner: Learner, trajectories: Sequence[Trajectory], codec: ChatCodec, most: int, seed: int, context: int
) -> dict[str, float]:
    """Return the metrics of `information` for each sample and text.

    Names begin with ``information/first/`` or ``information/turns/``, then ``thought/`` or ``reply/``; a
    sample with fewer than two different prompts, or without two thoughts, has none. ``valid`` is the share of
    replies with a thought. A sample has ``most`` replies at most, each scored under all of their prompts;
    those that exceed ``context`` tokens behind the longest prompt are left out.
    """
    played = [t for t in trajectories if t.written]
    samples = {"first": _first_replies(played)[:most], "turns": _drawn(played, most, seed)}
    metrics: dict[str, float] = {}
    for name, replies in samples.items():
        if name == "turns" and all(t.replies <= 1 for t in played):
            continue  # those would be first replies again
        longest = max((len(reply.prompt) for reply in replies), default=0)
        fitting = [reply for reply in replies if longest + len(reply.ids) <= context]
        measured = _measure(learner, fitting, codec)
        metrics |= {f"information/{name}/{key}": value for key, value in measured.items()}
    return metrics


def _first_replies(trajectories: Sequence[Trajectory]) -> list[_Reply]:
    """Return one reply for each different first prompt, in the order of groups."""
    first: dict[tuple[int, ...], _Reply] = {}
    for trajectory in sorted(trajectories, key=lambda t: (t.group, t.member)):
        reply = _reply_of(trajectory, 0)
        if reply is not None:
            first.setdefault(reply.prompt, reply)
    return list(first.values())


def _drawn(trajectories: Sequence[Trajectory], most: int, seed: int) -> list[_Reply]:
    if not trajectories:
        return []
    rng = np.random.default_rng(seed)
    replies = []
    for place in rng.integers(len(trajectories), size=most).tolist():
        chosen = trajectories[place]
        replies.append(_reply_of(chosen, int(rng.integers(chosen.replies))))
    return [reply for reply in replies if reply is not None]


def _reply_of(trajectory: Trajectory, turn: int) -> _Reply | None:
    """Return the prompt of a turn and its reply; None for an empty reply."""
    for row in trajectory.rows:
        if turn in row.turn_ids:
            first = row.turn_ids.index(turn)
            count = row.turn_ids.count(turn)
            return _Reply(tuple(row.ids[:first]), row.ids[first : first + count])
    return None


def _measure(learner: Learner, replies: Sequence[_Reply], codec: ChatCodec) -> dict[str, float]:
    prompts = list(dict.fromkeys(reply.prompt for reply in replies))
    if len(prompts) < 2:
        return {}
    pairs = [_joined(prompt, reply.ids) for reply in replies for prompt in prompts]
    batch = TrainBatch.of(pairs, codec.pad)
    scores = learner.score(batch, "policy").logprobs
    by_token = [row[written] for row, written in zip(scores, batch.mask, strict=True)]
    spans = [_thought(reply.ids, codec) for reply in replies]
    texts = {
        "reply": {i: (0, len(reply.ids)) for i, reply in enumerate(replies)},
        "thought": {i: span for i, span in enumerate(spans) if span is not None},
    }
    measured = {"thought/valid": len(texts["thought"]) / len(replies)}
    for name, chosen in texts.items():
        if len(chosen) < 2:
            continue
        matrix = [
            [by_token[i * len(prompts) + j][start:stop].sum() for j in range(len(prompts))]
            for i, (start, stop) in chosen.items()
        ]
        metrics = information(
            torch.tensor(matrix),
            torch.tensor([prompts.index(replies[i].prompt) for i in chosen]),
            torch.tensor([stop - start for start, stop in chosen.values()]),
        )
        measured |= {f"{name}/{key}": value for key, value in metrics.items()}
    return measured


def _thought(ids: Sequence[int], codec: ChatCodec) -> tuple[int, int] | None:
    """Return the range of tokens strictly between the think tags, or None if there are none.

    A reply whose ``<think>`` was written for it begins inside the thought.
    """
    ends = [len(codec.text(ids[: k + 1])) for k in range(len(ids))]
    text = codec.text(ids)
    close = text.find(_CLOSE)
    opened = text.find(_OPEN)
    if close < 0:
        return None
    start = 0 if opened < 0 or opened > close else opened + len(_OPEN)
    starts = list(accumulate([0, *ends[:-1]], max))
    inside = [k for k, (a, b) in enumerate(zip(starts, ends, strict=True)) if start <= a < b <= close]
    return (inside[0], inside[-1] + 1) if inside else None


def _joined(prompt: Sequence[int], reply: Sequence[int]) -> Trajectory:
    pair = Trajectory(0, 0, list(prompt))
    pair.append_reply(list(reply), [0.0] * len(reply))
    return pair


def information(logprobs: Tensor, own: Tensor, lengths: Tensor) -> dict[str, float]:
    """Compute entropies, mutual information and retrieval rates from a matrix of log-probabilities.

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
    metrics = {
        "conditional_entropy": -float(matched.mean()),
        "entropy": -float(marginal.mean()),
        "mutual_information": float(gain.mean()),
        "mutual_information_se": float(gain.std() / math.sqrt(len(gain))),
        "z_score": float(gain.mean() / (marginal.std() + 1e-3)),
    }
    by_token, marginal_by_token, matched_by_token = _gain(logprobs / lengths[:, None], own)
    metrics |= {
        "conditional_entropy_per_token": -float(matched_by_token.mean()),
        "entropy_per_token": -float(marginal_by_token.mean()),
        "mutual_information_per_token": float(by_token.mean()),
    }
    rivals = (logprobs >= matched[:, None]).sum(1)  # the own prompt is one of them
    for rank in RANKS:
        if rank < count:
            metrics[f"retrieval@{rank}"] = float((rivals <= rank).double().mean())
            metrics[f"chance@{rank}"] = rank / count
    return metrics


def _gain(logprobs: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return matched - marginal, marginal and matched, (n,) each."""
    matched = logprobs.gather(1, own[:, None])[:, 0]
    marginal = torch.logsumexp(logprobs, dim=1) - math.log(logprobs.shape[1])
    return matched - marginal, marginal, matched


def probe_gradients(
    config: TrainConfig, learner: Learner, trajectories: Sequence[Trajectory], pad: int
) -> dict[str, float]:
    """Return norms of gradients by bucket of groups; no optimizer step is taken.

    Names begin with ``gradient/bucket1/`` to ``gradient/bucket6/``, the first with the smallest deviations.
    ``reward_std`` is the mean deviation of a bucket's groups; ``policy``, ``entropy`` and ``divergence`` are
    norms of the gradients of these terms of the loss, unweighted, on all trajectories of the bucket as one
    optimizer batch. Fewer groups than buckets leave buckets without metrics. All buckets have as many groups,
    because the mean of fewer has a larger norm; groups in the middle that are too many are left out.
    """
    deviations = group_std(filtered_returns(config, trajectories))
    numbers = group_numbers(trajectories)
    played = learnable(trajectories, numbers)
    if not played:
        return {}
    prepared = learner.prepare(TrainBatch.of(played, pad))
    norms: dict[str, float] = {}
    for k, bucket in enumerate(_buckets(deviations), 1):
        groups = {numbers[i] for i in bucket}
        rows = [i for i, t in enumerate(played) if t.group in groups]
        if not rows:
            continue
        name = f"gradient/bucket{k}"
        norms[f"{name}/reward_std"] = float(deviations[bucket].mean())
        for term in get_args(Term):
            norm = learner.gradient_norm(prepared, rows, term)
            if norm is not None:
                norms[f"{name}/{term}"] = norm
    return norms


def _buckets(deviations: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the places of the groups of each bucket, equally many, the smallest deviations first."""
    order = np.argsort(deviations, kind="stable")
    size = max(len(order) // BUCKETS, 1)
    spare = max(len(order) - BUCKETS * size, 0)
    middle = (len(order) - spare) // 2
    kept = np.delete(order, slice(middle, middle + spare))
    return [kept[i : i + size] for i in range(0, len(kept), size)]
