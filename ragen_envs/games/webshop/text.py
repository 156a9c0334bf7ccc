"""The shop in words: the rules, and its pages as plain text and as published."""

from collections.abc import Sequence
from typing import Any, Final

from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import OwnText, Symbols
from ragen_envs.games.webshop.dynamics import BUY, PREVIOUS
from ragen_envs.games.webshop.html import page_html
from ragen_envs.games.webshop.pages import plain_text, published_text

_HINTS: Final = (
    " Hints: search for the kind of product and its attributes, not for the whole instruction. Open a "
    "product to see its options. Choose every option that the instruction names before you buy. Buy in time: "
    "without a purchase there is no reward."
)


class WebShopText(OwnText):
    """The text face of the shop."""

    def rules(self, env: Any) -> str:
        published = env.catalogue.published
        limit = "perhaps a price limit" if published else "a price limit"
        reward = (
            "1 if everything is as asked, 0 otherwise"
            if env.reward == "binary"
            else "the share of what was asked for that the purchase has, from 0 to 1, "
            f"{'little' if published else 'nothing'} for another kind of product"
        )
        return (
            "You are shopping in an online shop. The instruction says what to buy: the kind of product, its "
            f"attributes, the options to choose and {limit}. search[words], on any page, shows up to 50 "
            "products, ten on a page. click[button] presses a button of the page: a product's number opens "
            "it; an option, such as click[navy], chooses it; Description, Features and Reviews show more; "
            f"a search, {PREVIOUS} to the results or another product drops the options chosen; {BUY} buys "
            f"the product with the options chosen; then the game ends. Rewards: {reward}."
            + (_HINTS if env.hints else "")
        )

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        page, mode = (env.goal.instruction, env.page, env.catalogue), env.observation_mode
        if mode == "html":
            shown = page_html(*page)
        else:
            shown = plain_text(*page) if mode == "page" else published_text(*page, rich=mode == "text_rich")
        if env.verdict is None:
            return shown
        wrong = ", ".join(env.verdict.wrong(env.goal))
        about = f"; wrong: {wrong}" if wrong else ""
        return f"{shown}\nYou bought {env.page.product.id}. Score: {env.verdict.score:.3g}{about}."

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:
        """State the request, and the next step towards it."""
        goal = env.goal
        wanted = ", ".join((*goal.attributes, *(value for _, value in goal.options)))
        (noun,) = sorted(goal.product.nouns)[:1] or ("product",)
        limit = "" if goal.limit is None else f", at most {goal.limit} dollars"
        return f"I want a {noun}: {wanted}{limit}. So I do {', then '.join(actions)}."
