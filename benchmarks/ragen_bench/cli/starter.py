"""``ragen starter``: small models to train from scratch."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ragen_bench.cli.completion import complete_game

starter_app = typer.Typer(
    name="starter",
    help="The small model that comes with the suite, and others to train from scratch.",
    no_args_is_help=True,
)


@starter_app.command()
def build(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Output folder.", show_default="that of the shipped model"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the demonstrations and the weights.")
    ] = 0,
) -> None:
    """Build the starter model from scratch in about an hour: demonstrations, tokenizer, weights."""
    from ragen_agents.allocator import keep_freed_memory
    from ragen_agents.starter import STARTER
    from ragen_agents.starter.model_build import build as build_model
    from ragen_agents.starter.recipe import Recipe
    from ragen_envs.errors import RagenError

    folder = out or STARTER
    if folder.exists() and not (folder.is_dir() and _replaceable(folder)):
        raise RagenError(f"'{folder}' exists and is not an earlier build; choose another --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent):
            pass
    except OSError as error:
        raise RagenError(f"'{folder}' cannot be written: {error.strerror}") from error
    keep_freed_memory()
    build_model(folder, Recipe(seed=seed))


@starter_app.command()
def blank(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME", help="A game, such as webshop.", autocompletion=complete_game
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Settings, such as layers=5."),
    ] = None,
) -> None:
    """Write a small untrained model with a tokenizer for one game, for ragen sft to train."""
    from ragen_agents.run_files.yaml_files import validate
    from ragen_agents.starpo import merged
    from ragen_agents.starter.blank import BlankConfig, write_blank
    from ragen_bench.config.game_names import text_id_of
    from ragen_bench.config.overrides import read_overrides

    given = merged({"game": text_id_of(game)}, read_overrides(setting or []))
    write_blank(validate(BlankConfig, given, "settings"), out)
    typer.echo(out)


def _replaceable(folder: Path) -> bool:
    return (folder / "recipe.json").exists() or not any(folder.iterdir())
