"""Metrics of an iteration: of its trajectories, and the seconds it took (docs/training-metrics.md)."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_agents.rollout.claims import claim_shares
from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_agents.starpo.parts.filters import group_std
from ragen_envs.conversation import EndReason
from ragen_envs.errors import RagenError

BUCKETS: Final = 6
"""Groups of levels by the deviation of their returns, for which gradients are measured apart."""
_NUMBER = re.compile(r"\d+")


def group_returns(trajectories: Sequence[Trajectory], game_only: bool = False) -> list[np.ndarray]:
    """Return the members' returns of each group, groups in their order; errors are left out.

    With ``game_only``, only the part of the reward that is named "game" counts.
    """
    groups: dict[int, list[float]] = {}
    for trajectory in trajectories:
        members = groups.setdefault(trajectory.group, [])
        if trajectory.end == EndReason.ERROR:
            continue
        game = map(_game_part, trajectory.turns)
        members.append(sum(game) if game_only else trajectory.episode_return)
    return [np.array(groups[group]) for group in sorted(groups)]


def _game_part(turn: TrajectoryTurn) -> float:
    if "game" not in turn.rewards:
        raise RagenError(
            f"reward.in_filter is false, but the reward has no part named 'game', only "
            f"{', '.join(turn.rewards)}"
        )
    return turn.rewards["game"]


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return means over episodes, turns and groups; see the glossary for each name."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    replies = [turn.reply for turn in turns]
    spreads = group_std(group_returns(trajectories))
    ends = Counter(trajectory.end for trajectory in trajectories)
    count = len(trajectories)
    metrics = {
        "success": _mean([t.success for t in trajectories]),
        "return": _mean([t.episode_return for t in trajectories]),
        "reward_std": _mean(spreads),
        "reward_std_zero": _mean(spreads < 1e-8),
        "turns": _mean([len(t.turns) for t in trajectories]),
        "rows": _mean([len(t.starts) for t in trajectories]),
        "reply_tokens": sum(t.written for t in trajectories) / max(len(turns), 1),
        "thought_characters": _mean([len(_thought(reply)) for reply in replies]),
        "valid": _mean([turn.valid for turn in turns]),
        "effective": _mean([turn.effective for turn in turns]),
        "cut_off": _mean([turn.cut_off for turn in turns]),
        "distinct_2": distinct(replies, 2),
        "template_share": template_share(replies),
    }
    for name in sorted({name for turn in turns for name in turn.rewards}):
        metrics[f"reward/{name}"] = sum(turn.rewards.get(name, 0.0) for turn in turns) / count
    metrics |= {
        f"claims/{name}": share
        for name, share in claim_shares([t.thought for t in turns if t.thought]).items()
    }
    for end in EndReason:
        metrics[f"end/{end}"] = ends[end] / count
    return metrics


def distinct(replies: Sequence[str], n: int) -> float:
    """Return the share of different word n-grams among all of the replies (Li et al. 2016)."""
    grams = [tuple(words[i : i + n]) for words in map(str.split, replies) for i in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def template_share(replies: Sequence[str]) -> float:
    """Return the share of the commonest thought, numbers replaced by 0."""
    templates = Counter(_NUMBER.sub("0", _thought(reply)).strip() for reply in replies)
    return max(templates.values()) / len(replies) if replies else 0.0


def _thought(reply: str) -> str:
    """Return the text up to ``</think>``; where it begins is the reply's start if the turn began for it."""
    before, closing, _ = reply.partition("</think>")
    _, opened, thought = before.partition("<think>")
    return (thought if opened else before) if closing else ""


def _mean(values: Sequence[float] | NDArray[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


class Phases:
    """A stopwatch per phase."""

    def __init__(self) -> None:
        self.running: str | None = None
        """The phase that has begun and not ended; after an error, the one that it ended."""
        self.restart()

    def restart(self) -> None:
        """Forget all phases and start the total."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._started = time.perf_counter()

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time inside the block to a phase."""
        self.running, started = phase, time.perf_counter()
        yield
        self.running = None
        self.seconds[phase] += time.perf_counter() - started

    def metrics(self) -> dict[str, float]:
        """Return the seconds of each phase and the total, as ``seconds/...``."""
        seconds = {f"seconds/{name}": value for name, value in self.seconds.items()}
        return {**seconds, "seconds/total": time.perf_counter() - self._started}
