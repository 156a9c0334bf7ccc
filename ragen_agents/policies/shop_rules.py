"""Rule-based customers of WebShop. They read the page, not the goal."""

import re
from collections.abc import Sequence
from typing import ClassVar

from ragen_agents.policies.base import Reply, Request
from ragen_envs.conversation import format_reply
from ragen_envs.errors import RagenError
from ragen_envs.games.webshop.dynamics import BUY
from ragen_envs.games.webshop.env import WebShopEnv


class FirstHitPolicy:
    """The published rule: search for the instruction and buy the first product found, without any option.

    It is the rule of WebShop's ``baseline_models/test.py``.
    """

    name = "webshop-first-hit"
    batch_size = 256
    chooses_options: ClassVar[bool] = False

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply to each request by rule."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Reply:
        conversation = request.conversation
        shop = getattr(conversation, "unwrapped", None)
        if not isinstance(shop, WebShopEnv):
            raise RagenError(f"the agent '{self.name}' plays WebShop only")
        thought = "by rule" if conversation.settings.think else None
        return Reply(format_reply([self._action(shop)], thought))

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


SHOP_RULES: dict[str, type[FirstHitPolicy]] = {
    FirstHitPolicy.name: FirstHitPolicy,
    RulePolicy.name: RulePolicy,
}
"""Agents for WebShop that follow a rule."""
