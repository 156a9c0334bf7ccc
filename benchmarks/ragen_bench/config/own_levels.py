"""Levels of the user's own in suites and training runs, which hold the text of the levels, not the file."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.base import GameEnv
from ragen_envs.registration import creator_of, game_of

if TYPE_CHECKING:
    from ragen_bench.config.suites import Task

_LOG: Final = logging.getLogger("ragen.levels")
_SOLVED: Final = 32
"""Levels that are solved to choose limits."""


def with_level_texts(env_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a conversation's game with the texts of its levels in place of the file's name."""
    levels, game = settings.get("levels"), game_of(env_id)
    creator = None if game is None else creator_of(gym.registry[game])
    if not isinstance(levels, str) or not isinstance(creator, type) or not issubclass(creator, GameEnv):
        return dict(settings)
    return {**settings, "levels": [*creator.level_texts(levels)]}


def own_level_count(settings: Mapping[str, Any]) -> int:
    """Return the number of levels of one's own among the settings of a game; 0 for drawn or frozen levels."""
    level, levels = settings.get("level"), settings.get("levels")
    return len(levels) if isinstance(levels, list) else int(isinstance(level, str | list))


def own_level_notes(tasks: "Mapping[str, Task]") -> list[str]:
    """Return a note for each task that does not play levels of the suite."""
    counts = {name: own_level_count(task.settings) for name, task in tasks.items()}
    return [
        f"{name}: {count} level{'s' if count > 1 else ''} of your own, not of the suite; its results are not "
        "comparable with those of the suite"
        for name, count in counts.items()
        if count
    ]


def limits_for(env_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits of turns and actions for levels of one's own: twice the longest shortest solution.

    The first ``_SOLVED`` levels count. Limits that the settings give stay, and nothing is returned if the
    limits of the game's id are enough.
    """
    limits = ("max_turns", "max_actions", "actions_per_turn")
    if any(name in settings for name in limits):
        return {}
    from ragen_envs.conversation import make

    env: Any = make(env_id, **settings)
    solved = min(own_level_count(settings), _SOLVED)
    lengths = [length for index in range(solved) if (length := _length(env, index)) is not None]
    actions = max(2 * max(lengths, default=0), env.settings.max_actions)
    if len(lengths) < solved and (lengths or env.unwrapped.deterministic):
        _LOG.warning(
            "%d of %d levels have no solution, or none that can be found, and %d actions may be too few for "
            "them: set max_actions and max_turns", solved - len(lengths), solved, actions,
        )  # fmt: skip
    if actions == env.settings.max_actions:
        return {}
    return {"max_actions": actions, "max_turns": -(-actions // env.settings.actions_per_turn)}


def _length(env: Any, index: int) -> float | None:
    """Return the shortest solution's length of a level of one's own, or None if it cannot be computed."""
    env.reset(options={"index": index})
    try:
        length: float | None = env.unwrapped.measures().get("solution_length")
    except SolverLimitError:
        return None
    return length
