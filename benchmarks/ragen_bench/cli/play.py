"""``ragen play``: play a game yourself."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.completion import complete_game
from ragen_bench.cli.options import SettingOption

if TYPE_CHECKING:
    from ragen_envs.conversation import ConversationWrapper


def play(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME", help="Name or id; see ragen games.", autocompletion=complete_game
        ),
    ],
    index: Annotated[
        int | None,
        typer.Option(metavar="I", help="Index of a frozen level.", show_default="a fresh level"),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Split of the frozen level: train, validation or test.")
    ] = "test",
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of a fresh training level.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play WebShop in a browser, on this computer.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65535, help="Port of --browser; 0 for any.")
    ] = 8000,
    setting: SettingOption = None,
) -> None:
    """Play a game yourself. Press arrow keys, or type actions or their first letters, "hint" or "quit"."""
    from rich.console import Console

    from ragen_bench.config.overrides import read_overrides
    from ragen_bench.play.terminal import open_game, play_game

    env = open_game(game, index, split, seed, read_overrides(setting or []))
    if browser:
        from ragen_bench.play.browser import play_in_browser

        play_in_browser(env, port, print)
        return
    with _reader(env) as ask:
        play_game(env, Console(highlight=False), ask)


def _reader(env: "ConversationWrapper") -> AbstractContextManager[Callable[[], str]]:
    """Return what reads a turn: keys of a terminal, or lines where there is none."""
    if sys.stdin.isatty() and find_spec("termios") is not None:
        from ragen_bench.play.terminal import KeyReader

        return KeyReader(env)
    return nullcontext(_read_line)


def _read_line() -> str:
    line = input()
    if not sys.stdin.isatty():
        print(line)  # a terminal has shown it already
    return line
