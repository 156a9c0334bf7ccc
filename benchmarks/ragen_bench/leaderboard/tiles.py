"""The cells of the boards as pictures: the ones that the games draw themselves."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from ragen_envs.frozen_lake import image as frozen_lake
from ragen_envs.frozen_lake.text import CELL_NAMES as LAKE_CELLS
from ragen_envs.frozen_lake.text import STANDARD as LAKE_SIGNS
from ragen_envs.sokoban import image as sokoban
from ragen_envs.sokoban.text import CELL_NAMES as SOKOBAN_CELLS
from ragen_envs.sokoban.text import STANDARD as SOKOBAN_SIGNS

_SIDE: Final = 64
_SETS: Final = {
    "sokoban": (sokoban.render, SOKOBAN_CELLS, SOKOBAN_SIGNS),
    "frozen_lake": (frozen_lake.render, LAKE_CELLS, LAKE_SIGNS),
}


def tile_set(distribution: str) -> dict[str, Any] | None:
    """Return the folder of a game's tiles and the names of its cells by symbol, or None without a board."""
    for name, (_, _, signs) in _SETS.items():
        if distribution.startswith(f"{name}-"):
            return {"folder": name, "cells": {sign: cell for cell, sign in signs.items()}}
    return None


def write_tiles(folder: Path) -> None:
    """Write a picture of every cell, ``SET/CELL.png``, spaces as dashes."""
    for name, (render, cells, _) in _SETS.items():
        (folder / name).mkdir(parents=True)
        for code, cell in enumerate(cells):
            picture = render(np.array([[code]], dtype=np.uint8), _SIDE)
            Image.fromarray(picture).save(folder / name / f"{cell.replace(' ', '-')}.png")
