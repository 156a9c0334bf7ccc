"""Measure in training how much replies tell about their prompts: the sign of template collapse (RAGEN-2).

Two samples: the first reply of one episode of each first prompt; and pairs of a trajectory and one of its
turns, the trajectory drawn first. Of each, two texts: the thought, which lies strictly between its tags,
and the whole reply. A prompt is everything that the model had read before the reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch

from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.trajectory import CONTEXT, Trajectory
from ragen_agents.starpo.math.information import information
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class _Reply:
    prompt: tuple[int, ...]
    ids: list[int]


def measure_information(
    learner: Learner,
    trajectories: Sequence[Trajectory],
    codec: ChatCodec,
    most: int,
    seed: int,
    context: int,
) -> dict[str, float]:
    """Return the metrics of `information` for each sample and text.

    Names begin with ``information/first/`` or ``information/turns/``, then ``thought/`` or ``reply/``; a
    sample with fewer than two different prompts, or without two thoughts, has none. ``valid`` is the share
    of replies with a thought.

    Args:
        learner: Scores under the present policy.
        trajectories: Of one iteration.
        codec: Of the model.
        most: Replies of a sample, at most. Each is scored under all of their prompts.
        seed: Of the draws.
        context: Most tokens that the model reads. Replies that exceed it behind the longest prompt of their
            sample are left out.
    """
    played = [t for t in trajectories if t.written]
    samples = {"first": _first_replies(played)[:most], "turns": _drawn(played, most, seed)}
    found: dict[str, float] = {}
    for name, replies in samples.items():
        if name == "turns" and all(t.replies <= 1 for t in played):
            continue  # those would be first replies again
        measured = _measure(learner, _fitting(replies, context), codec)
        found |= {f"information/{name}/{key}": value for key, value in measured.items()}
    return found


def _first_replies(trajectories: Sequence[Trajectory]) -> list[_Reply]:
    """Return one reply for each different first prompt, in the order of groups."""
    found: dict[tuple[int, ...], _Reply] = {}
    for trajectory in sorted(trajectories, key=lambda t: (t.group, t.member)):
        reply = _reply_of(trajectory, 0)
        if reply is not None:
            found.setdefault(reply.prompt, reply)
    return list(found.values())


def _drawn(trajectories: Sequence[Trajectory], most: int, seed: int) -> list[_Reply]:
    if not trajectories:
        return []
    rng = np.random.default_rng(seed)
    found = []
    for place in rng.integers(len(trajectories), size=most).tolist():
        chosen = trajectories[place]
        found.append(_reply_of(chosen, int(rng.integers(chosen.replies))))
    return [reply for reply in found if reply is not None]


def _reply_of(trajectory: Trajectory, turn: int) -> _Reply | None:
    """Return what was read before a turn, and its reply; None for an empty reply."""
    for row in trajectory.rows:
        if turn in row.turn_ids:
            first = row.turn_ids.index(turn)
            count = row.turn_ids.count(turn)
            return _Reply(tuple(row.ids[:first]), row.ids[first : first + count])
    return None


def _fitting(replies: Sequence[_Reply], context: int) -> list[_Reply]:
    longest = max((len(reply.prompt) for reply in replies), default=0)
    return [reply for reply in replies if longest + len(reply.ids) <= context]


def _measure(learner: Learner, replies: Sequence[_Reply], codec: ChatCodec) -> dict[str, float]:
    prompts = list(dict.fromkeys(reply.prompt for reply in replies))
    if len(prompts) < 2:
        return {}
    pairs = [_joined(prompt, reply.ids) for reply in replies for prompt in prompts]
    batch = TrainBatch.of(pairs, codec.pad)
    scores = learner.score(batch, "policy").logprobs
    by_token = [scores[row, batch.mask[row]] for row in range(len(pairs))]
    spans = [_thought(reply.ids, codec) for reply in replies]
    texts = {
        "reply": {i: (0, len(reply.ids)) for i, reply in enumerate(replies)},
        "thought": {i: span for i, span in enumerate(spans) if span is not None},
    }
    found = {"thought/valid": len(texts["thought"]) / len(replies)}
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
        found |= {f"{name}/{key}": value for key, value in metrics.items()}
    return found


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
    inside = [
        k for k, (a, b) in enumerate(zip(starts, ends, strict=True)) if start <= a < b <= close
    ]
    return (inside[0], inside[-1] + 1) if inside else None


def _joined(prompt: Sequence[int], reply: Sequence[int]) -> Trajectory:
    pair = Trajectory(0, 0, list(prompt))
    pair.append_reply(list(reply), [0.0] * len(reply), 0)
    assert pair.turn_ids[0] == CONTEXT
    return pair
