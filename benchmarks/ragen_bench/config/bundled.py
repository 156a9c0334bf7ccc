"""The YAML files that come with the package, by their names."""

from importlib import resources
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ragen_agents.run_files.yaml_files import load_yaml, validate
from ragen_envs.errors import RagenError

ModelT = TypeVar("ModelT", bound=BaseModel)


def bundled_names(folder: str) -> list[str]:
    """Return the names of the YAML files in a folder of the package, without their endings."""
    files = (item.name for item in (resources.files("ragen_bench") / folder).iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def load_named(model: type[ModelT], folder: str, kind: str, name: str) -> ModelT:
    """Load a YAML file of a folder of the package by its name, or any other by its path."""
    what, known = f"{kind} '{name}'", bundled_names(folder)
    try:
        if name in known:
            text = (resources.files("ragen_bench") / folder / f"{name}.yaml").read_text("utf-8")
        elif Path(name).is_file():
            text = Path(name).read_text(encoding="utf-8")
        elif name.endswith((".yaml", ".yml")) or "/" in name:
            raise RagenError(f"there is no file '{name}'")
        else:
            raise RagenError(f"unknown {what}; use {', '.join(known)}, or the path of a YAML file")
    except (OSError, UnicodeDecodeError) as error:
        raise RagenError(f"{what} cannot be read: {error}") from error
    return validate(model, load_yaml(text, what), what)
