"""Serve a game with OpenEnv, and play it as its client.

``uvicorn --factory ragen_envs.adapters.openenv_server:app`` serves the game that the environment variable
``RAGEN_GAME`` names, ``ragen/SokobanText-v0`` if there is none; each session has its own copy.
"""

import os
from functools import partial
from typing import Any
from uuid import uuid4

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from ragen_envs.adapters.shared import make_text_only

SESSIONS = 256
"""Most sessions at a time."""


class GameAction(Action):
    """A reply."""

    reply: str
    """Any text; the prompt says what form it should have."""


class GameObservation(Observation):
    """The observation of the player; ``reward`` and ``done`` are the base's."""

    text: str
    """The whole first prompt after a reset, then the next user message."""
    messages: list[dict[str, str]]
    """The chat that a model should be sent now, under the history setting."""
    success: bool | None
    """Whether the goal is reached; None in an environment that does not say."""
    end: str
    """End reason of the episode, or ""."""


class GameEnvironment(Environment[GameAction, GameObservation, State]):
    """The server's side of a conversation game.

    Args:
        env_id: Id of a conversation env.
        **settings: Over those of the id.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, **settings: Any) -> None:
        super().__init__()
        self._env = make_text_only(env_id, **settings)
        self._state = State(episode_id=None, step_count=0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> GameObservation:
        """Start an episode.

        Args:
            seed: Seed of a fresh level.
            episode_id: Name of the episode; a random one if left out.
            **options: ``split``, ``index`` and ``noise``, as of the game's ``reset``.
        """
        text, info = self._env.reset(seed=seed, options=options)
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return self._observation(text, info, None, done=False)

    def step(self, action: GameAction, timeout_s: float | None = None, **_: Any) -> GameObservation:
        """Play one reply."""
        text, reward, terminated, truncated, info = self._env.step(action.reply)
        self._state.step_count += 1
        return self._observation(text, info, float(reward), done=terminated or truncated)

    @property
    def state(self) -> State:
        """The episode's name and how many replies were played."""
        return self._state

    def _observation(
        self, text: str, info: dict[str, Any], reward: float | None, done: bool
    ) -> GameObservation:
        return GameObservation(
            text=text, messages=self._env.messages, success=info["success"], end=info["end"],
            reward=reward, done=done,
        )  # fmt: skip


class GameClient(EnvClient[GameAction, GameObservation, State]):
    """The player's side: ``with GameClient(base_url=...).sync() as game: game.reset(seed=0)``."""

    def _step_payload(self, action: GameAction) -> dict[str, Any]:
        return {"reply": action.reply}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[GameObservation]:
        result = {name: payload[name] for name in ("reward", "done")}
        observation = GameObservation(**payload["observation"], **result)
        return StepResult(observation=observation, **result)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


def app(env_id: str | None = None, **settings: Any) -> Any:
    """Return the FastAPI application that serves a game.

    Args:
        env_id: Id of a conversation env; the environment variable ``RAGEN_GAME`` if left out.
        **settings: Over those of the id.

    Raises:
        RagenError: There is no such game, or it does not have these settings.
    """
    name = env_id or os.environ.get("RAGEN_GAME", "ragen/SokobanText-v0")
    make_text_only(name, **settings)  # fails here, not in the first session
    session = partial(GameEnvironment, name, **settings)
    return create_fastapi_app(session, GameAction, GameObservation, max_concurrent_envs=SESSIONS)
