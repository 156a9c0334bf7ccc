"""Describe an entry and check the rules that need no episodes."""

import json
import re
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from ragen_agents.policies import CONTROLS
from ragen_agents.policies.endpoint.settings import ADDRESSES, check_secrets
from ragen_bench.config.own_levels import own_level_count
from ragen_bench.config.run_config import RunConfig
from ragen_bench.config.suites import Name, StrictModel, Suite, load_suite
from ragen_envs import SUITE_VERSION
from ragen_envs.errors import RagenError

SCHEMA_VERSION: Final = 1


def _printable(text: str) -> str:
    hidden = next((sign for sign in text if not sign.isprintable()), None)
    if hidden is not None:
        raise ValueError(f"holds the character U+{ord(hidden):04X}, but must be one printable line")
    return text


Line = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_printable)]
_SLUG: Final = r"^[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?$"


def _slug(name: object) -> object:
    if isinstance(name, str) and not re.fullmatch(_SLUG, name):
        raise ValueError("use lower-case letters, digits and dashes, at most 48, no dash first or last")
    return name


def _day(day: object) -> object:
    if not isinstance(day, date) and not (isinstance(day, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", day)):
        raise ValueError(f"{day!r:.40} is not a date such as 2026-11-24")
    return day


def _once(games: list[str]) -> list[str]:
    twice = next((game for game in games if games.count(game) > 1), None)
    if twice is not None:
        raise ValueError(f"has '{twice}' twice")
    return games


Slug = Annotated[str, Field(pattern=_SLUG), BeforeValidator(_slug)]
Link = Annotated[
    str, Field(max_length=400, pattern=r"^https://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[!#-;=?-\[\]_a-z~]*)?$")
]
Day = Annotated[date, Field(strict=False), BeforeValidator(_day)]
"""Date such as 2026-11-24, which YAML reads as a date."""
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class About(StrictModel):
    """Description of an entry by its authors; no computer can check it."""

    name: Slug
    """Name of the entry and of its folder."""
    title: Annotated[str, Field(max_length=48, pattern="^[ -~]+$")]
    """Name in tables: printable ASCII, in which few characters look alike."""
    model: Line
    """Model that played, with its size, or other agent."""
    authors: Line
    description: Line
    """Description of how the agent was made, in a sentence or two."""
    contamination: Line
    """Whether test levels, or replies to them, can have been seen before."""
    trained_on: Annotated[list[Name], AfterValidator(_once)] = Field(default=[], max_length=16)
    """Games of the suite whose training levels the agent, or the model it was made from, has learned from."""
    parameters: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Number of parameters of the model."""
    open_weights: bool | None = None
    """Whether anyone can download the weights; None if there are none."""
    cost: Annotated[float, Field(ge=0, le=10**9)] | None = None
    """Cost of the run in US dollars, where a provider charged for it."""
    date: Day | None = None
    """Day of the run, as in 2026-11-24."""
    links: dict[Annotated[Line, Field(max_length=24)], Link] = Field(default={}, max_length=6)
    """Paper, code, weights."""


class Scored(StrictModel):
    """Share of the validation levels that was solved after some iterations of training."""

    iteration: Count
    success: Share


class Training(StrictModel):
    """Training curves of an entry. No computer can check them either."""

    success: list[Share] = Field(min_length=2, max_length=10_000)
    """Share of the training episodes that were solved, iteration by iteration."""
    validation: list[Scored] = Field(default=[], max_length=1000)


class GameResult(StrictModel):
    """Results of one game; recomputed by every check."""

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


class Entry(StrictModel):
    """One agent's results on a suite."""

    schema_version: Literal[1] = SCHEMA_VERSION
    about: About
    config: RunConfig
    """Suite, decoding and seed, as the run had them; its one agent is called like the entry."""
    attempts: Literal[1] = 1
    """Tries at each level: the score is pass@1."""
    packages: dict[Annotated[Line, Field(max_length=40)], Annotated[Line, Field(max_length=60)]] = Field(
        max_length=32
    )
    """Versions of what the run was made with."""
    training: Training | None = None
    """Only of an entry that was trained."""
    episodes_sha256: Hash
    """Hash of the episodes, uncompressed."""
    results: dict[Name, GameResult]
    """Results by game."""


SUITE: Final = "core"
"""Suite that all entries play."""
LEVELS: Final = 128
"""Levels of each game that every entry plays, so that nobody can choose the number after seeing results."""
MAX_ERRORS: Final = 0.02
"""Largest share of episodes that may have failed, by an error or by exceeding the context."""
_ALIKE: Final = str.maketrans("i1|0", "lllo")
"""Characters of ASCII, without case, that look like others."""
_FREE: Final = ("episodes", "seed", "sampling", "tasks")
"""Fields of a suite that have rules of their own, or that an entry chooses itself and declares."""
PROMPT_SETTINGS: Final = ("demonstrations", "think", "think_prefix")
"""Conversation settings that an entry may change, for all games alike; the rules of the games stay."""


class EntryError(RagenError):
    """Something in an entry is not what it should be; the message says where."""


def check_rules(entry: Entry) -> None:
    """Check everything that does not need the episodes."""
    config = entry.config
    if config.suite_version != SUITE_VERSION:
        raise EntryError(
            f"config.suite_version is {config.suite_version}, but only episodes of suite version "
            f"{SUITE_VERSION} can be replayed"
        )
    _check_suite(config.suite)
    if config.attempts != 1:
        raise EntryError(
            f"config.attempts is {config.attempts}, but must be 1: an entry plays each level once"
        )
    _check_agent(entry)
    check_titles([entry])
    games = list(config.suite.tasks)
    unknown = [game for game in entry.about.trained_on if game not in games]
    if unknown:
        raise EntryError(f"about.trained_on has '{unknown[0]}', but the games are {', '.join(games)}")
    if list(entry.results) != games:
        raise EntryError(f"results has {', '.join(entry.results)}, but must have {', '.join(games)}")


def check_titles(entries: Iterable[Entry]) -> None:
    """Check that no two entries are called alike, or like a control.

    Titles are compared as they look: their letters and digits without case, those that look alike as one.
    """
    seen: dict[str, str] = {}
    for entry in entries:
        name, title = entry.about.name, _looks_like(entry.about.title)
        if not title:
            raise EntryError(f"about.title of '{name}' has no letter or digit")
        control = next((each for each in CONTROLS if title == _looks_like(each)), name)
        if control != name:
            raise EntryError(
                f"title of '{name}': it looks like that of the control '{control}'; choose another"
            )
        other = seen.setdefault(title, name)
        if other != name:
            raise EntryError(f"about.title of '{name}' looks like that of '{other}'; choose another")


def _looks_like(title: str) -> str:
    return "".join(filter(str.isalnum, title.casefold().translate(_ALIKE)))


def _check_suite(suite: Suite) -> None:
    if suite.name != SUITE:
        raise EntryError(f"config.suite.name is '{suite.name}', but must be '{SUITE}'")
    if own := [name for name, task in suite.tasks.items() if own_level_count(task.settings)]:
        raise EntryError(
            f"the run plays levels of your own on {', '.join(own)}, but an entry plays those of the suite"
        )
    if suite.split != "test":
        raise EntryError(f"config.suite.split is '{suite.split}', but only test levels count")
    bundled = load_suite(suite.name)
    faults, options = [], []
    if suite.episodes != LEVELS:
        plural = "s" if suite.episodes != 1 else ""
        faults.append(f"has {suite.episodes} level{plural} of each game, but an entry needs {LEVELS}")
        options.append(f"with --episodes {LEVELS}")
    if list(suite.tasks) != list(bundled.tasks):
        missing = [game for game in bundled.tasks if game not in suite.tasks]
        lacks = f"lacks {', '.join(missing)}" if missing else "has other games, or has them in another order"
        faults.append(f"{lacks}, but an entry plays all games of the suite '{suite.name}'")
        options.append("without --game")
    if faults:
        raise EntryError(f"the run {', and '.join(faults)}: play it again {' and '.join(options)}")
    for field in Suite.model_fields:
        if field not in _FREE and getattr(suite, field) != getattr(bundled, field):
            raise EntryError(
                f"config.suite.{field} is not that of the suite '{suite.name}'; "
                "an entry plays all games of a suite under its settings"
            )
    prompt = prompt_settings(suite)
    for name, task in suite.tasks.items():
        original = bundled.tasks[name]
        if task != original.model_copy(update={"settings": {**original.settings, **prompt}}):
            raise EntryError(
                f"config.suite.tasks.{name} is not that of the suite '{suite.name}'; an entry may change "
                f"{', '.join(PROMPT_SETTINGS)}, and must change them alike for all games"
            )


def prompt_settings(suite: Suite) -> dict[str, JsonValue]:
    """Return the settings of the prompt that a suite's first task changes, in a fixed order."""
    settings = next(iter(suite.tasks.values())).settings
    return {name: settings[name] for name in PROMPT_SETTINGS if name in settings}


def prompt_words(suite: Suite) -> str:
    """Return the prompt of an entry in words, such as ``2 examples, no thoughts``."""
    settings = prompt_settings(suite)
    shown = settings.get("demonstrations", 0)
    words = ["zero-shot" if not shown else f"{shown} example{'s' if shown != 1 else ''}"]
    if settings.get("think") is False:
        words.append("no thoughts")
    if settings.get("think_prefix") is True:
        words.append("begins with <think>")
    return ", ".join(words)


def _check_agent(entry: Entry) -> None:
    name, agents = entry.about.name, entry.config.agents
    if [agent.name for agent in agents] != [name]:
        named = ", ".join(agent.name for agent in agents) or "none"
        raise EntryError(f"config.agents has {named!r:.100}, but must have '{name}' alone")
    weights = agents[0].weights
    if weights is not None and not re.fullmatch("[0-9a-f]{64}", weights):
        raise EntryError("config.agents.weights must be a SHA-256 in hexadecimal")
    endpoint = agents[0].endpoint
    if endpoint is not None:
        try:
            check_secrets(endpoint.extra_body)
        except RagenError as error:
            raise EntryError(f"config.agents.endpoint: {error}") from error
    for field in sorted(ADDRESSES & (endpoint.model_fields_set if endpoint else set())):
        raise EntryError(f"config.agents.endpoint.{field} must be omitted: entries have no address")
    if name in CONTROLS and weights is not None:
        raise EntryError(f"about.name is '{name}', but a control has no weights")


def entry_schema() -> str:
    """Return the schema as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Entry.model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"
