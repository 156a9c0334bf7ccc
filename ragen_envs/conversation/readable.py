"""Write observations of Gymnasium environments as text, and read what their docstrings say."""

import inspect
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

_COLORS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLORED: Final = re.compile(r"\x1b\[([\d;]*)m(.*?)\x1b\[0?m", re.DOTALL)
_ESCAPE: Final = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_HEADER: Final = re.compile(r"^ *#+ *(.*?):? *$", re.MULTILINE)
_ITEM: Final = re.compile(r"^\s*(?:[-*+]\s+|\|\s*)?`?(\d+)`?\s*[:=|]\s*([^|\n]+)", re.MULTILINE)
"""An item of a list or a row of a table that begins with a number: "- 0: Move up", "| 0 | left | ... |"."""
_MARKUP: Final = (
    (re.compile(r"```.*?```", re.DOTALL), ""),
    (re.compile(r" ?\[<a [^>]*>.*?</a>\]"), ""),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"<[^>\n]+>|[*`]{1,3}(?=\S)|(?<=\S)[*`]{1,3}"), ""),
    (re.compile(r"\n\s*\n"), "\n"),
)


def written(space: spaces.Space[Any], value: Any, names: Sequence[str] = ()) -> str:
    """Return an observation in words; ``names`` are those of the numbers of a Box."""
    match space:
        case spaces.Dict():
            return "\n".join(f"{key}: {_value(each, value[key])}" for key, each in space.items())
        case spaces.Box() if names:
            pairs = zip(names, np.ravel(value), strict=True)
            return ", ".join(f"{name}: {number:.4g}" for name, number in pairs)
        case spaces.Text():
            return str(value)
    return f"Observation: {_value(space, value)}"


def _value(space: spaces.Space[Any], value: Any) -> str:
    match space:
        case spaces.Tuple():
            return f"({', '.join(map(_value, space, value))})"
        case spaces.Dict():
            return f"{{{', '.join(f'{key}: {_value(each, value[key])}' for key, each in space.items())}}}"
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            array = np.asarray(value)
            text = np.array2string(
                array, precision=4, suppress_small=True, threshold=array.size + 1, max_line_width=1000
            )
            return f"\n{text}" if array.ndim > 1 else text
    return str(value)


def size_of(space: spaces.Space[Any]) -> int:
    """Count the numbers of an observation."""
    match space:
        case spaces.Dict():
            return sum(map(size_of, space.values()))
        case spaces.Tuple():
            return sum(map(size_of, space))
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return int(np.prod(space.shape))
    return 1


def without_escapes(text: str) -> str:
    """Return a text for terminals without control sequences; colored characters become ``red[S]``."""
    return _ESCAPE.sub("", _COLORED.sub(_named_color, text)).strip()


def _named_color(match: re.Match[str]) -> str:
    codes = [int(code) for code in match[1].split(";") if code]
    color = next((_COLORS[code % 10] for code in codes if code >= 30 and code % 10 < 8), "")
    return f"{color}[{match[2]}]" if color else match[2]


class Docstring:
    """The docstring of an environment's class, or of its next base that has one.

    Gymnasium's docstrings have Markdown sections such as "Description" and "Action Space".
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        classes = type(env.unwrapped).__mro__
        own = classes[: classes.index(gym.Env)]
        doc = next((inspect.cleandoc(each.__doc__) for each in own if each.__doc__), "")
        begin, *rest = _HEADER.split(re.sub(r"```.*?```", "", doc, flags=re.DOTALL))
        titles = [title.lower() for title in rest[::2]]
        self._sections = {"": begin, **dict(zip(titles, rest[1::2], strict=True))}

    def description(self, with_observations: bool) -> str:
        """Return the description and the rewards, and what observations are if these are numbers."""
        wanted = ["description", *(["observation"] if with_observations else []), "reward"]
        first = self._sections[""] if not self._section("description") else ""
        texts = [first, *map(self._section, wanted)]
        for pattern, by in _MARKUP:
            texts = [pattern.sub(by, dedent(text)) for text in texts]
        return "\n".join(text.strip() for text in texts if text.strip())

    def _section(self, title: str) -> str:
        texts = (text for name, text in self._sections.items() if name.startswith(title))
        return next(texts, "")

    def items(self, title: str, count: int) -> tuple[str, ...]:
        """Return the names of a section's list or table that numbers them from 0; () without one."""
        text = self._section(title) or self._sections[""]
        names: list[str] = []
        for number, name in _ITEM.findall(text):
            if int(number) == len(names) < count:
                names.append(" ".join(name.replace("`", "").split()).rstrip(".,;"))
        return tuple(names) if len(names) == count else ()
