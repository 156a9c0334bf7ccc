"""The goods of a shop: products, and a catalogue made from a seed."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Self

from ragen_envs.games.webshop.vocabulary import BRANDS, DEPARTMENTS, OPTIONS, SERIES, Shelf, bare
from ragen_envs.levels.seeding import Rng, new_stream

FAMILY: Final = 5
"""Products of a family: one, and four that differ from it in one thing each."""
FOUND: Final = 2
"""The search finds a product by so many of its four attributes; its page lists the others."""

_CENTS: Final = (0, 49, 95, 99)
_SENTENCES: Final = (
    "From the {series} line by {brand}. Key facts: {a}, {b}.",
    "Made by {brand} for everyday use: {a}, {b}.",
    "What customers like about the {series} {noun}: {a}, {b}.",
    "{brand} {noun}, {series} line. Known for: {a}, {b}.",
)
_PRAISE: Final = (
    "Exactly as described.", "Good value for the price.", "I would buy it again.",
    "Arrived on time and well packed.", "Better than the one I had before.",
)  # fmt: skip


@dataclass(frozen=True)
class Product:
    """One thing that the shop sells."""

    id: str
    title: str
    category: tuple[str, ...]
    """Names from the department down, at least one."""
    nouns: frozenset[str]
    """Kinds of product that the title names, in lower case."""
    attributes: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Each option's name and its values."""
    price: float
    """Price in dollars."""
    rating: float
    """Stars, up to 5; 0 for no rating."""
    description: str
    bullets: tuple[str, ...]
    reviews: tuple[str, ...]
    family: str
    """Products of one family belong to one split."""
    query: str = ""
    """The term under which it was collected, in published data; else ""."""

    def __hash__(self) -> int:
        return hash(self.id)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @cached_property
    def searchable(self) -> str:
        """The text that the search reads, in lower case."""
        options = " ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()

    @cached_property
    def prose(self) -> str:
        """Title, bullets and description in lower case, where attributes may be mentioned."""
        return " ".join((self.title, *self.bullets, self.description)).lower()


class Catalogue(Sequence[Product]):
    """The products of a shop, in their order. Copies and pickles of a generated one share its products.

    Args:
        products: At least one; their ids differ.
        origin: A function and its arguments that give the same catalogue.
        published: Whether these are published data, not generated ones.
    """

    def __init__(
        self, products: Sequence[Product], origin: tuple[Any, tuple[Any, ...]], published: bool = False
    ) -> None:
        self.products = tuple(products)
        self.published = published
        self._origin = origin
        self.numbers = {product.id: number for number, product in enumerate(self.products)}

    def __len__(self) -> int:
        return len(self.products)

    def __getitem__(self, number: Any) -> Any:
        return self.products[number]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin

    @cached_property
    def content_hash(self) -> str:
        """Hexadecimal SHA-256 of everything that the products say."""
        digest = hashlib.sha256()
        for product in self.products:
            parts = (
                product.id, product.title, product.category, sorted(product.nouns), product.attributes,
                product.options, f"{product.price:.2f}", product.rating, product.description,
                product.bullets, product.reviews, product.family, product.query,
            )  # fmt: skip
            digest.update(repr(parts).encode())
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """The first eight digits of the hash, which levels name."""
        return self.content_hash[:8]


@lru_cache(maxsize=4)
def make_catalogue(products: int, seed: int = 0) -> Catalogue:
    """Return a catalogue of at least 5 products made from a seed, the same on every machine.

    Products come in families of five, spread over the catalogue: a product, and others that differ from
    it in an attribute, in what they are, in the values of an option, or in the price.
    """
    order = Rng(new_stream("webshop catalogue", f"order of {products}", seed))
    places = order.sample(range(products), products)
    made: list[Product] = []
    for family in range(math.ceil(products / FAMILY)):
        rng = Rng(new_stream("webshop catalogue", f"family {family}", seed))
        for design in _family(rng)[: products - len(made)]:
            made.append(_worded(places[len(made)], f"{seed}-{family}", rng, **design))
    made.sort(key=lambda product: product.id)
    return Catalogue(made, (make_catalogue, (products, seed)))


def _family(rng: Rng) -> list[dict[str, Any]]:
    """Return five products before they are put into words."""
    department = rng.choice(DEPARTMENTS)
    shelf = rng.choice(department.shelves)
    nouns = [bare(noun) for noun in rng.sample(shelf.nouns, 2)]
    known = dict.fromkeys((*shelf.attributes, *department.attributes))
    attributes = tuple(rng.sample(list(known), 5))
    options = tuple((name, _values(rng, OPTIONS[name])) for name in shelf.options)
    base: dict[str, Any] = {
        "shelf": (department.name, shelf.name), "noun": nouns[0], "brand": rng.choice(BRANDS),
        "series": rng.choice(SERIES), "attributes": attributes[:4], "options": options,
        "price": _price(rng, shelf),
    }  # fmt: skip
    place = FOUND + rng.integers(4 - FOUND)
    swapped = (*attributes[:place], attributes[4], *attributes[place + 1 : 4])
    changed = rng.integers(len(options))
    others = tuple(
        (name, _other_values(rng, OPTIONS[name], values) if i == changed else values)
        for i, (name, values) in enumerate(options)
    )
    dearer = round(base["price"] * (1.5 + rng.integers(100) / 100), 2)
    return [
        base,
        base | {"attributes": swapped},
        base | {"noun": nouns[1]},
        base | {"options": others},
        base | {"price": dearer},
    ]


def _values(rng: Rng, known: Sequence[str]) -> tuple[str, ...]:
    chosen = rng.sample(known, 3 + rng.integers(min(3, len(known) - 2)))
    return tuple(sorted(chosen, key=known.index))


def _other_values(rng: Rng, known: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """Return values without one or two of those taken."""
    kept = rng.sample(taken, max(1, len(taken) - 1 - rng.integers(2)))
    left = [value for value in known if value not in taken]
    added = rng.sample(left, min(len(left), 1))
    return tuple(sorted((*kept, *added), key=known.index))


def _price(rng: Rng, shelf: Shelf) -> float:
    """Return a price, uniform on a logarithmic scale."""
    low, high = map(math.log, shelf.prices)
    dollars = int(math.exp(low + (high - low) * rng.integers(10_000) / 10_000))
    return dollars + rng.choice(_CENTS) / 100


def _worded(
    number: int, family: str, rng: Rng, noun: str, brand: str, series: str, shelf: tuple[str, str],
    **details: Any,
) -> Product:  # fmt: skip
    a, b, c, d = details["attributes"]
    words = {"noun": noun, "series": series, "brand": brand}
    return Product(
        id=f"P{number:06d}",
        title=f"{brand} {series} {noun.title()}, {a.title()}",
        category=(*shelf, noun),
        nouns=frozenset((noun,)),
        **details,
        rating=(30 + rng.integers(21)) / 10,
        description=rng.choice(_SENTENCES).format(a=a, b=b, **words),
        bullets=tuple(f"{each.capitalize()}." for each in (a, c, d)),
        reviews=tuple(rng.sample(_PRAISE, 2)),
        family=family,
    )
