"""Python files of the user's own, imported for the games and the parts of the trainer that they register.

The processes that do a part of the work import them too.
"""

import importlib
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ragen_envs.errors import RagenError

_VARIABLE: Final = "RAGEN_IMPORT"
"""Environment variable that tells the processes of a sweep's tasks what to import."""
_THREADS: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip
_imported: Final[list[str]] = []


def imported_extensions() -> list[str]:
    """Return the arguments of ``ragen --import`` for the same extensions: modules and paths of files."""
    return list(dict.fromkeys(_imported))


def ragen_for(games: Iterable[str], has_parts: bool = False) -> str:
    """Return ``ragen`` with the extensions that games may need, by their ids, or that have a trainer's parts.

    The suite's own games need none.
    """
    own = has_parts or not all(game.startswith("ragen/") for game in games)
    needed = imported_extensions() if own else []
    return " ".join(["ragen", *(f"--import {shlex.quote(name)}" for name in needed)])


def task_environment(threads: int, hides_gpus: bool = False) -> dict[str, str]:
    """Return the environment variables of a task's process: thread limits, extensions, absolute paths."""
    changed = dict.fromkeys(_THREADS, str(threads))
    if _imported:
        changed[_VARIABLE] = os.pathsep.join(_imported)
    if hides_gpus:
        changed["CUDA_VISIBLE_DEVICES"] = ""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        changed["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return changed


def import_from_environment() -> None:
    """Import the extensions of the process that has started this one."""
    for name in filter(None, os.environ.get(_VARIABLE, "").split(os.pathsep)):
        import_extension(name)


def import_extension(name: str) -> None:
    """Import a module of the current directory or an installed one, or a Python file.

    A file is imported by its name, with its folder to import from, so that an env whose entry point names
    the module is found.
    """
    path = Path(name)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise RagenError(f"'{name}' does not exist")
    folder = str(path.resolve().parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(path.stem if is_file else name)
    except RagenError as error:
        raise RagenError(f"'{name}' cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise RagenError(f"'{name}' cannot be imported: {type(error).__name__}: {error}") from error
    loaded = getattr(module, "__file__", None)
    if is_file and (loaded is None or Path(loaded).resolve() != path.resolve()):
        raise RagenError(
            f"'{name}' cannot be imported: a module named '{path.stem}' is loaded already "
            f"({loaded or 'built in'}); rename the file"
        )
    if loaded is None and not is_file:
        raise RagenError(f"'{name}' cannot be imported: it is a folder without an __init__.py")
    _imported.append(str(path.resolve()) if is_file else name)
