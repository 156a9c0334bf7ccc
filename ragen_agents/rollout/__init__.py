"""Episodes: how policies play the games, and the record that everything downstream reads."""

from ragen_agents.rollout.episode import (
    Episode,
    EpisodeKey,
    InstanceRecord,
    MatchKey,
    MatchRecord,
    SeatRecord,
    TurnRecord,
)
from ragen_agents.rollout.episode_runner import EpisodeRunner, EpisodeSpec, make_env, sampling_seed
from ragen_agents.rollout.play import play_batch, play_independently

__all__ = [
    "Episode",
    "EpisodeKey",
    "EpisodeRunner",
    "EpisodeSpec",
    "InstanceRecord",
    "MatchKey",
    "MatchRecord",
    "SeatRecord",
    "TurnRecord",
    "make_env",
    "play_batch",
    "play_independently",
    "sampling_seed",
]
