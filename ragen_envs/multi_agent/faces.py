"""Make the faces of a multi-agent game that PettingZoo's users know."""

from functools import partial
from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec, parallel_to_aec_wrapper

from ragen_envs.errors import RagenError
from ragen_envs.multi_agent.base import MultiAgentEnv
from ragen_envs.multi_agent.conversation import MultiAgentConversation
from ragen_envs.multi_agent.seat import SEAT_SETTINGS, read_settings


def parallel_face(game: type[MultiAgentEnv], text: bool = False, **kwargs: Any) -> ParallelEnv[str, Any, Any]:
    """Make a game in which all act at once.

    With ``text`` every seat gets and gives text, and ``kwargs`` may hold the settings of a conversation.

    Raises:
        RagenError: A keyword is unknown or has a wrong value.
    """
    settings = read_settings(kwargs) if text else None
    try:
        made = game(**kwargs)
    except TypeError as error:
        more = f"; conversation settings are {', '.join(SEAT_SETTINGS)}" if text else ""
        raise RagenError(f"{game.__name__} does not take these keywords ({error}){more}") from None
    return made if settings is None else MultiAgentConversation(made, settings)


def raw_face(game: type[MultiAgentEnv], **kwargs: Any) -> AECEnv[str, Any, Any]:
    """Make a game in which agents act one after another, and a round is played after the last."""
    return parallel_to_aec_wrapper(parallel_face(game, **kwargs))


def aec_face(game: type[MultiAgentEnv], **kwargs: Any) -> AECEnv[str, Any, Any]:
    """Make the same as ``raw_face``, with PettingZoo's check that methods are called in order."""
    return parallel_to_aec(parallel_face(game, **kwargs))


def faces_of(game: type[MultiAgentEnv]) -> tuple[partial[Any], partial[Any], partial[Any]]:
    """Return PettingZoo's ``parallel_env``, ``raw_env`` and ``env`` of a game."""
    return partial(parallel_face, game), partial(raw_face, game), partial(aec_face, game)
