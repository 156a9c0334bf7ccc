"""Create a new game: a package with rules, text, levels, an oracle and passing tests."""

import keyword
import re
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ragen_agents.run_files.files import new_folder, writing
from ragen_envs.errors import RagenError
from ragen_envs.registration import GameSpec

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,39}")


def new_game(name: str, folder: Path, words: bool = False) -> list[Path]:
    """Write the package of a new game.

    Returns:
        The files, relative to the folder.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise RagenError(
            f"name is '{name}', but must be a Python name of 2 to 40 lower-case letters, digits and _"
        )
    taken = name == GameSpec.namespace or name in sys.stdlib_module_names
    if taken or find_spec(name) or find_spec(f"ragen_envs.games.{name}"):
        raise RagenError(f"name is '{name}', but there is a package or a game of that name; choose another")
    if folder.exists():
        raise RagenError(f"'{folder}' exists already; choose another --out")
    replaced = {"newgame": name, "NewGame": "".join(part.title() for part in name.split("_"))}
    files: set[Path] = set()
    with writing(folder), new_folder(folder) as new:
        for kind in ("template", "template_words")[: 1 + words]:  # the second replaces the game
            with resources.as_file(resources.files("ragen_bench.new_game") / kind) as template:
                files |= {
                    _copy(path, template, new, replaced)
                    for path in template.rglob("*")
                    if path.is_file() and path.suffix != ".pyc"
                }
    return sorted(files)


def _copy(path: Path, template: Path, folder: Path, words: dict[str, str]) -> Path:
    """Write one file with the game's names in place of the template's; return its relative path."""
    relative, text = str(path.relative_to(template)), path.read_text(encoding="utf-8")
    for old, new in words.items():
        relative, text = relative.replace(old, new), text.replace(old, new)
    target = folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return Path(relative)
