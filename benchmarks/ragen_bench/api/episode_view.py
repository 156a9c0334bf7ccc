"""An episode as a notebook shows it."""

import base64
from dataclasses import dataclass
from html import escape
from typing import Any

from ragen_agents.rollout import Episode
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.runs.records import replay_spec
from ragen_envs.game.text import GRID


@dataclass(frozen=True)
class EpisodeView:
    """An episode that a notebook shows turn by turn."""

    record: Episode
    """The episode as it is recorded."""

    def _repr_html_(self) -> str:
        return episode_html(self.record)


def episode_html(episode: Episode) -> str:
    """Return an episode as HTML: the board before each turn, in a picture if the game has one, and the reply.

    Raises:
        RagenError: The record does not replay.
    """
    env = make_env(replay_spec(episode))
    game: Any = env.unwrapped
    solved = "solved" if episode.success else "not solved" if episode.has_success else "played"
    parts = [
        f"<b>{escape(episode.task)}</b>, level {episode.instance.index}, {escape(episode.agent)}: {solved} "
        f"({episode.end}), return {episode.episode_return:.2f}<table>"
    ]
    for number, turn in enumerate(episode.turns, start=1):
        parts.append(
            f'<tr><td>{number}</td><td>{_board(env)}</td><td style="text-align: left">'
            f"<pre>{escape(turn.reply)}</pre>"
            f"<small>played: {escape(' '.join(turn.executed) or 'nothing')}</small></td></tr>"
        )
        for name in turn.executed:
            game.act(env.action_of(name))
    closing = escape(episode.error or episode.closing)
    parts.append(f"<tr><td></td><td>{_board(env)}</td><td><pre>{closing}</pre></td></tr></table>")
    return "".join(parts)


def _board(env: Any) -> str:
    picture = env.unwrapped._repr_png_()
    if picture is not None:
        return f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    board = env.face.observation(env.unwrapped, GRID, env.face.vocabularies["standard"])
    return f"<pre>{escape(board)}</pre>"
