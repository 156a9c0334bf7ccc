"""Goals of customers: a product by its kind, attributes, options and price."""

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from ragen_envs.errors import InstanceError
from ragen_envs.games.webshop.catalogue import FOUND, Catalogue, Product
from ragen_envs.games.webshop.vocabulary import DEPARTMENTS, bare
from ragen_envs.levels.seeding import Rng

_STEPS: Final = 4
"""The limit of the price is drawn from so many multiples of ten above it."""
_OPENINGS: Final = ("Find me", "I am looking for", "I need", "I would like to buy")
_PLAIN_NOUNS: Final = frozenset(
    noun for each in DEPARTMENTS for shelf in each.shelves for noun in shelf.nouns if noun == bare(noun)
)


@dataclass(frozen=True)
class Goal:
    """A wish: something to be bought."""

    product: Product
    """A product that fulfils the goal, if its options are chosen."""
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """Name and value of each option asked for; the name is "" in the published human instructions."""
    limit: int | None
    """Most dollars, or None for any price."""
    instruction: str
    """The goal in words."""
    similar: bool = False
    """Whether similar words count for those asked for, as in the published data, or equal ones only."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def draw_goal(catalogue: Catalogue, rng: Rng) -> Goal:
    """Draw a goal for a random product.

    The product is uniform. One to three of its attributes are asked for, at least one of which only its
    own page lists, and a value of each of its options. The limit is the larger of two from the first
    four multiples of ten above the price, as published.
    """
    product: Product = rng.choice(catalogue.products)
    hidden = rng.choice(product.attributes[FOUND:])
    others = [each for each in product.attributes if each != hidden]
    wanted = [hidden, *rng.sample(others, rng.integers(3))]
    attributes = tuple(rng.sample(wanted, len(wanted)))
    options = tuple((name, rng.choice(values)) for name, values in product.options)
    above = int(product.price) // 10 * 10
    limit = max(above + 10 * (1 + rng.integers(_STEPS)) for _ in range(2))
    words = _instruction(rng.choice(_OPENINGS), product, attributes, options, limit)
    return Goal(product, attributes, options, limit, words)


def _instruction(
    opening: str, product: Product, attributes: tuple[str, ...],
    options: tuple[tuple[str, str], ...], limit: int,
) -> str:  # fmt: skip
    (noun,) = product.nouns
    thing = f"{', '.join(attributes)} {noun}"
    if noun not in _PLAIN_NOUNS:
        thing = f"an {thing}" if thing[0] in "aeiou" and not thing.startswith("us") else f"a {thing}"
    wanted = ", ".join(f"{name}: {value}" for name, value in options)
    return f"{opening} {thing}, with {wanted}, and price lower than {limit} dollars."


def encode_goal(goal: Goal, catalogue: Catalogue) -> str:
    """Return the text form of a goal, a JSON list; it names the catalogue."""
    parts = [
        catalogue.name, goal.product.id, goal.attributes, goal.options, goal.limit, goal.instruction
    ]  # fmt: skip
    return json.dumps(parts, ensure_ascii=False)


def decode_goal(level: str, catalogue: Catalogue) -> Goal:
    """Return the goal of a level in text form.

    Raises:
        InstanceError: It is not of the form, or it is of another catalogue.
    """
    try:
        shop, product, attributes, options, limit, instruction = json.loads(level)
        goal_options = tuple((str(name), str(value)) for name, value in options)
        goal_limit = None if limit is None else int(limit)
        if not isinstance(attributes, list):
            raise TypeError(attributes)
        wanted = tuple(map(str, attributes))
        number = catalogue.numbers.get(product)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InstanceError(
            f"level {level[:80]!r} must be a JSON list: catalogue, product, list of attributes, pairs of "
            "options, limit, instruction"
        ) from None
    if shop != catalogue.name:
        raise InstanceError(
            f"level is of the catalogue {shop}, but this shop has the catalogue {catalogue.name}: the "
            "numbers of products, the seed or the version differ"
        )
    if number is None:
        raise InstanceError(f"level names the product {product}, which this shop lacks")
    return Goal(catalogue[number], wanted, goal_options, goal_limit, str(instruction), catalogue.published)
