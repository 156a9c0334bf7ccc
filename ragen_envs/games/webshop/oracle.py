"""The best purchase and the fewest actions to it.

The reward is a sum over attributes, options and price. In published data one value may count for several
of the options asked for, so the best values of a product are found by what they count for together; the
best product follows by enumeration of the catalogue. A product is reached by the search
for its title, or by one for what the instruction asks for, or from the page that is open, whichever
takes the fewest actions; of searches that are as good, the one for what is asked for is made. In
generated catalogues the search for a title shows its product on the first page, so no other query is
faster and the number of actions is exact. In published data it is the fewest of these ways.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.games.webshop.catalogue import Catalogue, Product
from ragen_envs.games.webshop.dynamics import BUY, HITS_PER_PAGE, NEXT, PREVIOUS, Page
from ragen_envs.games.webshop.goals import Goal
from ragen_envs.games.webshop.reward import has_attribute, same_option, type_score, within
from ragen_envs.games.webshop.search import engine_of

_ROUNDING: Final = 1e-9


Pair = tuple[str, str]
"""Name of an option and its value."""
Places = frozenset[int]
"""Indices of requested options."""


class Offer(NamedTuple):
    """A product, and what it can be worth."""

    product: Product
    helpful: Mapping[Pair, Places]
    """The fewest values, of different options, that count for as many options asked for as possible."""
    type: float
    base: int
    """Points without options."""
    most: int
    """Points of a perfect purchase."""

    def choice(self, options: int, chosen: tuple[Pair, ...] = ()) -> tuple[Pair, ...]:
        """Return the best of so many helpful values; of equals, those that need the fewest clicks."""
        ordered = sorted(self.helpful, key=lambda pair: pair not in chosen)
        return max(
            combinations(ordered, options),
            key=lambda some: (self._points(some), sum(pair in chosen for pair in some)),
        )

    def worth(self, options: int) -> float:
        """Return the score with the best of so many helpful values chosen."""
        return self.type * (self.base + self._points(self.choice(options))) / self.most

    @property
    def best(self) -> float:
        """The score with all helpful values."""
        return self.worth(len(self.helpful))

    def _points(self, pairs: tuple[Pair, ...]) -> int:
        return len(Places().union(*(self.helpful[pair] for pair in pairs)))


@lru_cache(maxsize=256)
def offers(catalogue: Catalogue, goal: Goal) -> tuple[Offer, ...]:
    """Return every product that is worth something, the best first, in the order of the catalogue."""
    worthwhile = []
    counts_for: dict[str, Places] = {}
    for product in catalogue:
        kind = type_score(goal.product, product)
        if kind:
            base = sum(has_attribute(product, each, goal.similar) for each in goal.attributes)
            base += within(goal, product)
            most = len(goal.attributes) + len(goal.options) + 1
            helpful = _helpful(product, goal, counts_for)
            worthwhile.append(Offer(product, helpful, kind, base, most))
    return tuple(sorted(worthwhile, key=lambda offer: -offer.best))


def _helpful(product: Product, goal: Goal, counts_for: dict[str, Places]) -> dict[Pair, Places]:
    """Return the helpful values, in the order of the options asked for.

    For each set of options asked for, the fewest values that count for it are kept while the options of
    the product are added one by one. Of equally many, those of options with the names asked for are kept.
    ``counts_for`` remembers what values count for.
    """
    reached: dict[Places, dict[Pair, Places]] = {Places(): {}}
    for name, values in product.options:
        useful: dict[Places, str] = {}
        for value in values:
            if value not in counts_for:
                counts_for[value] = _counts_for(value, goal)
            if counts_for[value]:
                useful.setdefault(counts_for[value], value)
        for before, pairs in tuple(reached.items()) if useful else ():
            for places, value in useful.items():
                more, both = {**pairs, (name, value): places}, before | places
                if both not in reached or _cost(more, goal) < _cost(reached[both], goal):
                    reached[both] = more
    best = min(reached, key=lambda places: (-len(places), sorted(places)))
    return dict(sorted(reached[best].items(), key=lambda item: min(item[1])))


def _counts_for(value: str, goal: Goal) -> Places:
    asked = enumerate(goal.options)
    return Places(i for i, (name, wanted) in asked if same_option(name, wanted, value, goal.similar))


def _cost(pairs: Mapping[Pair, Places], goal: Goal) -> tuple[int, int]:
    """Count the values, and those of options with other names than those asked for."""
    names = [{goal.options[place][0] for place in places} for places in pairs.values()]
    return len(pairs), sum(name not in own for (name, _), own in zip(pairs, names, strict=True))


def perfect(catalogue: Catalogue, goal: Goal) -> tuple[Offer, ...]:
    """Return the products that can be bought for a score of 1."""
    return tuple(offer for offer in offers(catalogue, goal) if offer.best > 1 - _ROUNDING)


def path(catalogue: Catalogue, page: Page, offer: Offer, options: int, goal: Goal) -> tuple[str, ...] | None:
    """Return the fewest actions that buy a product with some of its helpful options.

    None if neither search finds it and it is not on the way.
    """
    labels = Page(query="", product=offer.product).option_labels
    plans = []
    for way, chosen in _ways(catalogue, page, offer.product, goal):
        pairs = [pair for pair in offer.choice(options, chosen) if pair not in chosen]
        plans.append((*way, *(f"click[{labels[pair]}]" for pair in pairs), f"click[{BUY}]"))
    return min(plans, key=len, default=None)


_Way = tuple[tuple[str, ...], tuple[Pair, ...]]


def _ways(catalogue: Catalogue, page: Page, product: Product, goal: Goal) -> Iterator[_Way]:
    """Yield ways to the page of a product, each with the options that are chosen on arrival."""
    number = catalogue.numbers[product.id]
    open_click = f"click[{product.id}]"
    values = [value for _, value in goal.options]
    natural = " ".join((*goal.attributes, *sorted(goal.product.nouns), *values))
    for query in (natural, product.title):
        hits = engine_of(catalogue).search(query.lower())
        if number in hits:
            turns = hits.index(number) // HITS_PER_PAGE
            yield (f"search[{query}]", *(turns * [f"click[{NEXT}]"]), open_click), ()
    if page.query is None:
        return
    back = [f"click[{PREVIOUS}]"] if page.subpage is not None else []
    if page.product == product:
        yield tuple(back), page.chosen
    elif number in page.hits:
        back += [f"click[{PREVIOUS}]"] if page.product is not None else []
        turns = page.hits.index(number) // HITS_PER_PAGE - (page.number - 1)
        turn = f"click[{NEXT if turns > 0 else PREVIOUS}]"
        yield (*back, *(abs(turns) * [turn]), open_click), ()


class Plan(NamedTuple):
    """A purchase, and what it is worth."""

    actions: tuple[str, ...]
    worth: float


@lru_cache(maxsize=4096)
def best_plan(catalogue: Catalogue, goal: Goal, page: Page, actions: int) -> Plan:
    """Return the purchase with the highest score within a number of actions, the shortest of equals.

    Products are tried in the order of what they can be worth; one is skipped if even that is not more than
    what was found.
    """
    best = Plan((), 0.0)
    for offer in offers(catalogue, goal):
        if offer.best < best.worth - _ROUNDING:
            break
        for options in range(len(offer.helpful), -1, -1):
            if offer.worth(options) < best.worth - _ROUNDING:
                break
            way = path(catalogue, page, offer, options, goal)
            if way is None or len(way) > actions:
                continue
            plan = Plan(way, offer.worth(options))
            better = plan.worth > best.worth + _ROUNDING
            if better or not best.actions or len(way) < len(best.actions):
                best = plan
            break
    return best


def advise(catalogue: Catalogue, goal: Goal, page: Page, budget: Budget, binary: bool) -> Advice:
    """Return the actions of the best purchase; the value is 1 if a perfect one fits the budget."""
    if page.bought or budget.reach <= 0:
        return Advice((), 0.0, 0.0)
    plan = best_plan(catalogue, goal, page, budget.reach)
    value = float(plan.worth > 1 - _ROUNDING)
    return Advice(plan.actions[: budget.this_turn], value, value if binary else plan.worth)
