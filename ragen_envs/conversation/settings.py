"""The settings of a conversation, and their checks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any, Final

from ragen_envs.conversation.parser import THINK_PREFIX
from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import read_choice, read_count
from ragen_envs.game.text import FORMATS, GRID, IMAGE

HISTORIES: Final = ("full", "last", "none")
INVALID_POLICIES: Final = ("penalise", "discard", "end")
SOFT_DEFECT_POLICIES: Final = ("allow", "penalise")
MAX_DEMONSTRATIONS: Final = 16


@dataclass(frozen=True)
class ConversationSettings:
    """Presentation of a game, and limits of a reply. Every limit is stated in the prompt as enforced.

    Raises:
        RagenError: A field has a value that is not allowed; the message names field, value, choices.
    """

    max_turns: int = 5
    """Maximum replies per episode, >= 1 (paper: 5)."""
    actions_per_turn: int = 5
    """Maximum actions per reply, >= 1 (paper: 5). More are a defect; the first ones are executed."""
    max_actions: int = 10
    """Maximum actions per episode, >= 1 (paper: 10)."""
    think: bool = True
    """Whether a reply must contain ``<think>…</think>`` before its ``<answer>…</answer>``."""
    history: str = "full"
    """Earlier turns that the agent sees: "full" for all, "last" for ``history_turns`` of them, or "none"."""
    history_turns: int = 1
    """Number of earlier turns that the agent sees if ``history`` is "last", >= 1."""
    symbols: str | Mapping[str, str] = field(default="standard", hash=False)
    """Name of one of the game's symbol sets, or a mapping from cell names to single characters."""
    action_names: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Other names for actions, such as ``{"Up": "North"}``; the other actions keep their names."""
    observation: str = GRID
    """Form in which the state is shown. "image" puts a picture into each user message; games without a board
    add text."""
    format_penalty: float = -0.1
    """Added to the reward of a turn whose reply has a defect, <= 0 (paper: -0.1)."""
    invalid: str = "penalise"
    """Consequence of a defect, besides the penalty. "penalise": actions that can be read are executed, up to
    an unknown or illegal one.
    "discard": no action is executed. "end": the same, and the episode ends."""
    soft_defects: str = "allow"
    """Cost of an unambiguous answer in another form, such as "Up, Down". "allow": nothing. "penalise": as any
    other defect."""
    think_prefix: bool = False
    """Whether the assistant's turn begins with ``<think>``, which the reply continues; needs ``think``."""
    demonstrations: int = 0
    """Worked examples shown as earlier turns of the chat, 0 to 16: first turns of training levels, with the
    oracle's replies. Training may meet these levels (in 6x6 Sokoban, each equals about 1.2% of them)."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "actions_per_turn", "max_actions", "history_turns"):
            self._set(name, read_count(name, getattr(self, name), 1))
        shown = read_count("demonstrations", self.demonstrations, 0, MAX_DEMONSTRATIONS)
        self._set("demonstrations", shown)
        if not isinstance(self.symbols, str | Mapping):
            raise RagenError(
                f"symbols is {self.symbols!r:.80}, but must be a name or a mapping of cells to signs"
            )
        if isinstance(self.symbols, Mapping):  # what is remembered by settings must not change
            self._set("symbols", dict(self.symbols))
        if not isinstance(self.action_names, Mapping):
            raise RagenError(f"action_names is {self.action_names!r}, but must be a mapping of names")
        self._set("action_names", dict(self.action_names))
        for name in ("think", "think_prefix"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise RagenError(f"{name} is {value!r}, but must be true or false")
        if self.think_prefix and not self.think:
            raise RagenError("think_prefix is true, but think is false; set think to true")
        for name, choices in (
            ("history", HISTORIES),
            ("observation", (*FORMATS, IMAGE)),
            ("invalid", INVALID_POLICIES),
            ("soft_defects", SOFT_DEFECT_POLICIES),
        ):
            read_choice(name, getattr(self, name), choices)
        penalty = self.format_penalty
        if not isinstance(penalty, Real) or not -math.inf < penalty <= 0:
            raise RagenError(f"format_penalty is {penalty!r}, but must be a number <= 0")
        self._set("format_penalty", float(penalty))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @cached_property
    def prefix(self) -> str:
        """Beginning of the assistant's turn, before the reply: ``<think>`` or nothing."""
        return THINK_PREFIX if self.think_prefix else ""

    @cached_property
    def penalise_soft(self) -> bool:
        """Whether soft defects count as defects."""
        return self.soft_defects == "penalise"

    @cached_property
    def most_per_turn(self) -> int:
        """The most actions that any reply can have."""
        return min(self.actions_per_turn, self.max_actions)

    @cached_property
    def total_matters(self) -> bool:
        """Whether the limit of the game can bind before those of the turns."""
        return self.max_actions < self.max_turns * self.most_per_turn

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


SETTING_NAMES: Final = tuple(each.name for each in fields(ConversationSettings))


def resolve_symbols(
    symbols: str | Mapping[str, str], vocabularies: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the mapping from cell names to characters that a setting stands for.

    Raises:
        RagenError: The name is unknown, or the mapping misses a cell or repeats a character.
    """
    if isinstance(symbols, str):
        if symbols not in vocabularies:
            raise RagenError(f"symbols is {symbols!r}, but this game has {', '.join(vocabularies)}")
        return vocabularies[symbols]
    wanted = vocabularies["standard"]
    if set(symbols) != set(wanted):
        raise RagenError(
            f"symbols has the cells {', '.join(map(str, symbols))}, but must have {', '.join(wanted)}"
        )
    signs = list(symbols.values())
    if any(not isinstance(s, str) or len(s) != 1 or s.isspace() or not s.isprintable() for s in signs) or len(
        set(signs)
    ) != len(signs):
        raise RagenError(f"symbols is {dict(symbols)!r}, but each must be its own single character")
    return dict(symbols)


def count_names(names: Any) -> int:
    """Count names that a reply can tell apart, or return -1 if one of them cannot stand in a reply."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return -1
    are_names = all(isinstance(n, str) and n and n == n.strip() and "||" not in n for n in names)
    return len({name.casefold() for name in names}) if are_names else -1


def rename_actions(names: tuple[str, ...], others: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a game's actions under the setting ``action_names``.

    Raises:
        RagenError: The game has no such action, or a reply could not tell the new names apart.
    """
    if unknown := [name for name in others if name not in names]:
        raise RagenError(f"action_names has {unknown[0]!r}, but the actions are {', '.join(names)}")
    new = tuple([str(others.get(name, name)) for name in names])
    if count_names(new) < len(new):
        raise RagenError(f"action_names is {dict(others)!r}, but each must be its own name")
    return new
