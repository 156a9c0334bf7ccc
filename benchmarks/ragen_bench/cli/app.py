"""The command line. Commands import what they need when they run, so that help is quick."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ragen_bench.cli.games import games, new_game, play
from ragen_bench.cli.models import models_app, starter_app
from ragen_bench.cli.paper import reproduce, train_sweep
from ragen_bench.cli.publish import leaderboard_app, push, submit
from ragen_bench.cli.score import bench, match, sweep
from ragen_bench.cli.show import compare, power, show, verify
from ragen_bench.cli.train import report, sft, train
from ragen_bench.cli.understand import explain, export, intervene, view
from ragen_envs import __version__


class _Metavars:
    """Names an option's value in ``--help`` (AGENT; nothing beside a flag), in place of its Python type."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if each.param_type_name == "argument":
                each.display_type_rich = lambda **_: None
            elif getattr(each, "is_flag", False):
                each.metavar = ""
            elif each.metavar is None:
                each.metavar = each.name.upper()
        return parameters


class _Command(_Metavars, TyperCommand):
    pass


class _Group(_Metavars, TyperGroup):
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
    "Understand": (view, explain, intervene, export),
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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
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
