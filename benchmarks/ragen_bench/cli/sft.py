"""``ragen sft``: the supervised baseline."""

from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.completion import complete_game


def sft(
    game: Annotated[
        str,
        typer.Argument(
            metavar="GAME", help="A game, such as sokoban.", autocompletion=complete_game
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Settings, such as demonstrations=2000."),
    ] = None,
) -> None:
    """Train a model to imitate the oracle (the paper's supervised baseline)."""
    from ragen_agents.run_files.yaml_files import validate
    from ragen_agents.sft import SftConfig, train
    from ragen_agents.starpo import merged
    from ragen_bench.config.game_names import text_id_of
    from ragen_bench.config.overrides import read_overrides

    given = merged({"game": game}, read_overrides(setting or []))
    given["game"] = text_id_of(str(given["game"]))
    train(validate(SftConfig, given, "settings"), out)
    typer.echo(out)
