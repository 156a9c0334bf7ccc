"""The command line. Commands import what they need when they run, so that help is quick."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ragen_bench.cli.bench import bench
from ragen_bench.cli.compare import compare
from ragen_bench.cli.explain import explain
from ragen_bench.cli.export import export
from ragen_bench.cli.games import games
from ragen_bench.cli.leaderboard import leaderboard_app
from ragen_bench.cli.match import match
from ragen_bench.cli.models import models_app
from ragen_bench.cli.new_game import new_game
from ragen_bench.cli.play import play
from ragen_bench.cli.power import power
from ragen_bench.cli.push import push
from ragen_bench.cli.report import report
from ragen_bench.cli.reproduce import reproduce
from ragen_bench.cli.sft import sft
from ragen_bench.cli.show import show
from ragen_bench.cli.starter import starter_app
from ragen_bench.cli.submit import submit
from ragen_bench.cli.sweep import sweep
from ragen_bench.cli.train import train
from ragen_bench.cli.train_sweep import train_sweep
from ragen_bench.cli.verify import verify
from ragen_bench.cli.view import view
from ragen_envs import __version__


class _Flags:
    """Shows no type beside an option without a value, in place of ``<bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return parameters


class _Command(_Flags, TyperCommand):
    pass


class _Group(_Flags, TyperGroup):
    pass


app = typer.Typer(
    cls=_Group,
    help="Games for language agents, and a benchmark whose results can be verified by replay.\n\n"
    "Start with ragen bench --episodes 32, which scores three agents, then ragen view RUN, or play yourself: "
    "ragen play sokoban.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
PANELS: Final[dict[str, tuple[Callable[..., None] | typer.Typer, ...]]] = {
    "Score": (bench, sweep, show, compare, verify, match, power),
    "Understand": (view, explain, export),
    "Games": (games, play, new_game),
    "Train": (train, report, sft, models_app, starter_app),
    "Paper": (reproduce, train_sweep),
    "Publish": (push, submit, leaderboard_app),
}
"""The commands by the panel of ``ragen --help`` that lists them."""


def _help_text(command: Callable[..., Any]) -> str:
    """Return a command's docstring with one line per paragraph, which wraps at the terminal's width."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            for nested in command.registered_commands:
                nested.cls = _Command
            app.add_typer(command, cls=_Group, rich_help_panel=panel)
        else:
            app.command(cls=_Command, help=_help_text(command), rich_help_panel=panel)(command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ragen-suite {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Import a Python file or module that registers games or parts of the trainer before "
            "running the command; may be repeated.",
        ),
    ] = None,
) -> None:
    if extension:
        from ragen_bench.config.extensions import import_extension

        for name in extension:
            import_extension(name)
