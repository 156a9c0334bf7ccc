"""What an entry must be to stand beside others: the whole suite, its test levels, one agent."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from ragen_agents.policies import CONTROLS
from ragen_bench.config.suite_versions import check_readable, is_old
from ragen_bench.config.suites import Suite, load_suite
from ragen_bench.leaderboard.entry import Entry
from ragen_bench.leaderboard.published import PUBLISHED
from ragen_envs.game.errors import RagenError

SUITE: Final = "core"
"""What all entries play."""
LEVELS: Final = 128
"""Levels of each game that every entry plays, so that nobody can choose the number after seeing results."""
MAX_ERRORS: Final = 0.02
"""Largest share of episodes that may have failed, by an error or by exceeding the context."""
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK")
"""Scripts with letters that look alike, as the names of their letters begin."""
_BLANK: Final = "\u115f\u1160\u3164\uffa0"
"""Letters that are not drawn (fillers of Hangul)."""
_WORD_END: Final = re.compile(r"[\s\-‐-―_/.,:;()+&|]+")
_FREE: Final = ("episodes", "seed", "sampling", "tasks")
"""Fields of a suite that have rules of their own, or that an entry chooses itself and declares."""
PROMPT_SETTINGS: Final = ("demonstrations", "think", "think_prefix")
"""Conversation settings that an entry may change, for all games alike; the rules of the games stay."""


class EntryError(RagenError):
    """Something in an entry is not what it should be; the message says where."""


def check_rules(entry: Entry) -> None:
    """Check everything that does not need the episodes.

    Raises:
        EntryError: A rule is broken; the message names the field.
    """
    config = entry.config
    try:
        check_readable("config.suite_version is that", config.suite_version)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if is_old(config.suite_version):
        _check_published(entry)
    else:
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
        raise EntryError(f"about.trained_on has '{unknown[0]}', but the games are {_list(games)}")
    if list(entry.results) != games:
        raise EntryError(f"results has {_list(entry.results)}, but must have {_list(games)}")


def check_titles(entries: Iterable[Entry]) -> None:
    """Check that no two entries of a suite version are called alike, or like a control.

    Titles are compared as they look: their letters and digits after NFKC, without case. Letters of several
    scripts can look alike, so that no word may mix them.

    Raises:
        EntryError: A title is refused; the message names the other entry or the letter.
    """
    seen: dict[tuple[int, str], str] = {}
    for entry in entries:
        name, title = entry.about.name, _looks_like(entry.about.title)
        _check_scripts(name, entry.about.title)
        if not title:
            raise EntryError(f"about.title of '{name}' has no letter or digit that can be seen")
        if title in CONTROLS and title != name:
            raise EntryError(
                f"title of '{name}': '{title}' is the title of a control; choose another"
            )
        other = seen.setdefault((entry.config.suite_version, title), name)
        if other != name:
            raise EntryError(
                f"about.title of '{name}' looks like that of '{other}'; choose another"
            )


def _check_scripts(name: str, title: str) -> None:
    for word in _WORD_END.split(unicodedata.normalize("NFKC", title)):
        scripts = {sign: script for sign in word if (script := _script(sign)) in _SCRIPTS}
        odd = next((sign for sign, script in scripts.items() if script != _SCRIPTS[0]), None)
        if odd is not None and len(set(scripts.values())) > 1:
            raise EntryError(
                f"about.title of '{name}' mixes scripts in '{word}': '{odd}' is {unicodedata.name(odd)}; "
                "use letters of one script in each word"
            )


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""


def _looks_like(title: str) -> str:
    folded = unicodedata.normalize("NFKC", title).casefold()
    return "".join(sign for sign in folded if sign.isalnum() and sign not in _BLANK)


def _check_published(entry: Entry) -> None:
    version = entry.config.suite_version
    if entry.episodes_sha256 not in PUBLISHED.get(version, ()):
        raise EntryError(
            f"config.suite_version is {version}, but new entries must be of the current suite version; of "
            "older versions only published entries are kept"
        )


def _check_suite(suite: Suite) -> None:
    if suite.name != SUITE:
        raise EntryError(f"config.suite.name is '{suite.name}', but must be '{SUITE}'")
    if suite.split != "test":
        raise EntryError(f"config.suite.split is '{suite.split}', but only test levels count")
    if suite.episodes != LEVELS:
        raise EntryError(
            f"the run has {suite.episodes} level{'s' if suite.episodes != 1 else ''} of each game, but an "
            f"entry needs {LEVELS}: play it again with --episodes {LEVELS}"
        )
    bundled = load_suite(suite.name)
    for field in Suite.model_fields:
        if field not in _FREE and getattr(suite, field) != getattr(bundled, field):
            raise EntryError(
                f"config.suite.{field} is not that of the suite '{suite.name}'; "
                "an entry plays all games of a suite under its settings"
            )
    if list(suite.tasks) != list(bundled.tasks):
        missing = [game for game in bundled.tasks if game not in suite.tasks]
        lacks = (
            f"lacks {_list(missing)}"
            if missing
            else "has other games, or has them in another order"
        )
        raise EntryError(
            f"the run {lacks}: an entry plays all games of the suite '{suite.name}'; play it again without "
            "--game"
        )
    prompt = prompt_settings(suite)
    for name, task in suite.tasks.items():
        expected = {**bundled.tasks[name].settings, **prompt}
        if task.env != bundled.tasks[name].env or task.settings != expected:
            raise EntryError(
                f"config.suite.tasks.{name} is not that of the suite '{suite.name}'; an entry may change "
                f"{_list(PROMPT_SETTINGS)}, and must change them alike for all games"
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
        named = _list(agent.name for agent in agents) or "none"
        raise EntryError(f"config.agents has {named!r:.100}, but must have '{name}' alone")
    weights = agents[0].weights
    if weights is not None and not re.fullmatch("[0-9a-f]{64}", weights):
        raise EntryError("config.agents.weights must be a SHA-256 in hexadecimal")
    if agents[0].endpoint is not None and "base_url" in agents[0].endpoint.model_fields_set:
        raise EntryError("config.agents.endpoint.base_url must be omitted: entries have no address")
    if name in CONTROLS and weights is not None:
        raise EntryError(f"about.name is '{name}', but a control has no weights")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
