"""Make conversations: one function turns a game into text in, text out."""

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ragen_envs.conversation.settings import SETTING_NAMES
from ragen_envs.conversation.vector import ConversationVector
from ragen_envs.conversation.wrapper import ConversationWrapper
from ragen_envs.errors import RagenError, first_line
from ragen_envs.game.arguments import read_count
from ragen_envs.game.text import IMAGE
from ragen_envs.registration import creator_of, game_of, installed_games


def make(game: str | gym.Env[Any, Any], /, **overrides: Any) -> ConversationWrapper:
    """Make a conversation of any game.

    ``make("ragen/SokobanText-v0", actions_per_turn=1, size=7)`` has the settings of that id except for
    the two that are given. The id of a game without ``Text``, such as ``"ragen/Sokoban-v0"``, has the
    defaults of ``ConversationSettings``. Games of other packages are made by their ids in the same way;
    they need a text face and the info keys ``success`` and ``action_is_effective`` (docs/add-a-game.md).

    An id gives the conversation itself, whose only limits are its settings ``max_turns`` and
    ``max_actions``: the time limit that a game is registered with does not apply. ``gym.make`` of a text
    id gives the same conversation inside Gymnasium's own wrappers. An env keeps its wrappers and limits.

    Args:
        game: A text id, a game's id, or a game that was already made.
        **overrides: Conversation settings and keywords of the game, over those of the id. An env takes
            conversation settings only. The observation "image" sets the game's ``render_mode``.

    Raises:
        RagenError: The id is unknown, the game is a conversation already or has no text face, or an
            override is unknown or has a wrong value.
    """
    if isinstance(game, gym.Env):
        return _wrap(game, overrides)
    if not isinstance(game, str):
        raise RagenError(f"game is {game!r}, but must be an id or a gymnasium.Env")
    spec = _find_spec(game)
    base = game_of(game)
    if base is None:
        return _make(game, overrides)
    defaults = {name: value for name, value in spec.kwargs.items() if name != "game"}
    return _make(base, {**defaults, **overrides})


def make_vector(game: str, num: int, **overrides: Any) -> ConversationVector:
    """Make ``num`` conversations of the game with an id; see ``make`` for ids and overrides.

    Raises:
        RagenError: As for ``make``; or the number is not positive, or the game is not an id.
    """
    if not isinstance(game, str):
        raise RagenError(f"game is {game!r}, but must be an id: each conversation has its own env")
    count = read_count("num", num, 1)
    return ConversationVector([make(game, **overrides) for _ in range(count)])


def make_registered(game: str, **keywords: Any) -> ConversationWrapper:
    """Make the conversation of a text id that is registered for a game; ``gym.make`` calls this.

    Raises:
        RagenError: As of ``make``.
    """
    return _make(game, keywords)


def _make(game: str, keywords: Mapping[str, Any]) -> ConversationWrapper:
    spec = _find_spec(game)
    base = game_of(game)
    if base is not None:
        raise RagenError(
            f"{game} is a conversation already; register the new text id for its game, {base}"
        )
    settings = {name: value for name, value in keywords.items() if name in SETTING_NAMES}
    others = {name: value for name, value in keywords.items() if name not in SETTING_NAMES}
    if settings.get("observation") == IMAGE:
        others["render_mode"] = "rgb_array"
    return ConversationWrapper(_create(spec, others), **settings)


def _wrap(env: gym.Env[Any, Any], overrides: Mapping[str, Any]) -> ConversationWrapper:
    others = [name for name in overrides if name not in SETTING_NAMES]
    if others:
        raise RagenError(
            f"{', '.join(others)} cannot be set on {env}, which was already made: pass the game's id "
            f"instead, or only conversation settings ({', '.join(SETTING_NAMES)})"
        )
    return ConversationWrapper(env, **overrides)


def _find_spec(env_id: str) -> EnvSpec:
    """Return what an id is registered as, by installed packages too."""
    if env_id not in gym.registry:
        installed_games()
    try:
        return gym.spec(env_id)
    except gym.error.Error as error:
        raise RagenError(
            f"unknown game '{env_id}'; `ragen games` lists those of the suite and of installed packages, "
            "and a module of your own must be imported first (ragen --import FILE)"
        ) from error


def _create(spec: EnvSpec, keywords: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Make a game without the wrappers, and so without the time limit, that ``gym.make`` adds."""
    creator = creator_of(spec)
    if creator is None:
        raise RagenError(f"{spec.id} has vector envs only; a conversation needs single ones")
    parameters = inspect.signature(creator).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name in parameters:
        if name in SETTING_NAMES:
            raise RagenError(
                f"{spec.id} has the argument '{name}', which is the name of a conversation setting; rename it"
            )
    for name in keywords:
        if name not in parameters and not takes_all:
            known = ", ".join([*SETTING_NAMES, *parameters])
            raise RagenError(f"{spec.id} has no setting '{name}'; known are {known}")
    try:
        env: gym.Env[Any, Any] = creator(**{**spec.kwargs, **keywords})
    except (RagenError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise RagenError(
            f"{spec.id} cannot be made: {type(error).__name__}: {first_line(error)}"
        ) from error
    return env
