"""Recipes: settings with which a model was seen to learn, by name."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ragen_agents.run_files.yaml_files import load_yaml
from ragen_envs.errors import RagenError

_FOLDER: Final = Path(__file__).with_name("recipes")

Command = Literal["sft", "train"]


class Recipe(BaseModel):
    """What one file holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    """One line: what learns what."""
    train: dict[str, Any]
    """Settings of ``ragen train``."""
    sft: dict[str, Any] | None = None
    """Settings of ``ragen sft``, whose result ``ragen train`` then goes on from."""


@lru_cache(maxsize=1)
def recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    return {
        path.stem: Recipe.model_validate(load_yaml(path.read_text(encoding="utf-8"), path.name))
        for path in sorted(_FOLDER.glob("*.yaml"))
    }


def recipe_settings(name: str, command: Command, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a recipe has for a command.

    Args:
        name: Of the recipe.
        command: Which of its settings.
        overrides: What the user sets, which may be all that is missing.

    Raises:
        RagenError: There is no such recipe, or not for this command, or the model to go on from is missing.
    """
    recipe = recipes().get(name)
    if recipe is None:
        raise RagenError(f"unknown recipe '{name}'; known are {', '.join(recipes())}")
    if command == "sft" and recipe.sft is None:
        raise RagenError(f"recipe '{name}' has no imitation; run ragen train --recipe {name}")
    if command == "train" and recipe.sft is not None and "model" not in overrides:
        raise RagenError(
            f"recipe '{name}' goes on from a model that has imitated: first run "
            f"ragen sft --recipe {name} --out FOLDER, then give model=FOLDER"
        )
    return dict((recipe.sft if command == "sft" else recipe.train) or {})


def recipe_overrides(what: str | None, settings: list[str]) -> list[str]:
    """Return the settings of a command line with a recipe, which names no game.

    Raises:
        RagenError: It names one.
    """
    if what is None:
        return settings
    if "=" not in what:
        raise RagenError(f"a recipe has a game of its own; omit '{what}'")
    return [what, *settings]
