"""Read what a thought claims about a game, and decide by the rules whether it is true.

What cannot be read for certain is no claim. A game's text face reads its own with the functions below; see
``docs/thoughts.md``.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from ragen_envs.game.oracle import Action

PLACE: Final = "place"
"""Claim of places; a list is true if it is complete and nothing else."""
MOVE: Final = "move"
"""A step of the plan and what it leads to, given the steps before it."""
END: Final = "end"
"""Claim of how the game ends with the plan."""

CELL: Final = r"[(\[]?(?:row\s*)?(\d{1,4})\W{1,2}(?:col(?:umn)?\s*)?(\d{1,4})[)\]]?"
"""A pattern of a row and a column, counted from 0."""
_CELL: Final = CELL.replace(r"(\d{1,4})", r"\d{1,4}")
_CELLS: Final = rf"{_CELL}(?:(?:,|;|\sand|\sor)?[ \t]*{_CELL})*"
_IS: Final = r"(?:\s|[:=]|\bis\b|\bare\b|\bat\b)*"
_UNSOLVED: Final = ("not", "n't", "be", "yet", "never", "almost", "nearly", "until")
_NOT: Final = "".join(f"(?<!{word} )" for word in _UNSOLVED)
_SOLVED: Final = re.compile(rf"{_NOT}\bsolved(?=\s*(?:[.!;<\n]|$))", re.IGNORECASE)
_LINK: Final = re.compile(r"[\s,;.|>-]*(?:and|then|and then)?\s*")

Cell = tuple[int, int]


class Claim(NamedTuple):
    """One statement of a thought."""

    kind: str
    """One of those above, or a game's own; of places, the name of the thing follows: "place box"."""
    start: int
    """Index in the text of its first character."""
    end: int
    """Index after its last character."""
    stated: str
    """The text between."""
    true: bool | None
    """Whether it is true; None for a step of the plan that states no outcome."""
    fact: str
    """The true statement in its place."""
    action: Action | None = None
    """The action whose outcome it states, if any: its number, or its words."""


@runtime_checkable
class ClaimingFace(Protocol):
    """A text face that can also check thoughts."""

    def claims(self, env: Any, thought: str, executed: Sequence[Any], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims of a thought, in any order.

        Args:
            env: The unwrapped game before the turn; it is only read.
            thought: Any text.
            executed: The actions of the answer that may run.
            names: Names of the actions in the conversation; see the setting ``action_names``.
        """


def made(
    kind: str, match: re.Match[str], true: bool | None, fact: str, action: Action | None = None
) -> Claim:
    """Return the claim that a match is."""
    return Claim(kind, match.start(), match.end(), match.group(), true, fact, action)


@lru_cache(maxsize=256)
def _mention(name: str) -> re.Pattern[str]:
    thing = rf"{re.escape(name)}(?:e?s)?\b"
    return re.compile(rf"\bno {thing}|\b{thing}{_IS}(?:{_CELLS}|none\b)", re.IGNORECASE)


def cells_of(text: str) -> list[Cell]:
    """Return the cells that a text names, in its order."""
    return [(int(row), int(column)) for row, column in re.findall(CELL, text, re.IGNORECASE)]


def listed(cells: Iterable[Cell], separator: str = ", ") -> str:
    """Return cells as row and column in bare digits, which is what small models copy best; or "none"."""
    return separator.join(f"{row} {column}" for row, column in cells) or "none"


def mentioned(text: str, name: str) -> re.Match[str] | None:
    """Return the first mention of a kind of thing with a list of cells; later ones are plans."""
    return _mention(name).search(text)


def read_places(text: str, things: Mapping[str, Collection[Cell]]) -> Iterator[Claim]:
    """Yield the claims of a thought about things: ``Box 1 2, 2 3``, ``no hole``, ``player: (1, 2)``.

    Args:
        text: The thought.
        things: All the cells of each kind of thing, by its name.
    """
    for name, cells in things.items():
        match = mentioned(text, name)
        if match is not None:
            true = sorted(cells_of(match.group())) == sorted(cells)
            yield made(f"{PLACE} {name}", match, true, f"{name} {listed(sorted(cells))}")


@lru_cache(maxsize=64)
def _step(names: tuple[str, ...], outcome: str) -> re.Pattern[str]:
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(
        rf"(?:(?P<left>\d+)[\s.:)]+)?(?<!\w)(?P<name>{either})(?!\w)(?P<said>{outcome})?", re.IGNORECASE
    )


def read_steps(text: str, names: tuple[str, ...], outcome: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the steps of a plan in a thought, each with its action.

    A step is an action with an outcome or with its number in the countdown, or one directly before a step.
    The plan ends at an action that is neither, because what follows could begin anywhere. ``outcome`` is a
    pattern of what may follow an action's name; the group ``said`` has the match.
    """
    spelled = {name.casefold(): number for number, name in enumerate(names)}
    matches = [
        match
        for match in _step(names, outcome).finditer(text)
        if match["name"].casefold() in spelled and (match["said"] or match["name"] in names)
    ]
    plain = [not (match["said"] or match["left"]) for match in matches]
    for i in reversed(range(len(matches) - 1)):
        if not plain[i + 1] and _LINK.fullmatch(text, matches[i].end(), matches[i + 1].start()):
            plain[i] = False
    started = False
    for match, skipped in zip(matches, plain, strict=True):
        if skipped and started:
            return
        if not skipped:
            started = True
            yield match, spelled[match["name"].casefold()]


def read_solved(text: str, solved: bool) -> Iterator[Claim]:
    """Yield each statement that the game is solved."""
    fact = "solved" if solved else "not solved"
    yield from (made(END, match, solved, fact) for match in _SOLVED.finditer(text))


def count_predicted(claims: Sequence[Claim], executed: Sequence[Action]) -> int:
    """Count the executed actions that have a true outcome in the thought, at their place in its plan."""
    moves = [claim for claim in claims if claim.kind == MOVE]
    return sum(
        bool(claim.true) and claim.action == action for claim, action in zip(moves, executed, strict=False)
    )


def check_thought(
    env: Any, thought: str, executed: Sequence[Action], names: tuple[str, ...] | None = None
) -> tuple[Claim, ...]:
    """Return the claims of a thought in the order of the text; () if the game cannot check them.

    Arguments are those of `ClaimingFace`; by default, actions have the game's names.
    """
    face = env.text
    if not thought or not isinstance(face, ClaimingFace):
        return ()
    claims = face.claims(env, thought, executed, names or env.text.actions(env))
    return tuple(sorted(claims, key=lambda claim: claim.start))
