"""Episodes: how policies play the games, and the record that everything downstream reads."""

from ragen_agents.rollout.episode import Episode, InstanceRecord, TurnRecord
from ragen_agents.rollout.play import EpisodeSpec, play_batch, sampling_seed

__all__ = [
    "Episode",
    "EpisodeSpec",
    "InstanceRecord",
    "TurnRecord",
    "play_batch",
    "sampling_seed",
]
