"""``ragen games``: list the games."""

import logging
from importlib.util import find_spec
from typing import Any, Final

from ragen_bench.cli.options import FormatOption, WideOption
from ragen_bench.console.formats import Format, Grid, print_table

_LOG: Final = logging.getLogger("ragen.games")


def games(style: FormatOption = Format.TABLE, wide: WideOption = False) -> None:
    """List the games with their ids, a summary, and the number of frozen levels."""
    import pandas as pd

    rows = [*filter(None, (_row_of(*game) for game in _listed())), *_multi_agent_rows()]
    header = ["id", "text id", "summary", "frozen levels", "train / validation / test"]
    cells = [
        [
            row["id"],
            row["text_id"],
            row["summary"],
            row["levels"],
            _counts(row),
        ]
        for row in rows
    ]
    hideable = ("frozen levels", header[-1], "id")
    grid = Grid(header, cells, 4, hideable, wrapped=("summary",), grouped=False)
    print_table(pd.DataFrame(rows), grid, style, "Games", wide=wide)


def _counts(row: dict[str, Any]) -> str:
    if row["numbered"]:
        return "any number"
    counts = (row["train"], row["validation"], row["test"])
    return " / ".join(map(str, counts)) if any(counts) else "none"


def _listed() -> list[tuple[str, str, str]]:
    """Return id, text id and summary of every game."""
    from ragen_envs.registration import GAMES, TEXT_VARIANTS, added_games, game_of, text_ids

    listed = [(game.id, game.text_id, game.summary) for game in GAMES]
    for text_id, (game_id, settings) in TEXT_VARIANTS.items():
        how = ", ".join(f"{name} {value}" for name, value in settings.items())
        listed.append((game_id, text_id, f"the same game with {how}"))
    listed += [(game.id, game.text_id, game.summary) for game in added_games()]
    known = {text_id for _, text_id, _ in listed}
    others = ((game_of(text_id) or "", text_id) for text_id in text_ids() if text_id not in known)
    return [*listed, *((game_id, text_id, f"{game_id} in words") for game_id, text_id in others)]


def _row_of(game_id: str, text_id: str, summary: str) -> dict[str, Any] | None:
    """Return the row of a game; None, with a warning, for one that cannot be made."""
    try:
        return _row(game_id, text_id, summary)
    except Exception as error:
        _LOG.warning("game '%s' cannot be made: %s: %s", text_id, type(error).__name__, error)
        return None


def _row(game_id: str, text_id: str, summary: str) -> dict[str, Any]:
    from ragen_envs.conversation import make
    from ragen_envs.levels.instances import manifest
    from ragen_envs.levels.splits import SPLITS

    game: Any = make(text_id).unwrapped
    levels = str(game.distribution)
    counts = {
        split: int(manifest().get(f"{levels}.{split}.jsonl", {}).get("instances", 0))
        for split in SPLITS
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
    """Return the rows of the multi-agent games, if PettingZoo is installed."""
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
