"""The templates of all pages, and the files that they refer to."""

import math
import shutil
from importlib import resources
from pathlib import Path
from typing import Final

import jinja2

from ragen_bench.console.formats import number, percent
from ragen_bench.viewer.tile_pictures import write_tiles

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


def write_assets(out: Path) -> None:
    """Write styles, scripts, the icon and the tiles of the boards."""
    for folder in _FOLDERS:
        for item in (resources.files("ragen_bench") / "templates" / folder).iterdir():
            if item.name.endswith((".css", ".js", ".svg")):
                with resources.as_file(item) as path:
                    shutil.copyfile(path, out / item.name)
    write_tiles(out / "tiles")
