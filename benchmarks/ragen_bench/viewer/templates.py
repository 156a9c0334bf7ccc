"""Render pages from templates, with their assets and tiles, and serve them."""

import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jinja2
from PIL import Image

from ragen_agents.run_files.files import new_folder, writing
from ragen_bench.console.formats import number, percent
from ragen_envs.errors import RagenError
from ragen_envs.registration import GAMES, GameSpec, spec_of

_SIDE: Final = 64


def tile_set(text_id: str) -> dict[str, Any] | None:
    """Return the folder of a game's tiles and the names of its cells by symbol.

    Returns:
        None for a game without a board, or from outside the suite.
    """
    game = spec_of(text_id)
    if game is None or game not in GAMES or game.env_class.tile_set is None:
        return None
    signs = game.env_class.text.vocabularies["standard"]
    return {"folder": _folder(game), "cells": {sign: cell for cell, sign in signs.items()}}


def _write_tiles(folder: Path) -> None:
    """Write a picture of every cell, ``GAME/CELL.png``, spaces as dashes."""
    for name, game in {_folder(game): game.env_class for game in GAMES}.items():
        tiles = game.tile_set
        if tiles is None:
            continue
        (folder / name).mkdir(parents=True)
        for cell, picture in zip(game.text.vocabularies["standard"], tiles.draw(_SIDE), strict=True):
            Image.fromarray(picture).save(folder / name / f"{cell.replace(' ', '-')}.png")


def _folder(game: GameSpec) -> str:
    """Return the name of the game's package, which its variants share."""
    return game.module.rpartition(".")[2]


_FOLDERS: Final = ("viewer", "leaderboard")


def page_templates() -> jinja2.Environment:
    """Return the templates; what is inserted is escaped."""
    loaders = [jinja2.PackageLoader("ragen_bench", f"templates/{name}") for name in _FOLDERS]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent)
    environment.tests["known"] = math.isfinite
    return environment


def _write_assets(out: Path) -> None:
    """Write styles, scripts, the icon and the tiles of the boards."""
    for folder in _FOLDERS:
        for item in (resources.files("ragen_bench") / "templates" / folder).iterdir():
            if item.name.endswith((".css", ".js", ".svg")):
                with resources.as_file(item) as path:
                    shutil.copyfile(path, out / item.name)
    _write_tiles(out / "tiles")


def write_page(templates: jinja2.Environment, out: Path, path: str, template: str, **values: Any) -> None:
    """Write a page to a path below a folder."""
    page = templates.get_template(f"{template}.j2")
    target = out / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page.render(root="../" * path.count("/"), page=path, **values), encoding="utf-8")


_MARK: Final = "tiles/sokoban/wall.png"
"""File that marks a folder of pages; one of another site would be lost."""


def refuse_other_folder(out: Path) -> None:
    """Raise `RagenError` if a path holds something that pages must not replace."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / _MARK).is_file())):
        raise RagenError(f"'{out}' contains something other than a site; choose another --out")


@contextmanager
def new_site(out: Path) -> Iterator[Path]:
    """Yield a folder with all assets that takes the place of an older site when it is complete."""
    with writing(out), new_folder(out) as new:
        _write_assets(new)
        yield new


class LocalHandler(BaseHTTPRequestHandler):
    """Answers browsers of this machine only, and logs nothing.

    A page of another site whose name leads to this machine has that name as its host.
    """

    def parse_request(self) -> bool:
        """Refuse requests to other hosts."""
        if not super().parse_request():
            return False
        host = self.headers.get("Host", "")
        if host.partition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(421, "this server answers 127.0.0.1 and localhost only")
            return False
        return True

    def handle(self) -> None:
        """Answer until the client disconnects."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""


class _FolderHandler(LocalHandler, SimpleHTTPRequestHandler):
    def send_head(self) -> Any:
        """Send the headers of a file, or 404 for a path that cannot be one."""
        try:
            return super().send_head()
        except ValueError:
            return self.send_error(404)


def folder_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder on localhost that does not serve yet."""
    return local_server(port, partial(_FolderHandler, directory=folder))


def local_server(port: int, handler: Callable[..., LocalHandler]) -> ThreadingHTTPServer:
    """Return a server on localhost that does not serve yet."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise RagenError(f"port is {port}, but it cannot be used: {why}") from error


def serve_folder(folder: Path, port: int) -> None:
    """Serve a folder on localhost until Ctrl-C, and print its address first; see `folder_server`."""
    with folder_server(folder, port) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
