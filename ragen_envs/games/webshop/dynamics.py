"""The rules of the shop: its pages, what can be clicked on them, and what an action leads to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted
from ragen_envs.games.webshop.catalogue import Catalogue, Product
from ragen_envs.games.webshop.search import engine_of

HITS_PER_PAGE: Final = 10
SUBPAGES: Final = ("Description", "Features", "Reviews")
BACK: Final = "Back to Search"
PREVIOUS: Final = "< Prev"
NEXT: Final = "Next >"
BUY: Final = "Buy Now"

_FORM: Final = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """The page at which the customer is. Pages are values: each action gives a new one."""

    query: str | None = None
    """The last search, or None on the search page."""
    hits: tuple[int, ...] = ()
    """Numbers of the products found."""
    number: int = 1
    """The page of the results, from 1."""
    product: Product | None = None
    """The product looked at, or None."""
    chosen: tuple[tuple[str, str], ...] = ()
    """Options chosen for it: names and values, in the order of the product."""
    subpage: str | None = None
    """One of ``SUBPAGES``, or None."""
    bought: bool = False

    @property
    def pages(self) -> int:
        """Number of pages of results, at least 1."""
        return max(1, -(-len(self.hits) // HITS_PER_PAGE))

    @property
    def shown(self) -> tuple[int, ...]:
        """Numbers of the products on this page of the results."""
        first = (self.number - 1) * HITS_PER_PAGE
        return self.hits[first : first + HITS_PER_PAGE]

    @property
    def options(self) -> Mapping[str, str]:
        """The options chosen, by name."""
        return dict(self.chosen)

    @cached_property
    def option_labels(self) -> Mapping[tuple[str, str], str]:
        """The label of each option's button, by name and value.

        A button is labelled by its value, or, where options share a value, by ``name: value``.
        """
        if self.product is None or self.subpage is not None:
            return {}
        pairs = [(name, value) for name, values in self.product.options for value in values]
        labels = [value.casefold() for _, value in pairs]
        fixed = {each.casefold() for each in (*SUBPAGES, BUY, BACK, PREVIOUS)}
        return {
            (name, value): value
            if labels.count(value.casefold()) == 1 and value.casefold() not in fixed
            else f"{name}: {value}"
            for name, value in pairs
        }

    @cached_property
    def option_buttons(self) -> Mapping[str, tuple[str, str]]:
        """Name and value of each option's button, by its label."""
        return {label: pair for pair, label in self.option_labels.items()}


def buttons(page: Page, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the labels of what can be clicked."""
    if page.bought or page.query is None:
        return ()
    if page.product is None:
        turn = [PREVIOUS] if page.number > 1 else []
        turn += [NEXT] if page.number < page.pages else []
        return (BACK, *turn, *(catalogue[number].id for number in page.shown))
    if page.subpage is not None:
        return BACK, PREVIOUS
    return (BACK, PREVIOUS, *page.option_buttons, *SUBPAGES, BUY)


def read_action(action: str) -> tuple[str, str] | None:
    """Return the kind of an action, "search" or "click", and its argument, or None if it is neither."""
    match = _FORM.fullmatch(action)
    return None if match is None else (match[1].lower(), " ".join(match[2].split()))


def legality(page: Page, catalogue: Catalogue, action: str) -> Legality:
    """Return whether an action may be played on a page."""
    read = read_action(action)
    if read is None:
        return illegal(f"{quoted(action)} does not have the form search[words] or click[button]")
    kind, argument = read
    if not argument:
        return illegal("the brackets are empty")
    if kind == "search":
        return LEGAL
    labels = buttons(page, catalogue)
    if _button(labels, argument) is None:
        choices = ", ".join(labels) if labels else "none; search first"
        return illegal(f"there is no button {quoted(argument)} here; the buttons are {choices}")
    return LEGAL


def _button(labels: tuple[str, ...], argument: str) -> str | None:
    wanted = argument.casefold()
    return next((label for label in labels if label.casefold() == wanted), None)


def play(page: Page, catalogue: Catalogue, action: str) -> Page:
    """Return the page to which a legal action leads."""
    read = read_action(action)
    assert read is not None
    kind, argument = read
    if kind == "search":
        return Page(query=argument, hits=engine_of(catalogue).search(argument.lower()))
    label = _button(buttons(page, catalogue), argument)
    assert label is not None
    if label in page.option_buttons:
        return _with_option(page, *page.option_buttons[label])
    if label == BACK:
        return Page()
    if label == PREVIOUS:
        return _previous(page)
    if label == NEXT:
        return replace(page, number=page.number + 1)
    if label == BUY:
        return replace(page, bought=True)
    if label in SUBPAGES:
        return replace(page, subpage=label)
    return replace(page, product=catalogue[catalogue.numbers[label]], chosen=())


def _previous(page: Page) -> Page:
    if page.subpage is not None:
        return replace(page, subpage=None)
    if page.product is not None:
        return replace(page, product=None, chosen=())
    return replace(page, number=page.number - 1)


def _with_option(page: Page, name: str, value: str) -> Page:
    assert page.product is not None
    options = {**page.options, name: value}
    order = [each for each, _ in page.product.options]
    return replace(page, chosen=tuple((each, options[each]) for each in order if each in options))
