"""Rule-based agents: the controls that scores are measured against, and rules for WebShop."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from ragen_agents.policies.base import Reply, Request
from ragen_envs.conversation import Conversation, format_reply
from ragen_envs.errors import RagenError
from ragen_envs.game.oracle import Action
from ragen_envs.game.text import action_texts
from ragen_envs.games.webshop.dynamics import BUY
from ragen_envs.games.webshop.env import WebShopEnv


def _reply(env: Conversation, actions: Sequence[Action], thought: str) -> Reply:
    names = action_texts(env.names, actions)
    return Reply(format_reply(names, thought if env.settings.think else None))


class _OneByOne(ABC):
    """Replies to each request by itself."""

    batch_size = 256

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply to each request."""
        return [self._answer(request) for request in requests]

    @abstractmethod
    def _answer(self, request: Request) -> Reply: ...


class RandomPolicy(_OneByOne):
    """Uniformly random actions, legal ones if they are words, as many per turn as the limits allow."""

    name = "random"

    def _answer(self, request: Request) -> Reply:
        env = request.conversation
        count = env.budget.this_turn
        actions = env.random_actions(np.random.default_rng(request.seed), count)
        return _reply(env, actions, "random")


class NoopPolicy(_OneByOne):
    """A reply with an empty answer, which is invalid, to measure the value of doing nothing."""

    name = "noop"

    def _answer(self, request: Request) -> Reply:
        return _reply(request.conversation, (), "nothing")


class OraclePolicy(_OneByOne):
    """The exact optimum under the budget that is left, from the game's own state."""

    name = "oracle"

    def _answer(self, request: Request) -> Reply:
        return _reply(request.conversation, request.conversation.oracle().actions, "optimal")


Control: TypeAlias = RandomPolicy | NoopPolicy | OraclePolicy
"""A policy that looks into the game. Asked for one request at a time, it replies as for many."""


class FirstHitPolicy(_OneByOne):
    """The published rule: search for the instruction and buy the first product found, without any option.

    It is the rule of WebShop's ``baseline_models/test.py``.
    """

    name = "webshop-first-hit"
    chooses_options: ClassVar[bool] = False

    def _answer(self, request: Request) -> Reply:
        conversation = request.conversation
        shop = getattr(conversation, "unwrapped", None)
        if not isinstance(shop, WebShopEnv):
            raise RagenError(f"the agent '{self.name}' plays WebShop only")
        return _reply(conversation, (self._action(shop),), "by rule")

    def _action(self, shop: WebShopEnv) -> str:
        page, instruction = shop.page, shop.goal.instruction
        if page.query is None:
            return f"search[{instruction}]"
        if page.product is None:
            shown = page.shown
            return f"click[{shop.catalogue[shown[0]].id}]" if shown else f"search[{instruction}]"
        if self.chooses_options:
            values = dict(page.product.options)
            for label, (name, value) in page.option_buttons.items():
                if name not in page.options and value == _named(values[name], instruction):
                    return f"click[{label}]"
        return f"click[{BUY}]"


class RulePolicy(FirstHitPolicy):
    """The published rule, but it also chooses the options that the instruction names."""

    name = "webshop-rule"
    chooses_options = True


def _named(values: Sequence[str], instruction: str) -> str | None:
    """Return the longest value that the instruction names in whole words, or None."""

    def is_named(value: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", instruction, re.I) is not None

    return max(filter(is_named, values), key=len, default=None)


SHOP_RULES = {rule.name: rule for rule in (FirstHitPolicy, RulePolicy)}
"""Agents for WebShop that follow a rule."""
