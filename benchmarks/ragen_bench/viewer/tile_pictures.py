"""The cells of the boards as pictures: the ones that the games draw themselves."""

from pathlib import Path
from typing import Any, Final

import gymnasium as gym
from PIL import Image

from ragen_envs.registration import GAMES, GameSpec

_SIDE: Final = 64


def tile_set(text_id: str) -> dict[str, Any] | None:
    """Return the folder of a game's tiles and the names of its cells by symbol.

    Args:
        text_id: Id of the game's conversation.

    Returns:
        None for a game without a board, or from outside the suite.
    """
    spec = gym.registry.get(text_id)
    game_id = None if spec is None else spec.kwargs.get("game")
    game = next((game for game in GAMES if game.id == game_id), None)
    if game is None or game.env_class.tile_set() is None:
        return None
    signs = game.env_class.text.vocabularies["standard"]
    return {"folder": _folder(game), "cells": {sign: cell for cell, sign in signs.items()}}


def write_tiles(folder: Path) -> None:
    """Write a picture of every cell, ``GAME/CELL.png``, spaces as dashes."""
    for name, game in {_folder(game): game.env_class for game in GAMES}.items():
        tiles = game.tile_set()
        if tiles is None:
            continue
        (folder / name).mkdir(parents=True)
        for cell, picture in zip(
            game.text.vocabularies["standard"], tiles.draw(_SIDE), strict=True
        ):
            Image.fromarray(picture).save(folder / name / f"{cell.replace(' ', '-')}.png")


def _folder(game: GameSpec) -> str:
    """Return the name of the game's package, which its variants share."""
    return game.module.rpartition(".")[2]
