"""Measure the gradient of each term of the loss against the deviation of returns (RAGEN-2).

Groups are put into six buckets by the deviation of their returns. A policy gradient should be larger where
returns differ more; those of the entropy bonus and of the divergence know nothing of returns.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.losses import Term
from ragen_agents.starpo.parts.filters import group_std
from ragen_agents.starpo.rollout_step import filtered_returns, group_numbers, learnable
from ragen_agents.starpo.run.metrics import BUCKETS
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner


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
