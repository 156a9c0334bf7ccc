"""The settings of a training run, from presets, recipes, files and the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ragen_agents.model_files.source import model_source
from ragen_agents.run_files.yaml_files import validate
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.run.run_directory import read_settings, with_weights
from ragen_agents.starter import STARTERS
from ragen_bench.config.bundled import load_named
from ragen_bench.config.game_names import text_id_of
from ragen_bench.config.overrides import read_overrides
from ragen_bench.config.own_levels import own_level_count, with_level_texts
from ragen_bench.config.suites import StrictModel
from ragen_envs.errors import RagenError

DEFAULT_PRESET: Final = "starpo-s"
RECIPES: Final = "training/recipes"
"""Folder of the recipes: tested settings with which a model learns."""


class Recipe(StrictModel):
    """One recipe file."""

    description: str
    """One line: what learns what."""
    sft: dict[str, Any] | None = None
    """Settings of ``ragen sft``, where the model has to imitate the oracle first."""
    train: dict[str, Any]
    """Settings of ``ragen train``; without a model where ``sft`` makes it."""


def find_recipe(name: str) -> Recipe:
    """Load a recipe by its name or from a YAML file."""
    return load_named(Recipe, RECIPES, "recipe", name)


def make_train_config(
    what: str, preset: str | None, scale: str | None, overrides: Sequence[str], hashed: bool = True
) -> TrainConfig:
    """Return the training config that a command line specifies.

    ``what`` is the name of a game, the id of a conversation env, or the path of a YAML file. Without a
    preset a game gets the default one, and a file none; without a scale a game with a starter model gets the
    one for laptops. ``hashed``: the config holds the hash of the model's weights, which must then be there.
    """
    for name, value, known in (("preset", preset, PRESETS), ("scale", scale, SCALES)):
        if value is not None and value not in known:
            raise RagenError(f"unknown {name} '{value}'; known are {', '.join(known)}")
    is_file = what.endswith((".yaml", ".yml"))
    given = merged(
        read_settings(Path(what)) if is_file else {"game": text_id_of(what)}, read_overrides(overrides)
    )
    if not is_file:
        preset = preset or DEFAULT_PRESET
        if scale is None and given.get("model", "starter") in STARTERS:
            scale = "laptop"
    layers = SCALES[scale] if scale else {}, PRESETS[preset] if preset else {}, given
    return layered_config(*layers, hashed=hashed)


def recipe_config(recipe: str, overrides: Sequence[str], hashed: bool = True) -> TrainConfig:
    """Return the training config of a recipe with settings laid over it."""
    chosen, given = find_recipe(recipe), read_overrides(overrides)
    if chosen.sft is not None and "model" not in given:
        raise RagenError(
            f"the recipe '{recipe}' trains a model that has imitated the oracle; make one with "
            f"'ragen sft --recipe {recipe} --out runs/imitated' and add model=runs/imitated"
        )
    return layered_config(chosen.train, given, hashed=hashed)


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


def layered_config(*layers: dict[str, Any], hashed: bool = True) -> TrainConfig:
    """Return the config of merged settings, ``hashed`` with the hash of its model's weights."""
    config = validate(TrainConfig, merged(*layers), "config")
    game = text_id_of(config.game)
    model_source(config.model)  # refuses folders that do not exist
    env_kwargs = with_level_texts(game, config.env_kwargs)
    changes: dict[str, Any] = {"game": game, "env_kwargs": env_kwargs}
    if count := own_level_count({"levels": env_kwargs.get("levels")}):
        episodes = min(config.evaluation.episodes, count)
        changes["evaluation"] = config.evaluation.model_copy(update={"episodes": episodes})
    config = config.model_copy(update=changes)
    return with_weights(config) if hashed else config.model_copy(update={"weights": None})
