"""Choose the episodes of a run that a model imitates, and write them as tokens."""

from collections.abc import Sequence

from ragen_agents.rollout import Episode
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.episode_runner import make_env
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.sft import written_by
from ragen_bench.evaluation.comparison import Side, read_side
from ragen_bench.runs.records import replay_spec
from ragen_envs.errors import RagenError
from ragen_envs.levels.splits import TRAIN


def choose_episodes(
    source: str, env_id: str | None, solved_only: bool, best_of: bool
) -> tuple[str, list[Episode]]:
    """Return the agent that played ``RUN`` or ``RUN:AGENT``, and its episodes to imitate.

    Episodes that ended in an error, or with a reply that was cut off, are left out. ``best_of`` keeps only
    the attempt with the largest return at each level.
    """
    side = read_side(source)
    played = _of_game(side, source, env_id)
    for episode in played:
        if (split := episode.instance.split) != TRAIN:
            raise RagenError(
                f"'{source}' holds {split} levels, on which a model must not be trained; play training "
                "levels with ragen bench --split train"
            )
    kept = [
        episode
        for episode in played
        if (episode.success or not solved_only)
        and not episode.is_failure
        and not any(turn.cut_off for turn in episode.turns)
    ]
    if best_of:
        best: dict[int | None, Episode] = {}
        for episode in kept:
            other = best.setdefault(episode.instance.index, episode)
            if episode.episode_return > other.episode_return:
                best[episode.instance.index] = episode
        kept = list(best.values())
    if not kept:
        solved = sum(episode.success for episode in played)
        raise RagenError(f"'{source}' has no episode to imitate: {solved} of {len(played)} are solved")
    return str(side), kept


def _of_game(side: Side, source: str, env_id: str | None) -> list[Episode]:
    played = (episode for episode in side.run.episodes if episode.agent == side.agent)
    episodes = [episode for episode in played if env_id in (None, episode.env_id)]
    tasks = list(dict.fromkeys(episode.task for episode in episodes))
    if len(tasks) != 1:
        none = f"no episode of {env_id or 'this agent'}"
        raise RagenError(f"'{source}' has " + (f"the games {', '.join(tasks)}; name one" if tasks else none))
    return episodes


def written_conversations(episodes: Sequence[Episode], codec: ChatCodec) -> list[Trajectory]:
    """Return episodes, played again from their replies, as tokens of a model."""
    conversations = []
    for number, episode in enumerate(episodes):
        env = make_env(replay_spec(episode))
        prefix = env.settings.prefix
        turns = (prefix + turn.reply.removeprefix(prefix) for turn in episode.turns)
        conversations.append(written_by(env, codec, number, lambda turns=turns: next(turns, None)))  # type: ignore[misc]
    return conversations
