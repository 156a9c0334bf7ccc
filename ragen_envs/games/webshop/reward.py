"""Score purchases: the published formula, and what was wrong with it.

r = type * (attributes + options + [price within the limit]) / (|attributes| + |options| + 1)

(WebShop, arXiv 2207.01206, section 3 and its code.) ``type`` compares what the two products are.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.fuzz import token_set_ratio

from ragen_envs.games.webshop.catalogue import Product
from ragen_envs.games.webshop.goals import Goal

_SIMILAR: Final = 85
"""Texts match above this ratio, in whole percent."""
_COLORS: Final = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy "
    "camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral "
    "cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite "
    "grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta "
    "maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange "
    "peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate "
    "steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
).split()
"""The published colors. The first of them within a value stands for it, also in "standard" (tan)."""
_LATIN: Final = dict.fromkeys(range(128, 256))
_NO_WORD: Final = re.compile(r"\W")


class Verdict(NamedTuple):
    """The worth of a purchase, and the reasons."""

    score: float
    """Score in [0, 1]; 1 if everything is as requested."""
    type: float
    """1 for the right kind of product; 0.5, 0.1 or 0 for others."""
    attributes: int
    """Number of requested attributes that it has."""
    options: int
    """Number of requested options that were chosen."""
    price: bool
    """Whether its price is within the limit."""

    def wrong(self, goal: Goal) -> tuple[str, ...]:
        """Return the faults of the purchase, of "product", "attribute", "option" and "price"."""
        checks = {
            "product": self.type < 1,
            "attribute": self.attributes < len(goal.attributes),
            "option": self.options < len(goal.options),
            "price": not self.price,
        }
        return tuple(name for name, failed in checks.items() if failed)


def judge(goal: Goal, product: Product, chosen: Mapping[str, str]) -> Verdict:
    """Judge the purchase of a product with some options."""
    kind = type_score(goal.product, product)
    attributes = sum(has_attribute(product, each, goal.similar) for each in goal.attributes)
    options = sum(
        any(same_option(name, value, own, goal.similar) for own in chosen.values())
        for name, value in goal.options
    )
    price = within(goal, product)
    most = len(goal.attributes) + len(goal.options) + 1
    return Verdict(kind * (attributes + options + price) / most, kind, attributes, options, price)


def within(goal: Goal, product: Product) -> bool:
    """Return whether a product's price is within the goal's limit."""
    return goal.limit is None or product.price <= goal.limit


def type_score(wanted: Product, bought: Product) -> float:
    """Score the kind of a product."""
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
def same_option(name: str, wanted: str, chosen: str, similar: bool) -> bool:
    """Return whether the value of an option is the one asked for.

    If similar ones count, it is as published: colors stand for values, and "large" counts for "x-large". The
    name belongs to what is asked for, unless it is ""; then a value counts for a color only if it is one.
    """
    if not similar:
        return wanted == chosen
    if name:
        requested = next((color for color in _COLORS if color in (name, wanted)), f"{name} {wanted}")
    else:
        requested = _plain(wanted)
    return _similar(requested, _plain(chosen))


def _similar(one: str, other: str) -> bool:
    """Return whether two texts match as published: by their words, whatever the signs between them."""
    return round(token_set_ratio(one, other, processor=_words)) > _SIMILAR


def _words(text: str) -> str:
    return _NO_WORD.sub(" ", text.translate(_LATIN)).lower().strip()


def _plain(value: str) -> str:
    lowered = value.lower()
    return next((color for color in _COLORS if color in lowered), lowered)
