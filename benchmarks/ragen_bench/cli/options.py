"""Options that several commands share, alone or in groups, and what the shell completes."""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

from ragen_bench.console.formats import Format

_OUTPUT: Final = "Output"
RAY: Final = "Ray"

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
UncheckedOption: TypeAlias = Annotated[
    bool, typer.Option("--unchecked", help="Read a run whose files were edited after they were written.")
]
FormatOption: TypeAlias = Annotated[
    Format,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=_OUTPUT,
        help="Format of the table: table, markdown, csv or json.",
    ),
]
WideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--wide", rich_help_panel=_OUTPUT, help="Show all columns, however narrow the terminal is."),
]
SettingOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=VALUE",
        help="Setting of the conversation or the game, such as think=false; may be repeated.",
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER",
        rich_help_panel=_OUTPUT,
        help="Print the success by an exact number of each level, such as solution_length, and the 50% "
        "horizon.",
    ),
]
BackendOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="local|ray",
        rich_help_panel=RAY,
        help="ray: on the cluster at RAY_ADDRESS, or on this machine if that is not set.",
    ),
]
EntriesOption: TypeAlias = Annotated[Path, typer.Option(metavar="DIR", help="Folder of all entries.")]
RunDirectoryOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Run directory.", show_default="under runs/")
]
RecipeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Tested recipe in place of a game: frozenlake, sokoban, smollm2-bandit or smollm2-sokoban; "
        "or a YAML file."
    ),
]


_MODELS: Final = (
    "starter", "small-ice", "small-lake", "small-sokoban", "small-thoughts", "smollm2",
    "gemma3-270m", "hf:", "openai:", "vllm:",
)  # fmt: skip


def complete_game(context: typer.Context, incomplete: str) -> list[str]:
    """Return the games whose short name begins like this, in lower case if it does so only there."""
    from ragen_bench.config.game_names import short_names
    from ragen_envs.registration import text_ids

    if context.command.name != "match":
        return _beginning(incomplete, short_names(text_ids()))
    from ragen_envs.multi_agent import MULTI_AGENT_GAMES

    return _beginning(incomplete, short_names([listed.text_id for listed in MULTI_AGENT_GAMES]))


def complete_agent(incomplete: str) -> list[str]:
    """Return the kinds of agents that begin like this."""
    from ragen_agents.policies import CONTROLS, SHOP_RULES

    return _beginning(incomplete, (*CONTROLS, *SHOP_RULES, *_MODELS))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    spelled = [name if name.startswith(incomplete) else name.lower() for name in names]
    return [name for name in spelled if name.startswith(incomplete)]


ReturnT = TypeVar("ReturnT")


def expand_groups(command: Callable[..., ReturnT]) -> Callable[..., ReturnT]:
    """Return a command with the fields of each group in the place of the parameter that takes the group.

    A group is a dataclass whose fields are annotated for typer, all with defaults. The command is called
    with instances of its groups; typer and ``--help`` see one option for each field, in order.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        group = groups.get(name)
        expanded = [parameter.replace(annotation=hints[name])] if group is None else _fields(group)
        parameters += (each.replace(kind=Parameter.KEYWORD_ONLY) for each in expanded)

    @functools.wraps(command)
    def wrapper(**given: Any) -> ReturnT:
        for name, group in groups.items():
            names = [field.name for field in fields(group)]
            given[name] = group(**{each: given.pop(each) for each in names})
        return command(**given)

    annotations = {each.name: each.annotation for each in parameters}
    wrapper.__annotations__ = {**annotations, "return": hints.get("return")}
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def _fields(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
