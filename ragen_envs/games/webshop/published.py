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
import math
import re
from collections.abc import Iterator
from functools import lru_cache
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
    items = _read(folder, PRODUCTS, list)
    attributes = _read(folder, ATTRIBUTES, dict)
    products: dict[str, Product] = {}
    for place, item in enumerate(items):
        made = _product(item, attributes, f"{folder.name}, product {place}")
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
    goals = tuple(goal for each in shop for goal in make(each, table.get(each.id)))
    if not goals:
        raise RagenError(f"{folder} holds no instruction for any of its products")
    return goals


def _read(folder: Path, names: tuple[str, ...], kind: type) -> Any:
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise RagenError(f"{folder} has no file {' or '.join(names)}")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RagenError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, kind):
        wanted = "a list of products" if kind is list else "an object by product"
        raise RagenError(f"{path} must be {wanted}, but is a {type(content).__name__}")
    return content


def _product(item: Any, attributes: dict[str, Any], where: str) -> Product:
    if not isinstance(item, dict) or not isinstance(item.get("asin"), str) or not item["asin"]:
        raise RagenError(f"{where} must be an object with a text 'asin'")
    where = f"{where} ({item['asin'][:20]})"
    title = " ".join(_text(item, "name", where).split())
    about = attributes.get(item["asin"])
    query = _text(item, "query", where).lower().strip()
    path = tuple(
        part.strip() for part in _text(item, "product_category", where).split("›") if part.strip()
    )
    return Product(
        id=item["asin"],
        title=title,
        category=path,
        nouns=_nouns(title, path, query),
        attributes=_texts(about, "attributes", where) if isinstance(about, dict) else (),
        options=_options(item.get("customization_options"), where),
        price=_price(item.get("pricing"), item["asin"], where),
        rating=0.0,
        description=_text(item, "full_description", where),
        bullets=_texts(item, "small_description", where),
        reviews=(),
        family=item["asin"],
        query=query,
    )


def _text(item: dict[str, Any], name: str, where: str) -> str:
    value = item.get(name) or ""
    if not isinstance(value, str):
        raise RagenError(f"{where}: '{name}' must be a text, but is {value!r:.60}")
    return value


def _texts(item: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = item.get(name) or []
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RagenError(f"{where}: '{name}' must be a list of texts, but is {value!r:.60}")
    return tuple(value)


def _options(given: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the options: names and values in lower case, a slash within a value set apart."""
    if not given:
        return ()
    if not isinstance(given, dict):
        raise RagenError(
            f"{where}: 'customization_options' must be an object, but is {given!r:.60}"
        )
    options = []
    for name, contents in given.items():
        rows = contents or []
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and isinstance(row.get("value"), str) for row in rows
        ):
            raise RagenError(
                f"{where}: the option '{name}' must be a list of objects with a 'value'"
            )
        values = dict.fromkeys(filter(None, (_option_text(row["value"]) for row in rows)))
        if values:
            options.append((_option_text(name), tuple(values)))
    return tuple(options)


def _option_text(text: str) -> str:
    """Return a name or value in lower case, on one line, with single spaces."""
    return " ".join(text.replace("/", " | ").lower().split())


def _price(given: Any, asin: str, where: str) -> float:
    """Return one price: that given, or, of a range, one fixed by a hash of the id."""
    amounts = [float(each.replace(",", "")) for each in _AMOUNT.findall(str(given or ""))]
    if not amounts:
        return _DEFAULT_PRICE
    if not all(map(math.isfinite, amounts)):
        raise RagenError(f"{where}: 'pricing' must be a price in dollars, but is {given!r:.60}")
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


def _human_goals(product: Product, rows: Any) -> Iterator[Goal]:
    if not isinstance(rows, list | None):
        raise RagenError(f"{HUMAN}: {product.id} must have a list of objects, but has {rows!r:.60}")
    for row in rows or ():
        if not isinstance(row, dict) or not isinstance(row.get("instruction"), str):
            raise RagenError(
                f"{HUMAN}: {product.id} must have a list of objects with an 'instruction'"
            )
        attributes = _texts(row, "instruction_attributes", product.id)
        chosen = _texts(row, "instruction_options", product.id)
        if attributes:
            options = tuple(("", _option_text(value)) for value in chosen)
            yield _goal(product, attributes, options, row["instruction"])


def _synthetic_goals(product: Product, about: Any) -> Iterator[Goal]:
    if about is None:
        return
    words, attributes = _instruction(product, about)
    if not words or not attributes:
        return
    ordered = sorted(product.options)
    names = [name for name, _ in ordered]
    chosen = combinations(*(values for _, values in ordered))
    for _, values in zip(range(MOST_COMBINATIONS), chosen, strict=False):
        options = tuple(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in options)
        yield _goal(product, attributes, options, words + (f" with {wanted}" if wanted else ""))


def _instruction(product: Product, about: Any) -> tuple[str, tuple[str, ...]]:
    """Return the synthetic instruction of a product, or "", and the attributes that it asks for."""
    where = f"the attributes of {product.id}"
    if not isinstance(about, dict):
        raise RagenError(f"{where} must be an object, but are {about!r:.60}")
    words = _text(about, "instruction", where).strip(". ")
    return words, _texts(about, "instruction_attributes", where)


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
