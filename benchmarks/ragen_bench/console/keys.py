"""What a person types in a terminal: arrow keys as actions, anything else as a line."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Final, Self

from ragen_envs.conversation import ConversationWrapper
from ragen_envs.game.word_game import WordGameEnv

_ARROWS: Final = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""The last character of an arrow key's sequence."""
_ESCAPE: Final = "\x1b"
_ENTER: Final = "\r\n"
_ERASE: Final = "\x7f\b"
_END: Final = "\x04"


class KeyReader:
    """Reads a turn of a conversation from the terminal.

    Arrow keys choose the actions Up, Down, Left and Right; the turn is played at Enter, or as soon as it has
    as many actions as it may have. Other keys write a line, as without a terminal. Nothing that a key
    sends is printed as it is.

    Use it as a context manager around the whole game.

    Args:
        env: The conversation.
    """

    def __init__(self, env: ConversationWrapper) -> None:
        self._env = env
        self._descriptor = sys.stdin.fileno()

    def __enter__(self) -> Self:
        """Let the terminal pass keys on at once, without showing them, until the end of the block."""
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        self._keys = _characters(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def __call__(self) -> str:
        """Return what was written; raises `EOFError` at Ctrl-D on an empty line, or without more input."""
        try:
            return self._read(self._keys)
        finally:
            print(flush=True)

    def _read(self, keys: Iterator[str]) -> str:
        chosen: list[str] = []
        line = ""
        for key in keys:
            if key == _ESCAPE:
                name = self._arrow(keys)
                if name and not line:
                    chosen.append(name)
                    _show(f"{' || ' if len(chosen) > 1 else ''}{name}")
                    if len(chosen) == self._env.budget.this_turn:
                        break
            elif key in _ENTER:
                break
            elif key == _END:
                if not line and not chosen:
                    raise EOFError
            elif key in _ERASE:
                chosen, line = _erased(chosen, line)
            elif key.isprintable() and not chosen:
                line += key
                _show(key)
        else:
            raise EOFError
        return line or " || ".join(chosen)

    def _arrow(self, keys: Iterator[str]) -> str | None:
        """Return the action of an arrow key, or None of another key; its whole sequence is read."""
        sign = next(keys, "")
        if sign not in "[O":
            return None
        last = next(keys, "")
        while last and not last.isalpha() and last != "~":
            last = next(keys, "")
        if isinstance(self._env.unwrapped, WordGameEnv):
            return None
        wanted = _ARROWS.get(last)
        return next((name for name in self._env.names if name.casefold() == wanted), None)


def _erased(chosen: list[str], line: str) -> tuple[list[str], str]:
    """Take the last action or character back, also from the screen."""
    if chosen:
        width = len(chosen[-1]) + (4 if len(chosen) > 1 else 0)
        _show("\b \b" * width)
        return chosen[:-1], line
    if line:
        _show("\b \b")
    return chosen, line[:-1]


def _show(text: str) -> None:
    print(text, end="", flush=True)


def _characters(descriptor: int) -> Iterator[str]:
    """Yield what is typed, one character at a time, until the end of the input."""
    pending = b""
    while byte := os.read(descriptor, 1):
        pending += byte
        try:
            text = pending.decode()
        except UnicodeDecodeError:
            if len(pending) < 4:
                continue
            text = ""
        pending = b""
        yield from text
