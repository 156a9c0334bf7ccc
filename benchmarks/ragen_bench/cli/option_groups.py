"""Options that several commands share: a dataclass states a group once, and commands take it whole."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

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
