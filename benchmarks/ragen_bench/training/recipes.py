"""Recipes: tested settings with which a model learns, by name."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from ragen_agents.run_files.yaml_files import load_yaml
from ragen_envs.errors import RagenError

_FOLDER: Final = Path(__file__).with_name("recipes")


class Recipe(BaseModel):
    """One recipe file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    """One line: what learns what."""
    sft: dict[str, Any] | None = None
    """Settings of ``ragen sft``, where the model has to imitate the oracle first."""
    train: dict[str, Any]
    """Settings of ``ragen train``; without a model where ``sft`` makes it."""


@lru_cache(maxsize=1)
def recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    return {
        path.stem: Recipe.model_validate(load_yaml(path.read_text(encoding="utf-8"), path.name))
        for path in sorted(_FOLDER.glob("*.yaml"))
    }


def find_recipe(name: str) -> Recipe:
    """Return a recipe."""
    recipe = recipes().get(name)
    if recipe is None:
        raise RagenError(f"unknown recipe '{name}'; known are {', '.join(recipes())}")
    return recipe


def imitation_of(name: str) -> dict[str, Any]:
    """Return the settings of ``ragen sft`` in a recipe."""
    settings = find_recipe(name).sft
    if settings is None:
        raise RagenError(f"the recipe '{name}' needs no imitation; start with: ragen train --recipe {name}")
    return settings


def recipe_overrides(what: str | None, settings: list[str]) -> list[str]:
    """Return the settings of a command line with a recipe, which names no game."""
    if what is None:
        return settings
    if "=" not in what:
        raise RagenError(f"a recipe sets its own game; remove '{what}'")
    return [what, *settings]
