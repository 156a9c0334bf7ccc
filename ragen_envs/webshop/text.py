"""The shop in words: the rules, and its pages as plain text and as published."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragen_envs.oracle import Budget
from ragen_envs.text import Symbols
from ragen_envs.webshop.catalogue import Catalogue, Product
from ragen_envs.webshop.dynamics import BACK, BUY, PREVIOUS, SUBPAGES, Page, buttons

_SEPARATOR: Final = " [SEP] "
_HINTS: Final = (
    " Hints: search for the kind of product and its attributes, not for the whole instruction. Open a "
    "product to see its options. Choose every option that the instruction names before you buy. Buy in time: "
    "without a purchase there is no reward."
)


class WebShopText:
    """The text face of the shop."""

    vocabularies: Mapping[str, Symbols] = {"standard": {}}

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""
        reward = (
            "1 if everything is as asked, 0 otherwise"
            if env.reward == "binary"
            else "the share of what was asked for that the purchase has, from 0 to 1, nothing for another "
            "kind of product"
        )
        return (
            "You are shopping in an online shop. The instruction says what to buy: the kind of product, its "
            "attributes, the options to choose and a price limit. search[words] shows up to 50 products, "
            "ten on a page. click[button] presses a button of the page: a product's number opens it; an "
            "option, such as click[navy], chooses it; Description, Features and Reviews show more; "
            f"{BUY} buys the product with the options chosen; then the game ends. Rewards: {reward}."
            + (_HINTS if env.hints else "")
        )

    def legend(self, symbols: Symbols) -> str:  # noqa: ARG002
        """Return "": there is no board."""
        return ""

    def actions(self, env: Any) -> tuple[str, ...]:  # noqa: ARG002
        """Return the forms of the actions."""
        return "search[words]", "click[button]"

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:  # noqa: ARG002
        """Return the page, in the form that the env was made for."""
        shown = page_text(env.goal.instruction, env.page, env.catalogue, env.observation_mode)
        return shown if env.verdict is None else f"{shown}\n{_outcome(env)}"

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:  # noqa: ARG002
        """Say what is wanted, and what is done about it."""
        goal = env.goal
        wanted = ", ".join((*goal.attributes, *(value for _, value in goal.options)))
        (noun,) = sorted(goal.product.nouns)[:1] or ("product",)
        limit = "" if goal.limit is None else f", at most {goal.limit} dollars"
        return f"I want a {noun}: {wanted}{limit}. So I do {', then '.join(actions)}."


def _outcome(env: Any) -> str:
    """Return what was bought, its score and what was wrong with it."""
    wrong = ", ".join(env.verdict.wrong(env.goal))
    about = f"; wrong: {wrong}" if wrong else ""
    return f"You bought {env.page.product.id}. Score: {env.verdict.score:.3g}{about}."


def page_text(instruction: str, page: Page, catalogue: Catalogue, mode: str) -> str:
    """Return a page as text: "page", "text", "text_rich" or "html"."""
    if mode == "html":
        from ragen_envs.webshop.html import page_html

        return page_html(instruction, page, catalogue)
    if mode == "page":
        return _plain(instruction, page, catalogue)
    pieces = _pieces(instruction, page, catalogue)
    if mode == "text":
        return _SEPARATOR.join(text for text, _ in pieces)
    return "\n".join(_rich(text, kind) for text, kind in pieces)


def _rich(text: str, kind: str) -> str:
    if kind == "button":
        return f"[button] {text} [button_]"
    return f"[clicked button] {text} [clicked button_]" if kind == "clicked" else text


def _pieces(instruction: str, page: Page, catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the visible texts of a page in their order, each "text", "button" or "clicked"."""
    found = [("Instruction:", "text"), (instruction, "text")]
    if page.query is None:
        return [("WebShop", "text"), *found, ("Search", "button")]
    found.append((BACK, "button"))
    if page.product is None:
        found.append((f"Page {page.number} (Total results: {len(page.hits)})", "text"))
        turns = [label for label in buttons(page, catalogue)[1:] if label in ("< Prev", "Next >")]
        found += [(label, "button") for label in turns]
        for number in page.shown:
            product = catalogue[number]
            found += [(product.id, "button"), (product.title, "text"), (_price(product), "text")]
        return found
    found.append((PREVIOUS, "button"))
    if page.subpage is not None:
        return [*found, *((line, "text") for line in subpage_lines(page.product, page.subpage))]
    chosen = set(page.chosen)
    labels = {pair: label for label, pair in page.option_buttons.items()}
    for name, values in page.product.options:
        found.append((name, "text"))
        for value in values:
            found.append((labels[name, value], "clicked" if (name, value) in chosen else "button"))
    product = page.product
    found += [(product.title, "text"), (f"Price: {_price(product)}", "text")]
    found += [(f"Rating: {_rating(product)}", "text")]
    return [*found, *((label, "button") for label in (*SUBPAGES, BUY))]


def _plain(instruction: str, page: Page, catalogue: Catalogue) -> str:
    """Return a page as a person would write it down."""
    return "\n".join([f"Instruction: {instruction}", *_plain_lines(page, catalogue)])


def _plain_lines(page: Page, catalogue: Catalogue) -> Iterator[str]:
    if page.query is None:
        yield "You are on the search page. Search for something."
        return
    product = page.product
    if product is None:
        yield (
            f"Results for '{page.query[:100]}': {len(page.hits)} products, "
            f"page {page.number} of {page.pages}"
        )
        for number in page.shown:
            each = catalogue[number]
            yield f"[{each.id}] {each.title}, {_price(each)}"
    elif page.subpage is not None:
        yield f"{page.subpage} of {product.title}"
        yield from subpage_lines(product, page.subpage)
    else:
        yield f"{product.title}, {_price(product)}, {_rating(product)}"
        for name, values in product.options:
            mark = page.options.get(name)
            shown = " ".join(f"[{label}]" for label in _labels(page, name))
            yield f"{name}: {shown}" + (f" (chosen: {mark})" if mark in values else "")
        if page.bought:
            return
    ids = {catalogue[number].id for number in page.shown} if product is None else set()
    options = page.option_buttons
    others = [label for label in buttons(page, catalogue) if label not in ids | set(options)]
    if others:
        yield "Buttons: " + " ".join(f"[{label}]" for label in others)


def _labels(page: Page, option: str) -> list[str]:
    return [label for label, (name, _) in page.option_buttons.items() if name == option]


def subpage_lines(product: Product, subpage: str) -> tuple[str, ...]:
    """Return what a sub-page of a product says."""
    if subpage == "Description":
        return (product.description or "There is no description.",)
    if subpage == "Features":
        return product.bullets or ("There are no features.",)
    return product.reviews or ("There are no reviews.",)


def _price(product: Product) -> str:
    return f"${product.price:.2f}"


def _rating(product: Product) -> str:
    return f"{product.rating:.1f} stars" if product.rating else "no rating"
