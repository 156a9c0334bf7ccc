"""Create conversations: one function turns a game into text in, text out."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ragen_envs.conversation.settings import SETTING_NAMES, ConversationSettings
from ragen_envs.conversation.text_wrapper import TEXT_SETTINGS, TextWrapper
from ragen_envs.conversation.wrapper import ConversationWrapper
from ragen_envs.errors import RagenError, first_line
from ragen_envs.game.base import GameEnv
from ragen_envs.game.text import IMAGE
from ragen_envs.registration import creator_of, game_of, register_installed_games


def make(game: str | gym.Env[Any, Any], /, **overrides: Any) -> ConversationWrapper:
    """Create a conversation of any game.

    ``make("ragen/SokobanText-v0", actions_per_turn=1, size=7)`` has the settings of that id except for
    the two that are given. The id of a game without ``Text``, such as ``"ragen/Sokoban-v0"``, has the
    defaults of ``ConversationSettings``. Games of other packages are made by their ids in the same way.

    Any other environment of Gymnasium, as an id or made, is given a text face by ``TextWrapper``:
    ``make("CliffWalking-v1", actions=["up", "right", "down", "left"])``. By default, its conversation lasts
    as long as the time limit it is registered with, or 100 actions, with five actions a turn.

    An id gives the conversation itself, whose only limits are its settings ``max_turns`` and
    ``max_actions``: the time limit that a game is registered with does not apply. ``gym.make`` of a text
    id gives the same conversation inside Gymnasium's own wrappers. An env keeps its wrappers and limits.

    Args:
        game: A text id, a game's id, or a game that was already made.
        **overrides: Conversation settings and keywords of the game, over those of the id. An env takes
            conversation settings only. The observation "image" sets the game's ``render_mode``.
            Environments without a text face also take the keywords of ``TextWrapper``.

    Raises:
        RagenError: The id is unknown, the game is a conversation already or cannot be made one, or an
            override is unknown or has a wrong value.
    """
    if isinstance(game, gym.Env):
        return _wrap(game, overrides)
    spec = _find_spec(game)
    base = game_of(spec.id)
    if base is None:
        return _make(spec, overrides)
    defaults = {name: value for name, value in spec.kwargs.items() if name != "game"}
    return _make(_find_spec(base), {**defaults, **overrides})


def make_registered(game: str, **keywords: Any) -> ConversationWrapper:
    """Create the conversation of a text id that is registered for a game; ``gym.make`` calls this.

    Raises:
        RagenError: As of ``make``.
    """
    return _make(_find_spec(game), keywords)


def _make(spec: EnvSpec, keywords: Mapping[str, Any]) -> ConversationWrapper:
    base = game_of(spec.id)
    if base is not None:
        raise RagenError(
            f"{spec.id} is a conversation already; register the new text id for its game, {base}"
        )
    settings = {name: value for name, value in keywords.items() if name in SETTING_NAMES}
    others = {name: value for name, value in keywords.items() if name not in SETTING_NAMES}
    creator = creator_of(spec)
    if creator is None:
        raise RagenError(f"{spec.id} has vector envs only; a conversation needs single ones")
    if settings.get("observation") == IMAGE:
        others["render_mode"] = "rgb_array"
    is_game = isinstance(creator, type) and issubclass(creator, GameEnv)
    if is_game:
        return _converse(_create(spec, creator, others), settings, {})
    words = {name: others.pop(name) for name in TEXT_SETTINGS if name in others}
    modes = getattr(creator, "metadata", {}).get("render_modes", ())
    if "describe" not in words and "ansi" in modes:
        others.setdefault("render_mode", "ansi")
    env = _create(spec, creator, others)
    env.unwrapped.spec = env.unwrapped.spec or spec
    return _converse(env, settings, words)


def _wrap(env: gym.Env[Any, Any], overrides: Mapping[str, Any]) -> ConversationWrapper:
    known = SETTING_NAMES if isinstance(env.unwrapped, GameEnv) else (*SETTING_NAMES, *TEXT_SETTINGS)
    others = [name for name in overrides if name not in known]
    if others:
        raise RagenError(
            f"{', '.join(others)} cannot be set on {env}, which was already made: pass the game's id "
            f"instead, or only conversation settings ({', '.join(known)})"
        )
    settings = {name: value for name, value in overrides.items() if name in SETTING_NAMES}
    words = {name: value for name, value in overrides.items() if name not in SETTING_NAMES}
    return _converse(env, settings, words)


def _converse(
    env: gym.Env[Any, Any], settings: dict[str, Any], words: Mapping[str, Any]
) -> ConversationWrapper:
    """Create a conversation of an env, which needs the keywords ``words`` if it has no text face."""
    if not isinstance(env.unwrapped, GameEnv):
        env = TextWrapper(env, **words)
    if isinstance(env, TextWrapper):
        settings = {**env.limits(ConversationSettings(**settings).actions_per_turn), **settings}
    return ConversationWrapper(env, **settings)


def _find_spec(env_id: str) -> EnvSpec:
    """Return the registered spec of an id, by installed packages too."""
    if env_id not in gym.registry:
        register_installed_games()
    if ":" in env_id:  # Gymnasium's "module:id"
        module, _, env_id = env_id.partition(":")
        try:
            importlib.import_module(module)
        except (ImportError, TypeError, ValueError) as error:  # also an empty name, or one with a dot first
            raise RagenError(
                f"the module '{module}' of the game '{env_id}' cannot be imported: {error}"
            ) from error
    try:
        return gym.spec(env_id)
    except (gym.error.DeprecatedEnv, gym.error.VersionNotFound) as error:
        raise RagenError(f"unknown game '{env_id}': {error}") from error
    except gym.error.Error as error:
        raise RagenError(
            f"unknown game '{env_id}'; `ragen games` lists those of the suite and of installed packages, "
            "and a module of your own must be imported first (ragen --import FILE)"
        ) from error


def _create(
    spec: EnvSpec, creator: Callable[..., gym.Env[Any, Any]], keywords: Mapping[str, Any]
) -> gym.Env[Any, Any]:
    """Create a game without the wrappers, and so without the time limit, that ``gym.make`` adds."""
    parameters = inspect.signature(creator).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for name in parameters:
        if name in SETTING_NAMES:
            raise RagenError(
                f"{spec.id} has the argument '{name}', which is the name of a conversation setting; rename it"
            )
    for name in keywords:
        if name not in parameters and not takes_all:
            is_game = isinstance(creator, type) and issubclass(creator, GameEnv)
            known = ", ".join([*SETTING_NAMES, *(() if is_game else TEXT_SETTINGS), *parameters])
            raise RagenError(f"{spec.id} has no setting '{name}'; known are {known}")
    try:
        env: gym.Env[Any, Any] = creator(**{**spec.kwargs, **keywords})
    except (RagenError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise RagenError(f"{spec.id} cannot be made: {type(error).__name__}: {first_line(error)}") from error
    return env
