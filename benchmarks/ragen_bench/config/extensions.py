"""Python files of the user's own, imported for the games that they register."""

import importlib
import sys
from pathlib import Path

from ragen_envs.errors import RagenError


def import_extension(name: str) -> None:
    """Import a module of the current directory or an installed one, or a Python file.

    A file is imported by its name, with its folder to import from, so that an env whose entry point names
    the module is found.

    Raises:
        RagenError: It cannot be imported.
    """
    path = Path(name)
    is_file = path.suffix == ".py"
    folder = str(path.resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        importlib.import_module(path.stem if is_file else name)
    except Exception as error:
        raise RagenError(f"'{name}' cannot be imported: {type(error).__name__}: {error}") from error
