"""The best purchase and the fewest actions to it.

The reward is a sum over attributes, options and price, so the best options of a product are chosen one
by one, and the best product follows by enumeration of the catalogue. A product is reached by the search
for its title, or by one for what the instruction asks for, or from the page that is open, whichever
takes the fewest actions; of searches that are as good, the one for what is asked for is made. In
generated catalogues the search for a title shows its product on the first page, so no other query is
faster and the number of actions is exact. In published data it is the fewest of these ways.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from ragen_envs.oracle import Advice, Budget
from ragen_envs.webshop.catalogue import Catalogue, Product
from ragen_envs.webshop.dynamics import BUY, HITS_PER_PAGE, NEXT, PREVIOUS, Page
from ragen_envs.webshop.goals import Goal
from ragen_envs.webshop.reward import has_attribute, same_option, type_score, within
from ragen_envs.webshop.search import engine_of

_ROUNDING: Final = 1e-9


class Offer(NamedTuple):
    """A product, and what it can be worth."""

    product: Product
    helpful: tuple[tuple[str, str], ...]
    """The options that count, name and value: one for each option asked for that the product has."""
    type: float
    base: int
    """Points without options."""
    most: int
    """Points of a perfect purchase."""

    def worth(self, options: int) -> float:
        """Return the score with so many helpful options chosen."""
        return self.type * (self.base + options) / self.most

    @property
    def best(self) -> float:
        """The score with all helpful options."""
        return self.worth(len(self.helpful))


@lru_cache(maxsize=256)
def offers(catalogue: Catalogue, goal: Goal) -> tuple[Offer, ...]:
    """Return every product that is worth something, the best first, in the order of the catalogue."""
    found = []
    for product in catalogue:
        kind = type_score(goal.product, product)
        if kind:
            base = sum(has_attribute(product, each, goal.similar) for each in goal.attributes)
            base += within(goal, product)
            most = len(goal.attributes) + len(goal.options) + 1
            found.append(Offer(product, _helpful(product, goal), kind, base, most))
    return tuple(sorted(found, key=lambda offer: -offer.best))


def _helpful(product: Product, goal: Goal) -> tuple[tuple[str, str], ...]:
    """Return values to choose, of different options, that match options asked for."""
    chosen: dict[str, str] = {}
    for name, wanted in goal.options:
        ordered = sorted(product.options, key=lambda option: option[0] != name)
        for own, values in ordered:
            match = next(
                (value for value in values if same_option(wanted, value, goal.similar)), None
            )
            if match is not None and own not in chosen:
                chosen[own] = match
                break
    return tuple(chosen.items())


def perfect(catalogue: Catalogue, goal: Goal) -> tuple[Offer, ...]:
    """Return the products that can be bought for a score of 1."""
    return tuple(offer for offer in offers(catalogue, goal) if offer.best > 1 - _ROUNDING)


def path(
    catalogue: Catalogue, page: Page, offer: Offer, options: int, goal: Goal
) -> tuple[str, ...] | None:
    """Return the fewest actions that buy a product with some of its helpful options.

    None if neither search finds it and it is not on the way.
    """
    ways = list(_ways(catalogue, page, offer.product, goal))
    if not ways:
        return None
    way = min(ways, key=lambda each: len(each[0]) + _clicks(offer, each[1], options))
    clicks = [pair for pair in offer.helpful if pair not in way[1]]
    kept = len(offer.helpful) - len(clicks)
    labels = _labels(offer.product)
    chosen = [f"click[{labels[pair]}]" for pair in clicks[: max(0, options - kept)]]
    return (*way[0], *chosen, f"click[{BUY}]")


def _labels(product: Product) -> dict[tuple[str, str], str]:
    page = Page(query="", product=product)
    return {pair: label for label, pair in page.option_buttons.items()}


def _clicks(offer: Offer, chosen: tuple[tuple[str, str], ...], options: int) -> int:
    return max(0, options - sum(pair in chosen for pair in offer.helpful))


_Way = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


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
            found = path(catalogue, page, offer, options, goal)
            if found is None or len(found) > actions:
                continue
            plan = Plan(found, offer.worth(options))
            better = plan.worth > best.worth + _ROUNDING
            if better or not best.actions or len(found) < len(best.actions):
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
