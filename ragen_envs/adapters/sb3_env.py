"""Play the compiled vector games as vector envs of stable-baselines3."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from ragen_envs.errors import InstanceError, RagenError


class GameVecEnv(VecEnv):
    """``gym.make_vec`` of a numeric game, as stable-baselines3 wants it.

    Infos hold ``terminal_observation`` and ``TimeLimit.truncated`` where an episode ends, and
    ``success``. ``set_options`` takes the options of ``reset``: one mapping, or one for each copy,
    which may differ in ``index`` and ``noise``.

    Args:
        env_id: Id of a game with a compiled vector env, such as ``"ragen/FrozenLake-v0"``.
        num_envs: Number of copies.
        **settings: Keyword arguments of the game, ``max_episode_steps`` and ``render_mode``.

    Raises:
        RagenError: The game has no compiled vector env.
    """

    def __init__(self, env_id: str, num_envs: int, **settings: Any) -> None:
        import ragen_envs  # noqa: F401

        if gym.spec(env_id).vector_entry_point is None:
            raise RagenError(
                f"env_id is {env_id!r}, but must be a game with a compiled vector env, such as "
                "'ragen/Sokoban-v0'; stable-baselines3's make_vec_env takes the other numeric games"
            )
        self.vector = gym.make_vec(env_id, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        self.render_mode = self.vector.render_mode
        super().__init__(num_envs, self.vector.single_observation_space, self.vector.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Start an episode in every copy, with the seeds and options that were set."""
        seeds: Any = None if None in self._seeds else list(self._seeds)
        observations: NDArray[Any]
        observations, _ = self.vector.reset(seed=seeds, options=_joined(self._options) or None)
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions of the next step, (num_envs,)."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Play the actions."""
        observations, rewards, terminated, truncated, infos = self.vector.step(self._actions)
        dones = terminated | truncated
        ended: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(dones).tolist():
            ended[i] = {
                "terminal_observation": infos["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                "success": bool(infos["final_info"]["success"][i]),
            }
        return observations, rewards.astype(np.float32), dones, ended

    def close(self) -> None:
        """Close the copies."""
        self.vector.close()

    def get_images(self) -> Sequence[Any]:
        """Return a picture of each copy."""
        return self.vector.render() or ()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the vector env, once for each copy asked for; spaces are those of a copy."""
        single = {"observation_space", "action_space"}
        name = f"single_{attr_name}" if attr_name in single else attr_name
        return [getattr(self.vector, name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: the copies are rows of one state and have no attributes of their own."""
        raise AttributeError(f"'{attr_name}' cannot be set: the games are rows of one state")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refuse: the copies have no methods of their own."""
        raise AttributeError(f"'{method_name}' cannot be called: the games are rows of one state")

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: Any = None) -> list[bool]:
        """Return False for each copy asked for."""
        return [False] * len(list(self._get_indices(indices)))


def _joined(options: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the reset options of all copies as those of the vector env."""
    first = options[0]
    if all(each == first for each in options):
        return first
    if any(each.keys() != first.keys() or each.get("split") != first.get("split") for each in options):
        raise InstanceError(
            "the options of the copies must have the same names and the same split; "
            "only the values of index and noise may differ"
        )
    arrays = {name: [each[name] for each in options] for name in first if name != "split"}
    return {**first, **arrays}
