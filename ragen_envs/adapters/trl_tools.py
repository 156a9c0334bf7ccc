"""Play games as tools of TRL's ``GRPOTrainer``.

``environment_factory=partial(GameTools, "ragen/SokobanText-v0")``: the model plays by calling the tool
``act``, so its chat template must know tools. Where it is to answer in text, as everywhere else in the
suite, use the rollout function of ``ragen_agents.adapters.trl_rollouts``.
"""

from typing import Any

from ragen_envs.adapters.shared import check_whole_history, draw_noise, make_text_only
from ragen_envs.conversation import format_reply
from ragen_envs.conversation.prompt import introduction, invalid_reply, reply_format
from ragen_envs.errors import RagenError


class GameTools:
    """One conversation game for TRL, which makes every public method but ``reset`` and ``get_reward`` a tool.

    Args:
        env_id: Id of a conversation env.
        **settings: Over those of the id, such as ``split``; ``think`` is off, because a call of a tool
            holds no thought.

    Raises:
        RagenError: A setting needs replies in text, or pictures.
    """

    def __init__(self, env_id: str, **settings: Any) -> None:
        if settings.get("think_prefix"):
            raise RagenError("think_prefix is true, but must be false: a tool call holds no thought")
        self._env = make_text_only(env_id, **{**settings, "think": False})
        if self._env.settings.demonstrations:
            raise RagenError(
                f"demonstrations is {self._env.settings.demonstrations}, but must be 0: worked examples "
                "reply in text, and here the model calls a tool"
            )
        check_whole_history(self._env)
        self._split: str | None = getattr(self._env.unwrapped, "split", None)
        self._return = 0.0

    def reset(
        self, seed: int | None = None, split: str | None = None, index: int | None = None,
        noise: int | None = None, **_: Any,
    ) -> str:  # fmt: skip
        """Start an episode from a row of the dataset; return what is appended to its prompt.

        Args:
            seed: Seed of a fresh level.
            split: Split of the level; if left out, that of the settings, whatever came before.
            index: Index of a frozen instance, instead of a seed.
            noise: Number of the random events; by default every episode has others, also within a group.
        """
        given = {
            "split": self._split if split is None else split,
            "index": index,
            "noise": draw_noise() if noise is None else noise,
        }
        options = {name: value for name, value in given.items() if value is not None}
        self._env.reset(seed=seed, options=options)
        self._return = 0.0
        env = self._env
        rules, legend = env.face.rules(env.unwrapped), env.face.legend(env.symbols)
        told = introduction(rules, legend, env.names, env.settings)
        return f"\n{told}\n{invalid_reply(env.settings, env.in_words)}\n\n{env.user}"

    def act(self, actions: str) -> str:
        """Play actions and see what they did.

        Args:
            actions: Names of actions, separated by ||, for example "Up || Right".
        """
        if self._env.end is not None:
            return "The game is over."
        text, reward, *_ = self._env.step(format_reply(_texts(actions), None))
        self._return += float(reward)
        return text.replace(f"\n{reply_format(self._env.settings)}", "")  # that of a reply without tools

    def get_reward(self) -> float:
        """Return the sum of the rewards so far."""
        return self._return


def _texts(actions: Any) -> list[str]:
    """Return the actions that a model passed, whatever its type, as texts; models also pass lists.

    An error would be a turn without a penalty.
    """
    if isinstance(actions, list) and all(isinstance(action, str) for action in actions):
        return actions
    return [str(actions)]
