"""``ragen sft``: the supervised baseline."""

from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.completion import complete_game
from ragen_bench.cli.interruption import InterruptedCommandError


def sft(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    game: Annotated[
        str | None,
        typer.Argument(
            metavar="GAME", help="A game, such as sokoban.", autocompletion=complete_game
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Settings, such as demonstrations=2000."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Imitation stage of a recipe, in place of a game: smollm2-bandit or smollm2-sokoban."
        ),
    ] = None,
) -> None:
    """Train a model to imitate the oracle (the paper's supervised baseline)."""
    from ragen_agents.allocator import keep_freed_memory
    from ragen_agents.run_files.yaml_files import validate
    from ragen_agents.sft import SftConfig, train
    from ragen_agents.starpo import merged
    from ragen_bench.config.game_names import text_id_of
    from ragen_bench.config.overrides import read_overrides
    from ragen_bench.training.recipes import imitation_of, recipe_overrides
    from ragen_bench.training.run_summary import scoring_command
    from ragen_envs.errors import RagenError

    settings = setting or []
    if recipe is not None:
        begun, settings = imitation_of(recipe), recipe_overrides(game, settings)
    elif game is not None:
        begun = {"game": game}
    else:
        raise RagenError("name a game or a --recipe")
    given = merged(begun, read_overrides(settings))
    given["game"] = text_id_of(str(given["game"]))
    config = validate(SftConfig, given, "settings")
    keep_freed_memory()
    try:
        train(config, out)
    except KeyboardInterrupt:
        raise InterruptedCommandError("nothing was saved") from None
    typer.echo(out)
    for line in scoring_command(out, config):
        typer.echo(line, err=True)
