"""YAML and pydantic with plain data only, no duplicate keys, and one-line errors."""

from typing import Any, Final, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from ragen_envs.errors import RagenError

MAX_CHARACTERS = 1 << 20
"""Longest YAML file that is read."""
MAX_DEPTH = 64
"""Deepest nesting of settings; that of a run's own is below ten."""

ModelT = TypeVar("ModelT", bound=BaseModel)
_UNSET: Final = object()


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which YAML would keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # before ``<<`` adds keys, which may be set again
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"'{key}' is a duplicate key", key_node.start_mark
                )
            seen.add(key)
        return node


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def dump_yaml(data: Any) -> str:
    """Return plain data as YAML, in its own order and without aliases."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def load_yaml(text: str, what: str, aliases: bool = True) -> Any:
    """Return the data of a YAML text.

    Args:
        text: The text.
        what: Name of the text in errors.
        aliases: Whether aliases are allowed; a few lines of them can stand for gigabytes.
    """
    if len(text) > MAX_CHARACTERS:
        raise RagenError(f"{what} has more than {MAX_CHARACTERS} characters")
    try:
        if not aliases and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise RagenError(f"{what} has YAML aliases, which are not allowed here")
        data = yaml.load(text, Loader=_Loader)
        check_depth(data, what)
        return data
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" line {error.problem_mark.line + 1}:"
        raise RagenError(f"{what}:{line} {error.problem or 'not YAML'}") from error
    except (LookupError, AttributeError) as error:  # what PyYAML raises for !!bool x and !!timestamp x
        raise RagenError(f"{what} has a value that does not fit its tag") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, RagenError):
            raise
        raise RagenError(f"{what}: {one_line(error)}") from error


def check_depth(data: Any, what: str) -> None:
    """Raise `RagenError` if plain data is nested more than `MAX_DEPTH` deep."""
    level: dict[int, Any] = {id(data): data}
    seen: set[int] = set()  # by aliases, a few objects can be met without end
    for _ in range(MAX_DEPTH):
        seen |= level.keys()
        inner = (each for outer in level.values() for each in _members(outer))
        level = {id(each): each for each in inner if id(each) not in seen and _members(each)}
        if not level:
            return
    raise RagenError(f"{what} is nested more than {MAX_DEPTH} deep")


def _members(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return list(data.values())
    return data if isinstance(data, list) else []


def validate(model: type[ModelT], data: Any, what: str) -> ModelT:
    """Return data as a model, or raise `RagenError` naming the first wrong field."""
    if not isinstance(data, dict):
        raise RagenError(f"{what} must be a mapping with {', '.join(model.model_fields)}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise RagenError(f"{what}: {explain(error, model)}") from error


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first problem of a validation in one line: where, what, and what would be right.

    Fields that are missing at one place are named together.
    """
    first, *others = error.errors(include_url=False)
    if first["type"] == "missing":
        # A misspelt field is both missing and unknown; the second says more.
        unknown = (e for e in others if e["type"] == "extra_forbidden" and e["loc"][:-1] == first["loc"][:-1])
        first = next(unknown, first)
    if first["type"] == "json_invalid":
        return one_line(first["msg"])
    where = [str(part) for part in first["loc"]]
    if first["type"] == "missing":
        beside = [e["loc"] for e in others if e["type"] == "missing"]
        more = [str(loc[-1]) for loc in beside if loc[:-1] == first["loc"][:-1]]
        where[-1] = ", ".join([where[-1], *more])
    if first["type"] == "extra_forbidden":
        parent = _model_at(model, where[:-1])
        known = f"; known are {', '.join(parent.model_fields)}" if parent else ""
        inside = f" in {'.'.join(where[:-1])}" if where[:-1] else ""
        return f"unknown option '{where[-1]}'{inside}{known}"
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        # A check of ours on a whole section: its message names the fields and their values.
        return one_line(first["ctx"]["error"])
    message = first["msg"].removeprefix("Value error, ")
    if message.startswith(f"{'.'.join(where)} is "):
        return one_line(message)  # a check of ours on a field, which names the field and its value
    given = f", but is {first['input']!r:.80}" if first["type"] != "missing" else ""
    return one_line(f"{'.'.join(where) or 'it'}: {message}{given}")


def _model_at(model: type[BaseModel], where: list[str]) -> type[BaseModel] | None:
    for part in where:
        if part not in model.model_fields:
            continue  # a key of a mapping, whose values' model the step before has found
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not models:
            return None
        model = models[0]
    return model


def one_line(error: object) -> str:
    """Return a message without line breaks."""
    return " ".join(str(error).split())


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return nested settings merged; later ones override earlier ones."""
    whole: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            below = whole.get(name)
            if isinstance(value, dict) and isinstance(below, dict):
                whole[name] = merged(below, value)
            else:
                whole[name] = value
    return whole


def differences_of(kept: object, new: object, where: str = "") -> str | None:
    """Return the first field in which two configs, as plain data, differ, or None."""
    if isinstance(kept, dict) and isinstance(new, dict):
        for name in [*kept, *(n for n in new if n not in kept)]:
            inside = f"{where}.{name}" if where else str(name)
            difference = differences_of(kept.get(name, _UNSET), new.get(name, _UNSET), inside)
            if difference is not None:
                return difference
        return None
    if kept == new or all(value is None or value is _UNSET for value in (kept, new)):
        return None
    return f"{where} is {_shown(kept)} there and {_shown(new)} now"


def _shown(value: object) -> str:
    return "not set" if value is _UNSET else f"{value!r:.120}"
