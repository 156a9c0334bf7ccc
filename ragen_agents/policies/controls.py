"""The controls: what a score is measured against. They answer in the text format, like a model."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from ragen_agents.policies.base import Reply, Request
from ragen_envs.conversation import Conversation, format_reply
from ragen_envs.game.oracle import Action
from ragen_envs.game.text import action_texts

_BATCH: Final = 256


def _reply(env: Conversation, actions: Sequence[Action], thought: str) -> Reply:
    names = action_texts(env.names, actions)
    return Reply(format_reply(names, thought if env.settings.think else None))


class RandomPolicy:
    """Uniformly random actions, legal ones if they are words, as many per turn as the limits allow."""

    name = "random"
    batch_size = _BATCH

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply to each request from its own seed."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Reply:
        env = request.conversation
        count = min(env.settings.actions_per_turn, env.budget.actions)
        actions = env.random_actions(np.random.default_rng(request.seed), count)
        return _reply(env, actions, "random")


class NoopPolicy:
    """A reply with an empty answer, which is invalid, to measure the value of doing nothing."""

    name = "noop"
    batch_size = _BATCH

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply with an empty answer."""
        return [_reply(request.conversation, (), "nothing") for request in requests]


class OraclePolicy:
    """The exact optimum under the budget that is left, from the game's own state."""

    name = "oracle"
    batch_size = _BATCH

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply with the oracle's actions for this turn."""
        return [
            _reply(request.conversation, request.conversation.oracle().actions, "optimal")
            for request in requests
        ]


Control: TypeAlias = RandomPolicy | NoopPolicy | OraclePolicy
"""A policy that looks into the game. Asked for one request at a time, it replies as for many."""


class ScriptedPolicy:
    """Replies computed by a function of the chat; for tests and for rule-based agents."""

    batch_size = _BATCH

    def __init__(self, name: str, script: Callable[[list[dict[str, str]]], str]) -> None:
        self.name = name
        self._script = script

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply with the script's output for each chat."""
        return [Reply(self._script(request.messages)) for request in requests]
