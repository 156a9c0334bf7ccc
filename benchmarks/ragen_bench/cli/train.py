"""``ragen train``: train a model on a game with StarPO."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.completion import complete_game
from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.options import RecipeOption, RunDirectoryOption

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
        typer.Argument(
            metavar="[FIELD=VALUE]...", help="Settings, such as update.mini_batch_size=16."
        ),
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
        bool,
        typer.Option(
            "--plan", help="Show how much memory the run would need, without starting it."
        ),
    ] = False,
    device_memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            min=1.0,
            help="With --plan: memory of each GPU.",
            show_default="this machine's",
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
    from ragen_agents.starpo.run.run_directory import default_run_dir
    from ragen_bench.training.run_summary import run_summary
    from ragen_envs.errors import RagenError

    config = _config(what, setting or [], recipe, preset, scale, hashed=not plan)
    if plan:
        _show_plan(config, device_memory, devices)
        return
    if device_memory is not None or devices != 1:
        raise RagenError("--device-memory and --devices are for --plan")
    folder = out or default_run_dir(config)
    _train(folder, config)
    if os.environ.get("RANK", "0") == "0":
        print("\n".join(run_summary(folder)), file=sys.stderr)


def _config(
    what: str | None, setting: list[str], recipe: str | None, preset: str | None, scale: str | None,
    hashed: bool,
) -> "TrainConfig":  # fmt: skip
    from ragen_bench.training.recipes import recipe_overrides
    from ragen_bench.training.train_settings import make_train_config, recipe_config
    from ragen_envs.errors import RagenError

    if recipe is None:
        if what is None:
            raise RagenError("name a game, a YAML file of settings, or a --recipe")
        return make_train_config(what, preset, scale, setting, hashed)
    if preset or scale:
        raise RagenError("a recipe sets what --preset and --scale set; give one or the other")
    return recipe_config(recipe, recipe_overrides(what, setting), hashed)


def _show_plan(config: "TrainConfig", device_memory: float | None, devices: int) -> None:
    from ragen_bench.training.memory_view import print_memory_plan

    if not print_memory_plan(config, device_memory, devices):
        raise typer.Exit(2)


def _train(folder: Path, config: "TrainConfig") -> None:
    from ragen_agents.allocator import keep_freed_memory
    from ragen_agents.starpo import Trainer
    from ragen_agents.starpo.callbacks import ReportMetrics
    from ragen_bench.training.progress_view import TrainingView

    keep_freed_memory()
    first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun has started
    try:
        with TrainingView(config, shown=first) as view:
            trainer = Trainer(config, folder, callbacks=[ReportMetrics(view.report)])
            with closing(trainer):
                stopped = _stop_at_interrupt(trainer)
                trainer.run()
    except KeyboardInterrupt:
        stopped = [True]
    if stopped:
        where = (
            f"finished iterations are in {folder}, and"
            if folder.exists()
            else "nothing is saved yet;"
        )
        raise InterruptedCommandError(f"{where} the same command resumes the run") from None


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
