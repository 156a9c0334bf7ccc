"""``ragen train``, ``report`` and ``sft``: train a model with StarPO, or to imitate."""

import os
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.options import RecipeOption, RunDirectoryOption, complete_game
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_agents.starpo import TrainConfig, Trainer


def train(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="GAME",
            help="A game, such as sokoban or bandit, or a YAML file of settings.",
            autocompletion=complete_game,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD=VALUE", help="Settings, such as update.mini_batch_size=16."),
    ] = None,
    recipe: RecipeOption = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="starpo-ppo, starpo-grpo, starpo-s or starpo-s-grpo.",
            show_default="starpo-s; none with a file",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="laptop: the starter model; paper: Qwen2.5-0.5B-Instruct.",
            show_default="laptop; none with a file or another model",
        ),
    ] = None,
    out: RunDirectoryOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show how much memory the run would need, without starting it.")
    ] = False,
    device_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB", min=1.0, help="With --plan: memory of each GPU.", show_default="this machine's"
        ),
    ] = None,
    devices: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --plan: number of GPUs that train.")
    ] = 1,
) -> None:
    """Train a model on a game and keep the best checkpoint as an ordinary model folder.

    An existing run directory is resumed from its last checkpoint. A run that does not fit
    into the memory of its device is refused before models are loaded. The progress
    display shows success and return of the episodes, entropy of the policy (nats per token), std
    (standard deviation of the return within groups), gradient (norm), and the seconds of an iteration.
    """
    from ragen_agents.starpo.run.run_directory import default_run_dir, own_parts
    from ragen_bench.training.run_summary import run_summary
    from ragen_bench.training.train_settings import make_train_config, recipe_config, recipe_overrides

    settings, hashed = setting or [], not plan
    if recipe is not None:
        if preset or scale:
            raise RagenError("a recipe sets what --preset and --scale set; give one or the other")
        config = recipe_config(recipe, recipe_overrides(what, settings), hashed)
    elif what is not None:
        config = make_train_config(what, preset, scale, settings, hashed)
    else:
        raise RagenError("name a game, a YAML file of settings, or a --recipe")
    if plan:
        from ragen_bench.training.memory_view import print_memory_plan

        if not print_memory_plan(config, device_memory, devices):
            raise typer.Exit(2)
        return
    if device_memory is not None or devices != 1:
        raise RagenError("--device-memory and --devices are for --plan")
    folder = out or default_run_dir(config, own_parts(config))
    _train(folder, config)
    if os.environ.get("RANK", "0") == "0":
        print("\n".join(run_summary(folder)), file=sys.stderr)


def _train(folder: Path, config: "TrainConfig") -> None:
    from ragen_agents.allocator import keep_freed_memory
    from ragen_agents.starpo import Trainer
    from ragen_agents.starpo.callbacks import ReportMetrics
    from ragen_agents.starpo.run.checkpoint import latest
    from ragen_agents.starpo.run.run_state import CHECKPOINTS
    from ragen_bench.training.progress_view import TrainingView

    keep_freed_memory()
    first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun has started
    try:
        with TrainingView(config, shown=first) as view:
            trainer = Trainer(config, folder, callbacks=[ReportMetrics(view.report)])
            with closing(trainer):
                stopped = _stop_at_interrupt(trainer)
                trainer.run()
                if not stopped or trainer.state.progress.iteration >= config.iterations:
                    return
        where = f"finished iterations are in {folder}, and"
    except KeyboardInterrupt:
        saved = latest(folder / CHECKPOINTS)
        where = "nothing is saved yet;" if saved is None else f"the last checkpoint is {saved};"
    raise InterruptedCommandError(f"{where} the same command resumes the run")


def _stop_at_interrupt(trainer: "Trainer") -> list[bool]:
    """Make the first Ctrl-C, or SIGTERM, end the run after its iteration, and the second one at once."""
    seen: list[bool] = []

    def handle(number: int, _: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(True)
        trainer.stop()
        name = "SIGTERM" if number == signal.SIGTERM else "Ctrl-C"
        print(f"\nsaving after this iteration; a second {name} stops at once", file=sys.stderr)

    signal.signal(signal.SIGINT, handle)
    return seen


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a training run.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page.", show_default="RUN/report.html")
    ] = None,
) -> None:
    """Write one self-contained HTML page of a training run: curves, warnings, conversations."""
    from ragen_bench.training.html_report import write_report

    page = out or run / "report.html"
    write_report(run, page)
    print(page)


def sft(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    game: Annotated[
        str | None,
        typer.Argument(metavar="GAME", help="A game, such as sokoban.", autocompletion=complete_game),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD=VALUE", help="Settings, such as demonstrations=2000."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Imitation stage of a recipe, in place of a game: smollm2-bandit or smollm2-sokoban; "
            "or a YAML file."
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
    from ragen_bench.config.own_levels import with_level_texts
    from ragen_bench.training.own_episodes import choose_episodes, written_conversations
    from ragen_bench.training.run_summary import scoring_command
    from ragen_bench.training.train_settings import imitation_of, recipe_overrides

    settings, shown = setting or [], None
    if best_of and source is None:
        raise RagenError("--best-of is for the episodes of a run; give one with --from, or leave it out")
    if source is not None:
        if recipe is not None:
            raise RagenError("--recipe and --from are two sources of episodes; leave one out")
        if game is not None and "=" in game:
            settings, game = [game, *settings], None
        given = read_overrides(settings)
        if decided := {"game", "env_kwargs", "demonstrations", "noise", "variants"} & given.keys():
            raise RagenError(f"{min(decided)} has no effect with --from; leave it out")
        solved_only = given.get("solved_only", True) is True
        wanted = None if game is None else text_id_of(game)
        agent, episodes = choose_episodes(source, wanted, solved_only, best_of)
        given |= {"game": episodes[0].env_id, "source": agent, "demonstrations": len(episodes)}
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
        given["env_kwargs"] = with_level_texts(given["game"], given.get("env_kwargs", {}))
    config = validate(SftConfig, given, "settings")
    keep_freed_memory()
    try:
        train(config, out, shown)
    except KeyboardInterrupt:
        raise InterruptedCommandError("nothing was saved") from None
    typer.echo(out)
    for line in scoring_command(out, config):
        typer.echo(line, err=True)
