"""``ragen sft``: the supervised baseline."""

from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import RecipeOption


def sft(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    game: Annotated[
        str | None, typer.Argument(metavar="GAME", help="A game, such as sokoban.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Settings, such as demonstrations=2000."),
    ] = None,
    recipe: RecipeOption = None,
) -> None:
    """Train a model to imitate the oracle (the paper's supervised baseline)."""
    from ragen_agents.run_files.yaml_files import validate
    from ragen_agents.sft import SftConfig, train
    from ragen_agents.starpo import merged
    from ragen_bench.config.game_names import text_id_of
    from ragen_bench.config.overrides import read_overrides
    from ragen_bench.training.recipes import recipe_overrides, recipe_settings
    from ragen_envs.errors import RagenError

    if recipe is not None:
        own = read_overrides(recipe_overrides(game, setting or []))
        given = merged(recipe_settings(recipe, "sft", own), own)
    elif game is not None:
        given = merged({"game": game}, read_overrides(setting or []))
    else:
        raise RagenError("name a game or a --recipe")
    given["game"] = text_id_of(str(given["game"]))
    train(validate(SftConfig, given, "settings"), out)
    typer.echo(out)
