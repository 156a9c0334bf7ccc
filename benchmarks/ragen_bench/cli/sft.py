"""``ragen sft``: the supervised baseline."""

from functools import partial
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
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN[:AGENT]",
            help="Imitate the solved episodes of this run on training levels, not the oracle.",
        ),
    ] = None,
    best_of: Annotated[
        bool, typer.Option("--best-of", help="Of a level's episodes, imitate only the best.")
    ] = False,
) -> None:
    """Train a model to imitate the oracle (the paper's supervised baseline), or episodes of a run."""
    from ragen_agents.allocator import keep_freed_memory
    from ragen_agents.run_files.yaml_files import validate
    from ragen_agents.sft import SftConfig, train
    from ragen_agents.starpo import merged
    from ragen_bench.config.game_names import text_id_of
    from ragen_bench.config.overrides import read_overrides
    from ragen_bench.training.own_episodes import choose_episodes, written_conversations
    from ragen_bench.training.recipes import imitation_of, recipe_overrides
    from ragen_bench.training.run_summary import scoring_command
    from ragen_envs.errors import RagenError

    settings, shown = setting or [], None
    if source is not None:
        if recipe is not None:
            raise RagenError("--recipe and --from are two sources of episodes; leave one out")
        given = read_overrides(settings)
        if decided := {"game", "env_kwargs", "demonstrations", "noise", "variants"} & given.keys():
            raise RagenError(f"{min(decided)} has no effect with --from; leave it out")
        solved_only = given.get("solved_only", True) is True
        wanted = None if game is None else text_id_of(game)
        who, episodes = choose_episodes(source, wanted, solved_only, best_of)
        given |= {"game": episodes[0].env_id, "source": who, "demonstrations": len(episodes)}
        given["env_kwargs"] = episodes[0].env_kwargs
        shown = partial(written_conversations, episodes)
    else:
        if recipe is not None:
            begun, settings = imitation_of(recipe), recipe_overrides(game, settings)
        elif game is not None:
            begun = {"game": game}
        else:
            raise RagenError("name a game, a --recipe, or a run with --from")
        given = merged(begun, read_overrides(settings))
        given["game"] = text_id_of(str(given["game"]))
    config = validate(SftConfig, given, "settings")
    keep_freed_memory()
    try:
        train(config, out, shown)
    except KeyboardInterrupt:
        raise InterruptedCommandError("nothing was saved") from None
    typer.echo(out)
    for line in scoring_command(out, config):
        typer.echo(line, err=True)
