"""What an entry says: who played, what was played, and what came out."""

import re
from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ragen_bench.config.run_config import RunConfig
from ragen_bench.config.suites import Name

SCHEMA_VERSION: Final = 1


def _printable(text: str) -> str:
    """Refuse what is not shown as it is: control characters, marks that turn the direction of text."""
    hidden = next((sign for sign in text if not sign.isprintable()), None)
    if hidden is not None:
        raise ValueError(f"holds the character U+{ord(hidden):04X}, but must be one printable line")
    return text


Line = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_printable)]
_SLUG: Final = r"^[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?$"


def _slug(name: object) -> object:
    """Say in words what the pattern says."""
    if isinstance(name, str) and not re.fullmatch(_SLUG, name):
        raise ValueError(
            "use lower-case letters, digits and dashes, at most 48, no dash first or last"
        )
    return name


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a date") from None
    return text


def _once(games: list[str]) -> list[str]:
    twice = next((game for game in games if games.count(game) > 1), None)
    if twice is not None:
        raise ValueError(f"has '{twice}' twice")
    return games


Slug = Annotated[str, Field(pattern=_SLUG), BeforeValidator(_slug)]
Link = Annotated[
    str,
    Field(max_length=400, pattern=r"^https://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[!#-;=?-\[\]_a-z~]*)?$"),
]
Day = Annotated[
    str,
    BeforeValidator(lambda day: day.isoformat() if isinstance(day, date) else day),
    Field(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"),
    AfterValidator(_day),
]
"""As in 2026-11-24; YAML reads such a text as a date."""
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class About(_Model):
    """What the people behind an entry say of it; no computer can check it."""

    name: Slug
    """Name of the entry and of its folder."""
    title: Annotated[Line, Field(max_length=48)]
    """How tables call it."""
    model: Line
    """Which model played, with its size, or what else did."""
    authors: Line
    description: Line
    """How the agent was made, in a sentence or two."""
    contamination: Line
    """Whether test levels, or replies to them, can have been seen before."""
    trained_on: Annotated[list[Name], AfterValidator(_once)] = Field(default=[], max_length=16)
    """Games of the suite whose training levels the agent, or the model it was made from, has learned from."""
    parameters: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """How many parameters the model has."""
    open_weights: bool | None = None
    """Whether anyone can download the weights; None if there are none."""
    cost: Annotated[float, Field(ge=0, le=10**9)] | None = None
    """What the run cost, in US dollars, where a provider charged for it."""
    date: Day | None = None
    """Day of the run, as in 2026-11-24."""
    links: dict[Annotated[Line, Field(max_length=24)], Link] = Field(default={}, max_length=6)
    """Paper, code, weights."""


class Scored(_Model):
    """What share of the validation levels was solved after some iterations of training."""

    iteration: Count
    success: Share


class Training(_Model):
    """How a trained entry learned. No computer can check it either."""

    success: list[Share] = Field(min_length=2, max_length=1000)
    """Share of the training episodes that were solved, iteration by iteration."""
    validation: list[Scored] = Field(default=[], max_length=200)


class GameResult(_Model):
    """What the episodes of one game amount to; recomputed by every check."""

    episodes: Count
    solved: Count
    success: Share
    """Solved by episodes: pass@1."""
    mean_return: float
    valid: Share | None
    """Share of replies without a defect."""
    turns: float
    """Mean replies of an episode."""
    reply_tokens: float | None
    """Mean tokens written in an episode."""
    errors: Count
    """Episodes that the agent did not survive."""


class Entry(_Model):
    """One agent's results on a suite."""

    schema_version: Literal[1] = SCHEMA_VERSION
    about: About
    config: RunConfig
    """Suite, decoding and seed, as the run had them; its one agent is called like the entry."""
    attempts: Literal[1] = 1
    """Tries at each level: the score is pass@1."""
    packages: dict[Annotated[Line, Field(max_length=40)], Annotated[Line, Field(max_length=60)]] = (
        Field(max_length=32)
    )
    """Versions of what the run was made with."""
    training: Training | None = None
    """Only of an entry that was trained."""
    episodes_sha256: Hash
    """Of the episodes, uncompressed."""
    results: dict[Name, GameResult]
    """By game."""
