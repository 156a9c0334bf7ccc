"""How much a reply tells about its prompt: the sign of template collapse (RAGEN-2, arXiv 2604.06268).

Every reply is scored under every prompt by teacher forcing. A policy whose replies no longer depend on
what it reads may still have high entropy; its replies are then as likely under any other prompt.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner


def prompt_information(
    learner: Learner, trajectories: Sequence[Trajectory], pad: int
) -> dict[str, float]:
    """Score the first reply of one episode for each first prompt under all of these prompts.

    Returns:
        ``mutual_information``, in nats, and ``retrieval_accuracy``; nothing with fewer than two different
        prompts.
    """
    firsts = {tuple(_prompt(t)): t for t in reversed(trajectories) if 0 in t.turn_ids}
    chosen = sorted(firsts.values(), key=lambda t: t.group)
    if len(chosen) < 2:
        return {}
    pairs = [_joined(asked, said) for said in chosen for asked in chosen]
    logprobs = learner.score(TrainBatch.of(pairs, pad)).logprobs.sum(1)
    return summarise(logprobs.reshape(len(chosen), len(chosen)))


def summarise(logprobs: Tensor) -> dict[str, float]:
    """Return the two numbers of a matrix of log-probabilities.

    Args:
        logprobs: (n, n), entry (i, j) of reply i under prompt j, in nats.

    Returns:
        ``mutual_information``: mean over replies of the log-probability under the own prompt minus the
        log of the mean probability under all prompts, at most log n. ``retrieval_accuracy``: share of
        replies whose own prompt makes them likeliest; chance is 1 / n.
    """
    count = len(logprobs)
    own = logprobs.diagonal()
    anywhere = torch.logsumexp(logprobs, dim=1) - math.log(count)
    rivals = logprobs.masked_fill(torch.eye(count, dtype=torch.bool), -torch.inf).amax(1)
    return {
        "mutual_information": float((own - anywhere).mean()),
        "retrieval_accuracy": float((own > rivals).float().mean()),
    }


def _prompt(trajectory: Trajectory) -> list[int]:
    return trajectory.ids[: trajectory.turn_ids.index(0)]


def _joined(asked: Trajectory, said: Trajectory) -> Trajectory:
    reply = [token for token, turn in zip(said.ids, said.turn_ids, strict=True) if turn == 0]
    pair = Trajectory(asked.group, 0, _prompt(asked))
    pair.append_reply(reply, [0.0] * len(reply), 0)
    return pair
