"""``ragen games``, ``play`` and ``new-game``: list the games, play one, start a new one."""

import logging
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragen_bench.cli.options import FormatOption, SettingOption, WideOption, complete_game
from ragen_bench.console.formats import Cells, Format, grid_of, print_table

_LOG: Final = logging.getLogger("ragen.games")


def games(style: FormatOption = Format.TABLE, wide: WideOption = False) -> None:
    """List the games with their ids, a summary, and the number of frozen levels."""
    import pandas as pd

    from ragen_bench.console.tables import Table

    rows = []
    for game_id, text_id, summary in _listed():
        try:
            rows.append(_row(game_id, text_id, summary))
        except Exception as error:  # a game of one's own
            _LOG.warning("game '%s' cannot be made: %s: %s", text_id, type(error).__name__, error)
    rows += _multi_agent_rows()
    columns: dict[str, Cells] = {
        "id": "id", "text id": "text_id", "summary": "summary", "frozen levels": "levels",
        "train / validation / test": _counts,
    }  # fmt: skip
    data, hideable = pd.DataFrame(rows), ("frozen levels", "train / validation / test", "id")
    grid = grid_of(data, columns, 4, hideable=hideable, wrapped=("summary",), grouped=False)
    print_table(Table.of(data, {"Games": grid}), style, wide=wide)


def _counts(row: Mapping[Any, Any]) -> str:
    if row["numbered"]:
        return "any number"
    counts = (row["train"], row["validation"], row["test"])
    return " / ".join(map(str, counts)) if any(counts) else "none"


def _listed() -> list[tuple[str, str, str]]:
    """Return id, text id and summary of every game."""
    from ragen_envs.registration import GAMES, TEXT_VARIANTS, added_games, game_of, text_ids

    listed = [(game.id, game.text_id, game.summary) for game in GAMES]
    for text_id, (game_id, settings) in TEXT_VARIANTS.items():
        changes = ", ".join(f"{name} {value}" for name, value in settings.items())
        listed.append((game_id, text_id, f"{game_id} with {changes}"))
    listed += [(game.id, game.text_id, game.summary) for game in added_games()]
    known = {text_id for _, text_id, _ in listed}
    others = ((game_of(text_id) or "", text_id) for text_id in text_ids() if text_id not in known)
    return [*listed, *((game_id, text_id, f"{game_id} in words") for game_id, text_id in others)]


def _row(game_id: str, text_id: str, summary: str) -> dict[str, Any]:
    from ragen_envs.conversation import make
    from ragen_envs.levels.instances import manifest
    from ragen_envs.levels.splits import SPLITS

    game: Any = make(text_id).unwrapped
    levels = str(game.distribution)
    counts = {
        split: int(manifest().get(f"{levels}.{split}.jsonl", {}).get("instances", 0)) for split in SPLITS
    }
    return {
        "id": game_id,
        "text_id": text_id,
        "summary": summary,
        "levels": levels,
        "numbered": not getattr(game, "has_packs", True),
        **counts,
    }


def _multi_agent_rows() -> list[dict[str, Any]]:
    if find_spec("pettingzoo") is None:
        return []
    import pettingzoo

    from ragen_envs.levels.splits import SPLITS
    from ragen_envs.multi_agent import MULTI_AGENT_GAMES

    return [
        {
            "id": game.id,
            "text_id": game.text_id,
            "summary": game.summary,
            "levels": pettingzoo.make("parallel", game.id).distribution,
            "numbered": False,
            **dict.fromkeys(SPLITS, 0),
        }
        for game in MULTI_AGENT_GAMES
    ]


def play(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="Name or id; see ragen games.", autocompletion=complete_game)
    ],
    index: Annotated[
        int | None, typer.Option(metavar="I", help="Index of a frozen level.", show_default="a fresh level")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split of --index: train, validation or test.", show_default="test"),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of a fresh training level.")] = None,
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
    from ragen_bench.play.terminal import KeyReader, open_game, play_game

    env = open_game(game, index, split, seed, read_overrides(setting or []))
    if browser:
        from ragen_bench.play.browser import play_in_browser

        play_in_browser(env, port)
        return
    with KeyReader(env) if sys.stdin.isatty() else nullcontext(_read_line) as ask:
        play_game(env, Console(highlight=False), ask)


def _read_line() -> str:
    """Read a line that comes from no terminal, and show it."""
    line = input()
    print(line)
    return line


def new_game(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the package, such as tower_of_hanoi.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder.", show_default="./NAME")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Make a game whose actions are words, such as search[shoes].")
    ] = False,
) -> None:
    """Create the package of a new game, with tests and documentation, as a starting point."""
    from ragen_bench.new_game import new_game

    folder = out or Path(name)
    for path in new_game(name, folder, words=text):
        print(folder / path)
    print(f"\ncd {folder} && python -m pytest   # then read README.md")
