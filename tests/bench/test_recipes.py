"""Settings that learn, by name."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from ragen_bench.__main__ import main
from ragen_bench.config.bundled import bundled_names
from ragen_bench.training.train_settings import RECIPES, find_recipe, recipe_config

from ragen_agents.sft import SftConfig
from ragen_agents.starpo.run.run_directory import load_train_config
from ragen_envs.errors import RagenError

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", bundled_names(RECIPES))
def test_every_recipe_is_a_valid_config_and_documented(name):
    recipe = find_recipe(name)
    given = ["model=starter"] if recipe.sft else []
    assert recipe_config(name, given).game == recipe.train["game"]
    if recipe.sft:
        imitated = SftConfig(**recipe.sft)
        assert (imitated.game, imitated.env_kwargs) == (
            recipe.train["game"],
            recipe.train["env_kwargs"],
        )
        assert "model" not in recipe.train
    assert f"| `{name}` | {recipe.description} |" in (DOCS / "training.md").read_text("utf-8")


def test_help_names_the_recipes(capsys):
    recipes = bundled_names(RECIPES)
    assert main(["train", "--help"]) == 0
    told = " ".join(re.sub(r"[^\w-]", " ", capsys.readouterr().out).split())
    named = told.partition("recipe in place of a game ")[2].split()[: len(recipes) + 1]
    assert set(named) == {*recipes, "or"}


def test_a_recipe_of_ones_own_is_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{description: Mine., train: {game: Bandit, model: starter, iterations: 3}}")
    assert recipe_config(str(path), ["seed=1"], hashed=False).iterations == 3
    path.write_text("{description: Mine., trian: {}}")
    with pytest.raises(RagenError, match="trian"):
        recipe_config(str(path), [])


def test_settings_are_laid_over_a_recipe(tiny, tmp_path):
    out = tmp_path / "run"
    small = ["rollout.prompts_per_iteration=2", "rollout.group_size=2", "rollout.max_tokens=8"]
    more = ["iterations=1", f"model={tiny}", "evaluation.every=0", *small]
    assert main(["train", "--recipe", "sokoban", *more, "--out", str(out)]) == 0
    config = load_train_config(out)
    assert config.advantage.estimator == "grpo"
    assert config.env_kwargs == {"think": False}
    assert config.rollout.group_size == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--recipe", "nope"], "use frozenlake, smollm2-bandit, smollm2-sokoban, sokoban"),
        (["sft", "--recipe", "nope", "--out", "x"], "use frozenlake, smollm2-bandit, smollm2-sokoban"),
        (["sft", "--recipe", "sokoban", "--out", "x"], "needs no imitation"),
        (["sft", "--out", "x"], "name a game, a --recipe, or a run with --from"),
        (["sft", "bandit", "--recipe", "smollm2-sokoban", "--out", "x"], "remove 'bandit'"),
        (["train", "--recipe", "smollm2-sokoban"], "ragen sft --recipe smollm2-sokoban --out"),
        (["train", "bandit", "--recipe", "sokoban"], "a recipe sets its own game; remove 'bandit'"),
        (["train", "--recipe", "sokoban", "--preset", "starpo-s"], "give one or the other"),
        (["train"], "name a game, a YAML file of settings, or a --recipe"),
    ],
)  # fmt: skip
def test_what_a_recipe_refuses(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_recipe_imitates_first(tiny, tmp_path):
    out = tmp_path / "imitated"
    given = [f"model={tiny}", "demonstrations=2", "batch_size=2", "micro_batch=2"]
    assert main(["sft", "--recipe", "smollm2-sokoban", *given, "--out", str(out)]) == 0
    assert json.loads((out / "sft.json").read_text())["env_kwargs"]["think"] is False
    config = recipe_config("smollm2-sokoban", [f"model={out}"])
    assert (config.model, config.env_kwargs["symbols"]) == (str(out), "new_vocab")
