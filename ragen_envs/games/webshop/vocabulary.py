"""The words from which a catalogue is made: what is sold, how it is described, and how it varies."""

import json
from importlib import resources
from typing import Any, Final, NamedTuple


class Shelf(NamedTuple):
    """A part of a department: products of like kinds."""

    name: str
    nouns: tuple[str, ...]
    """Products on it, with the article "a" where the word takes one."""
    attributes: tuple[str, ...]
    """Attributes of its products, besides those of the whole department."""
    options: tuple[str, ...]
    """Names of the options that they come in, of ``OPTIONS``."""
    prices: tuple[int, int]
    """Least and greatest price, in dollars."""


class Department(NamedTuple):
    """A part of the shop."""

    name: str
    attributes: tuple[str, ...]
    shelves: tuple[Shelf, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _shelf(name: str, about: dict[str, Any]) -> Shelf:
    nouns, attributes, options = (_words(about[kind]) for kind in ("nouns", "attributes", "options"))
    low, high = about["prices"]
    return Shelf(name, nouns, attributes, options, (low, high))


_DATA: Final[dict[str, Any]] = json.loads(
    (resources.files("ragen_envs.games.webshop") / "vocabulary.json").read_text("utf-8")
)
OPTIONS: Final = {name: _words(values) for name, values in _DATA["options"].items()}
DEPARTMENTS: Final = tuple(
    Department(name, _words(about["attributes"]), tuple(_shelf(*each) for each in about["shelves"].items()))
    for name, about in _DATA["departments"].items()
)
BRANDS: Final = _words(_DATA["brands"])
SERIES: Final = _words(_DATA["series"])


def bare(noun: str) -> str:
    """Return a noun without its article."""
    return noun.removeprefix("an ").removeprefix("a ")
