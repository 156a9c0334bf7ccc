"""One seat of a turn-based game of PettingZoo as an environment of Gymnasium."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

Opponent = Callable[[Any, Any, np.random.Generator], Any]
"""Returns an action, given an observation, the mask of the legal actions or None, and random numbers."""


class SeatEnv(gym.Env[Any, Any]):
    """Play one seat of an AEC game, while the others play by a function or at random.

    The reward is what the seat earns until its next turn. An action that the game's ``action_mask`` forbids
    changes nothing. ``ragen_envs.conversation.make`` makes a conversation of it.

    Args:
        game: The game, not one of the suite's.
        seat: Place of the player among ``game.possible_agents``, from 0.
        opponent: Chooses the actions of all others from an observation, the mask of its legal actions (or
            None), and a generator; a random legal one if left out.
    """

    def __init__(self, game: AECEnv[str, Any, Any], seat: int = 0, opponent: Opponent | None = None) -> None:
        self.game, self.agent, self._opponent = game, game.possible_agents[seat], opponent
        self.metadata = dict(game.metadata)
        self.render_mode = getattr(game, "render_mode", None)
        self.action_space = game.action_space(self.agent)
        seen: Any = game.observation_space(self.agent)
        self._is_masked = isinstance(seen, spaces.Dict) and "action_mask" in seen.spaces
        self.observation_space = seen["observation"] if self._is_masked else seen

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start the game and play to the seat's first turn."""
        super().reset(seed=seed)
        self.game.reset(seed=seed, options=options)
        observation, _, _, _, info = self._next_turn()
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action, and the others' to the seat's next turn or to the end."""
        observation, reward, terminated, truncated, info = self.game.last()
        seen, mask = self._split(observation)
        if terminated or truncated:  # others have ended the game before the seat's first turn
            return seen, float(reward), terminated, truncated, info
        if mask is not None and not mask[action]:
            return seen, 0.0, False, False, info
        self.game.step(action)
        return self._next_turn()

    def _next_turn(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        for agent in self.game.agent_iter():
            observation, reward, terminated, truncated, info = self.game.last()
            seen, mask = self._split(observation)
            if agent == self.agent:
                return seen, float(reward), terminated, truncated, info
            is_out = terminated or truncated
            self.game.step(None if is_out else self._choose(agent, seen, mask))
        raise RuntimeError(f"{self.game} has ended without a last turn of {self.agent}")

    def _choose(self, agent: str, seen: Any, mask: Any) -> Any:
        if self._opponent is not None:
            return self._opponent(seen, mask, self.np_random)
        space = self.game.action_space(agent)
        space.seed(int(self.np_random.integers(2**31)))
        return space.sample(mask)

    def _split(self, observation: Any) -> tuple[Any, Any]:
        """Return the observation and the mask, or None without one."""
        if not self._is_masked:
            return observation, None
        return observation["observation"], observation["action_mask"]

    def render(self) -> Any:
        """Render the game."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()
