"""Play a game in the terminal, by the rules and limits that models have."""

import os
import re
import secrets
import select
import sys
import termios
import tty
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from rich.console import Console
from rich.text import Text

from ragen_bench.config.game_names import text_id_of
from ragen_envs.conversation import ConversationWrapper, format_reply, make
from ragen_envs.conversation.prompt import introduction
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.game.word_game import WordGameEnv

_ARROWS: Final = {"↑": "up", "↓": "down", "←": "left", "→": "right"}
_STYLES: Final = {
    "wall": "bright_black", "empty": "bright_black", "frozen": "bright_black",
    "target": "bold yellow", "goal": "bold yellow", "box": "bold red",
    "box on target": "bold green", "hole": "blue", "player": "bold cyan",
    "player on target": "bold cyan", "player in hole": "bold red", "player on goal": "bold green",
}  # fmt: skip


def open_game(
    game: str, index: int | None, split: str | None, seed: int | None, settings: Mapping[str, Any]
) -> ConversationWrapper:
    """Return a game as a conversation, at its start."""
    if index is not None and seed is not None:
        raise RagenError("--index chooses a frozen level and --seed a fresh one; give one of them")
    if index is None and split is not None:
        raise RagenError("--split is that of a frozen level; choose one with --index")
    if seed is not None and seed < 0:
        raise RagenError(f"seed is {seed}, but must be an integer >= 0")
    env = make(text_id_of(game), **settings)
    if index is not None:
        env.reset(options={"split": split or "test", "index": index})
    else:
        env.reset(seed=secrets.randbelow(1 << 31) if seed is None else seed)
    return env


def play_game(env: ConversationWrapper, console: Console, ask: Callable[[], str]) -> None:
    """Play one episode."""
    console.print(Text(_introduction(env), style="dim"))
    for message in env.messages[1:-1]:
        console.print(f"\n{message['content']}", style="dim", markup=False)
    total = 0.0
    begun = False
    while env.end is None:
        if begun and console.is_terminal:
            console.clear()
        begun = True
        console.print()
        console.print(paint(env))
        names = _ask(env, console, ask)
        if names is None:
            console.print("you stopped")
            return
        result = env.play(format_reply(names, "" if env.settings.think else None))
        total += result.reward
    console.print()
    console.print(paint(env))
    console.print(f"return {total:.6g}", markup=False)


def _introduction(env: ConversationWrapper) -> str:
    instance = env.unwrapped.instance  # type: ignore[attr-defined]
    level = f"level {instance.index} of {instance.split}"
    if instance.index is None:
        level = f"fresh level, --seed {instance.seed}"
    rules, legend = env.face.rules(env.unwrapped), env.face.legend(env.symbols)
    shown = introduction(rules, legend, env.names, env.settings)
    turn = env.budget.this_turn
    ways = ["Write an action" if turn == 1 else "Write actions, separated by ||"]
    if _letters(env):
        example = "".join(name[0].casefold() for name in env.names[:turn][:3])
        ways.append(f"first letters such as {example}")
    keys = ""
    if {name.casefold() for name in env.names} >= set(_ARROWS.values()):
        keys = f"Arrow keys work too; {turn} of them play a turn without Enter. "
        if turn == 1:
            keys = "Arrow keys play without Enter. "
    return (
        f"{shown}\n{level}. Below is what a model sees. {', or '.join(ways)}, and press Enter. "
        f"{keys}hint: the best actions; quit: stop."
    )


def paint(env: ConversationWrapper) -> Text:
    """Return the current message, with the board in colour."""
    styles = {sign: _STYLES[cell] for cell, sign in env.symbols.items() if cell in _STYLES}
    lines = env.user.split("\n")
    board = set(env.symbols.values())
    text = Text()
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        if len(line) > 1 and set(line) <= board:
            for sign in line:
                text.append(sign, styles.get(sign, ""))
        else:
            text.append(line)
    return text


def _ask(env: ConversationWrapper, console: Console, ask: Callable[[], str]) -> list[str] | None:
    """Return the actions of a turn as text, or None to stop."""
    limit = env.budget.this_turn
    while True:
        console.print("> ", end="", markup=False)
        try:
            line = ask().strip()
        except EOFError:
            console.print()
            return None
        if line.casefold() in ("quit", "q", "exit"):
            return None
        if line.casefold() in ("hint", "?"):
            console.print(_hint(env), markup=False)
            continue
        try:
            actions = _read_line(line, env)
        except RagenError as error:
            console.print(str(error), markup=False)
            continue
        if len(actions) <= limit:
            return actions
        console.print(f"that is {len(actions)} actions, but at most {limit} are left this turn")


def _hint(env: ConversationWrapper) -> str:
    try:
        best = action_texts(env.names, env.oracle().actions)
    except RagenError as error:
        return f"no hint: {error}"
    return f"best: {' || '.join(best) or 'nothing helps any more'}"


def _read_line(line: str, env: ConversationWrapper) -> list[str]:
    game = env.unwrapped
    if not isinstance(game, WordGameEnv):
        return [env.names[action] for action in read_actions(line, env.names)]
    actions = [part.strip() for part in line.split("||")]
    verdict = game.legal(actions[0])
    if not verdict.is_legal:
        raise RagenError(f"{verdict.reason}; write {', '.join(env.names)}, hint or quit")
    return actions


def _letters(env: ConversationWrapper) -> bool:
    if isinstance(env.unwrapped, WordGameEnv):
        return False
    return len({name[0].casefold() for name in env.names}) == len(env.names)


def read_actions(line: str, names: tuple[str, ...]) -> list[int]:
    """Return the actions that a person means.

    Each part between ``||`` is a name, a beginning of only one name, or, where all first letters
    differ, a run of first letters and arrows such as "rru".
    """
    parts = [part.strip() for part in line.split("||")]
    return [action for part in parts for action in _read_part(part, names)]


def _read_part(part: str, names: tuple[str, ...]) -> list[int]:
    lowered = [name.casefold() for name in names]
    typed = part.casefold()
    matches = [i for i, name in enumerate(lowered) if name.startswith(typed)]
    if typed in lowered:
        return [lowered.index(typed)]
    if part and len(matches) == 1:
        return matches
    signs = {sign: lowered.index(name) for sign, name in _ARROWS.items() if name in lowered}
    letters = {name[0]: i for i, name in enumerate(lowered)}
    if len(letters) == len(names):
        signs |= letters
    run = "".join(typed.split())
    if run and set(run) <= set(signs):
        return [signs[sign] for sign in run]
    raise RagenError(f"'{part}' is not an action; write {', '.join(names)}, hint or quit")


_ARROW_KEYS: Final = {"A": "↑", "B": "↓", "C": "→", "D": "←"}
"""The last character of an arrow key's sequence."""
_ESCAPE: Final = "\x1b"
_KEY: Final = re.compile(r"\x1b[\[O][^A-Za-z~]*[A-Za-z~]?|\x1b[^\x1b]?|.", re.DOTALL)
"""What one key sends: an escape sequence, or a character."""
_BEGUN: Final = re.compile(rb"\x1b(?:[\[O][^A-Za-z~]*)?$")
"""A sequence of which a slow connection may still bring the end."""
_SEQUENCE_SECONDS: Final = 0.1
_ENTER: Final = "\r\n"
_ERASE: Final = "\x7f\b"
_END: Final = "\x04"


class KeyReader:
    """Reads a turn of a conversation from the terminal.

    Keys write a line, and arrow keys write arrows into it, which stand for Up, Down, Left and Right. The turn
    is played at Enter, or as soon as it has as many arrows as actions. Nothing that a key sends is printed
    as it is.

    Use it as a context manager around the whole game.
    """

    def __init__(self, env: ConversationWrapper) -> None:
        self._env = env
        self._descriptor = sys.stdin.fileno()

    def __enter__(self) -> Self:
        """Switch the terminal to pass keys on at once, without showing them, until the end of the block."""
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        self._keys = _pressed(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def __call__(self) -> str:
        """Return the line that was typed; raises `EOFError` at Ctrl-D on an empty line or end of input."""
        try:
            return self._read(self._keys)
        finally:
            print(flush=True)

    def _read(self, keys: Iterator[str]) -> str:
        line = ""
        for key in keys:
            if key.startswith(_ESCAPE):
                arrow = self._arrow(key)
                line += arrow
                _show(arrow)
                if arrow and set(line) <= set(_ARROWS) and len(line) == self._env.budget.this_turn:
                    break
            elif key in _ENTER:
                break
            elif key == _END:
                if not line:
                    raise EOFError
            elif key in _ERASE:
                _show("\b \b" if line else "")
                line = line[:-1]
            elif key.isprintable():
                line += key
                _show(key)
        else:
            raise EOFError
        return line

    def _arrow(self, key: str) -> str:
        sign = _ARROW_KEYS.get(key[2:][-1:], "")
        names = {name.casefold() for name in self._env.names}
        return sign if _ARROWS.get(sign) in names else ""


def _show(text: str) -> None:
    print(text, end="", flush=True)


def _pressed(descriptor: int) -> Iterator[str]:
    """Yield what each key sends, as soon as it is pressed, until the end of the input."""
    decoder = getincrementaldecoder("utf-8")("ignore")
    while sent := os.read(descriptor, 1024):
        while _BEGUN.search(sent) and select.select([descriptor], [], [], _SEQUENCE_SECONDS)[0]:
            if not (more := os.read(descriptor, 1024)):
                break
            sent += more
        yield from _KEY.findall(decoder.decode(sent))
