"""What a purchase is worth: the published formula, and what was wrong with it.

r = type * (attributes + options + [price within the limit]) / (|attributes| + |options| + 1)

(WebShop, arXiv 2207.01206, section 3 and its code.) ``type`` compares what the two products are.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from ragen_envs.games.webshop.catalogue import Product
from ragen_envs.games.webshop.goals import Goal
from ragen_envs.games.webshop.vocabulary import OPTIONS

_SIMILAR: Final = 85
"""Texts match above this ratio, in whole percent."""
_COLORS: Final = frozenset(OPTIONS["color"]) | frozenset(
    "amber aqua aquamarine azure blue blush bronze burgundy champagne charcoal copper coral cream crimson "
    "cyan denim fuchsia gold golden grey indigo khaki lavender lilac lime magenta mahogany maroon mauve mint "
    "mustard nude peach plum rainbow rose ruby rust salmon sand sapphire scarlet silver slate tan taupe "
    "violet wine".split()
)
_WORD: Final = re.compile(r"[a-z]+")


class Verdict(NamedTuple):
    """What a purchase is worth, and why."""

    score: float
    """In [0, 1]; 1 if everything is as asked."""
    type: float
    """1 for the right kind of product; 0.5, 0.1 or 0 for others."""
    attributes: int
    """How many of the attributes asked for it has."""
    options: int
    """How many of the options asked for were chosen."""
    price: bool
    """Whether its price is within the limit."""

    def wrong(self, goal: Goal) -> tuple[str, ...]:
        """Return what is not as asked, of "product", "attribute", "option" and "price"."""
        checks = {
            "product": self.type < 1,
            "attribute": self.attributes < len(goal.attributes),
            "option": self.options < len(goal.options),
            "price": not self.price,
        }
        return tuple(name for name, failed in checks.items() if failed)


def judge(goal: Goal, product: Product, chosen: Mapping[str, str]) -> Verdict:
    """Return what buying a product with some options is worth."""
    kind = type_score(goal.product, product)
    attributes = sum(has_attribute(product, each, goal.similar) for each in goal.attributes)
    options = sum(
        any(same_option(value, own, goal.similar) for own in chosen.values())
        for _, value in goal.options
    )
    price = within(goal, product)
    most = len(goal.attributes) + len(goal.options) + 1
    return Verdict(kind * (attributes + options + price) / most, kind, attributes, options, price)


def within(goal: Goal, product: Product) -> bool:
    """Return whether a product's price is within the goal's limit."""
    return goal.limit is None or product.price <= goal.limit


def type_score(wanted: Product, bought: Product) -> float:
    """Return how well the kind of a product matches."""
    nouns = wanted.nouns
    shared = len(nouns & bought.nouns) / len(nouns) if nouns else 0.2
    if shared == 0:
        return 0.0
    if shared < 0.1:
        return 0.1
    same_query = bool(wanted.query) and wanted.query == bought.query
    same_shelf = len(set(wanted.category) & set(bought.category)) >= 2
    return 1.0 if same_query or same_shelf or shared > 0.2 else 0.5


@lru_cache(maxsize=1 << 17)
def has_attribute(product: Product, attribute: str, similar: bool) -> bool:
    """Return whether a product has an attribute, or, if similar ones count, one like it or mentions it."""
    if not similar:
        return attribute in product.attributes
    wanted = attribute.lower()
    if wanted in product.prose:
        return True
    return any(_similar(wanted, own) for own in product.attributes)


@lru_cache(maxsize=1 << 16)
def same_option(wanted: str, chosen: str, similar: bool) -> bool:
    """Return whether the value of an option is the one asked for.

    If similar ones count, colors are compared by their first color word. Then "large" counts for "x-large".
    """
    return _similar(_plain(wanted), _plain(chosen)) if similar else wanted == chosen


def _similar(one: str, other: str) -> bool:
    """Return whether two texts match as published: by their words, whatever the signs between them."""
    return round(token_set_ratio(one, other, processor=default_process)) > _SIMILAR


def _plain(value: str) -> str:
    lowered = value.lower()
    return next((word for word in _WORD.findall(lowered) if word in _COLORS), lowered)
