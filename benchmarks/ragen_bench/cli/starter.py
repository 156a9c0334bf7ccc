"""``ragen starter``: rebuild the starter model."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

starter_app = typer.Typer(help="The small model that comes with the suite.", no_args_is_help=True)


@starter_app.callback()
def _starter() -> None:
    """Keep ``build`` a subcommand although it is the only one."""


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
    """Build the starter model from scratch in about 75 minutes: demonstrations, tokenizer, weights."""
    from ragen_agents.starter import STARTER
    from ragen_agents.starter.model_build import Recipe
    from ragen_agents.starter.model_build import build as build_model
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
    build_model(folder, Recipe(seed=seed))


def _replaceable(folder: Path) -> bool:
    return (folder / "recipe.json").exists() or not any(folder.iterdir())
