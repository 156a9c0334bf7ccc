"""The published data of WebShop as a catalogue and goals.

A folder holds the files as they are published: ``items_shuffle.json`` (or ``items_shuffle_1000.json``),
a list of products; ``items_ins_v2.json`` (or ``items_ins_v2_1000.json``), their attributes and
synthetic instructions by product; and, optionally, ``items_human_ins.json``, the human instructions.
With the last, the goals are the human ones, else the synthetic ones with every combination of options.

What differs from the published code, besides what ``WebShopEnv`` lists: the price of a product with a
range, and the limit of a goal, are fixed by a hash of the product's id; the nouns of a title are its
words that name its category or the term under which it was collected (the published code tags them with
spaCy), or all its words if there are none; goals of one product belong to one split; a product has at
most 1,000 synthetic goals; spaces in the names and values of options are single; reviews are not read.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from itertools import product as combinations
from pathlib import Path
from typing import Any, Final

from ragen_envs.errors import RagenError
from ragen_envs.games.webshop.catalogue import Catalogue, Product
from ragen_envs.games.webshop.goals import Goal
from ragen_envs.levels.keys import hashed
from ragen_envs.levels.seeding import Rng

PRODUCTS: Final = ("items_shuffle.json", "items_shuffle_1000.json")
ATTRIBUTES: Final = ("items_ins_v2.json", "items_ins_v2_1000.json")
HUMAN: Final = "items_human_ins.json"
MOST_COMBINATIONS: Final = 1000
"""Most synthetic goals of a product."""

_AMOUNT: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORD: Final = re.compile(r"[a-z]{3,}")
_DEFAULT_PRICE: Final = 100.0
_HIGHEST_LIMIT: Final = 990
"""Limits are multiples of ten up to this."""


@lru_cache(maxsize=4)
def read_shop(folder: Path) -> Catalogue:
    """Return the catalogue of a folder.

    Raises:
        RagenError: A file is missing or is not of the published form.
    """
    items, attributes = _read(folder, PRODUCTS, list), _read(folder, ATTRIBUTES, dict)
    products: dict[str, Product] = {}
    for place, item in enumerate(items):
        with _naming(f"{folder.name}, product {place}"):
            made = _product(item, attributes)
            products.setdefault(made.id, made)
    if not products:
        raise RagenError(f"{folder} holds no products")
    return Catalogue(list(products.values()), (read_shop, (folder,)), published=True)


@lru_cache(maxsize=4)
def read_goals(folder: Path) -> tuple[Goal, ...]:
    """Return the goals of a folder, in the order of the catalogue.

    Raises:
        RagenError: As of ``read_shop``; or there is no goal.
    """
    shop = read_shop(folder)
    human = (folder / HUMAN).exists()
    table = _read(folder, (HUMAN,) if human else ATTRIBUTES, dict)
    make = _human_goals if human else _synthetic_goals
    goals: list[Goal] = []
    for product in shop:
        with _naming(f"{folder.name}, instruction of {product.id}"):
            goals += make(product, table[product.id]) if product.id in table else ()
    if not goals:
        raise RagenError(f"{folder} holds no instruction for any of its products")
    return tuple(goals)


def _read(folder: Path, names: tuple[str, ...], kind: type) -> Any:
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise RagenError(f"{folder} has no file {' or '.join(names)}")
    with _naming(path):
        content = json.loads(path.read_bytes())
    if not isinstance(content, kind):
        wanted = "a list of products" if kind is list else "an object by product"
        raise RagenError(f"{path} must be {wanted}, but is a {type(content).__name__}")
    return content


@contextmanager
def _naming(what: object) -> Iterator[None]:
    """Name what is not of the published form, whichever way reading it fails."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise RagenError(f"{what} is not of the published form ({reason})") from error


def _product(item: dict[str, Any], attributes: dict[str, Any]) -> Product:
    asin: str = item["asin"]
    title = " ".join((item.get("name") or "").split())
    query = (item.get("query") or "").lower().strip()
    parts = (item.get("product_category") or "").split("›")
    path = tuple(part.strip() for part in parts if part.strip())
    return Product(
        id=asin,
        title=title,
        category=path,
        nouns=_nouns(title, path, query),
        attributes=_texts(attributes.get(asin, {}).get("attributes")),
        options=_options(item.get("customization_options") or {}),
        price=_price(item.get("pricing"), asin),
        rating=0.0,
        description=item.get("full_description") or "",
        bullets=_texts(item.get("small_description")),
        reviews=(),
        family=asin,
        query=query,
    )


def _texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(map(str, given or ()))


def _options(given: dict[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the options: names and values in lower case, a slash within a value set apart."""
    options = []
    for name, rows in given.items():
        values = dict.fromkeys(filter(None, (_option_text(row["value"]) for row in rows or ())))
        if values:
            options.append((_option_text(name), tuple(values)))
    return tuple(options)


def _option_text(text: str) -> str:
    """Return a name or value in lower case, on one line, with single spaces."""
    return " ".join(text.replace("/", " | ").lower().split())


def _price(given: Any, asin: str) -> float:
    """Return one price: that given, or, of a range, one fixed by a hash of the id."""
    amounts = [float(each.replace(",", "")) for each in _AMOUNT.findall(str(given or ""))]
    if not amounts:
        return _DEFAULT_PRICE
    low, high = min(amounts[:2]), max(amounts[:2])
    share = hashed(f"webshop price {asin}") % 1_000_001 / 1_000_000
    return round(low + (high - low) * share, 2)


def _nouns(title: str, category: tuple[str, ...], query: str) -> frozenset[str]:
    words = _WORD.findall(title.lower())
    about = {_stem(word) for part in (*category, query) for word in _WORD.findall(part.lower())}
    named = frozenset(_stem(word) for word in words if _stem(word) in about)
    return named or frozenset(map(_stem, words))


def _stem(word: str) -> str:
    """Return a word without a plural s."""
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _human_goals(product: Product, rows: list[dict[str, Any]]) -> Iterator[Goal]:
    for row in rows:
        attributes = _texts(row.get("instruction_attributes"))
        if attributes:
            chosen = _texts(row.get("instruction_options"))
            options = tuple(("", _option_text(value)) for value in chosen)
            yield _goal(product, attributes, options, row["instruction"])


def _synthetic_goals(product: Product, about: dict[str, Any]) -> Iterator[Goal]:
    words = (about.get("instruction") or "").strip(". ")
    attributes = _texts(about.get("instruction_attributes"))
    if not words or not attributes:
        return
    ordered = sorted(product.options)
    names = [name for name, _ in ordered]
    chosen = combinations(*(values for _, values in ordered))
    for values in islice(chosen, MOST_COMBINATIONS):
        options = tuple(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in options)
        yield _goal(product, attributes, options, words + (f" with {wanted}" if wanted else ""))


def _goal(
    product: Product, attributes: tuple[str, ...], options: tuple[tuple[str, str], ...], words: str
) -> Goal:
    """Return a goal whose limit is fixed by a hash.

    It is the larger of two of the first four multiples of ten above the price. Where there are not two
    up to ``_HIGHEST_LIMIT``, any price is right.
    """
    rng = Rng(hashed(f"webshop limit {product.id} {words}"))
    above = int(product.price) // 10 * 10
    steps = [limit for limit in range(above + 10, above + 50, 10) if limit <= _HIGHEST_LIMIT]
    limit = max(rng.sample(steps, 2)) if len(steps) >= 2 else None
    wanted = tuple(each.lower() for each in attributes)
    about = "" if limit is None else f", and price lower than {limit} dollars"
    text = f"{' '.join(words.split()).strip('. ')}{about}."
    return Goal(product, wanted, options, limit, text, similar=True)
