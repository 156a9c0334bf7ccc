"""What identifies the parts of a run that are not the project's own: their names, source and settings."""

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ragen_agents.starpo.parts.aggregations import AGGREGATIONS
from ragen_agents.starpo.parts.estimators import ESTIMATORS
from ragen_agents.starpo.parts.filters import FILTERS
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES
from ragen_agents.starpo.parts.registry import Part, is_projects

if TYPE_CHECKING:
    from ragen_agents.starpo.config import TrainConfig

_STATE: Final = ("version",)
"""Attributes that a run changes: ``sync`` sets the version of an engine."""
_PROSE: Final = ("summary",)


class OwnPart(NamedTuple):
    """A part that a caller has passed or registered."""

    name: str
    digest: str | None
    """Hash of its source and its settings; None where the source is not available."""


def own_part(part: Any) -> OwnPart:
    """Return what identifies a part that a caller has passed."""
    return OwnPart(_name_of(part), _digest(part))


def registered_parts(config: "TrainConfig") -> dict[str, OwnPart]:
    """Return what identifies the registered parts that a config chooses, without the project's own."""
    chosen: dict[str, Part] = {
        ESTIMATORS.field: ESTIMATORS[config.advantage.estimator],
        FILTERS.field: FILTERS[config.filter.kind],
        POLICY_LOSSES.field: POLICY_LOSSES[config.loss.policy_loss],
        AGGREGATIONS.field: AGGREGATIONS[config.loss.agg_mode],
    }
    return {
        field: OwnPart(part.name, _digest(part.function, _plain(vars(part), _PROSE)))
        for field, part in chosen.items()
        if not is_projects(part.function)
    }


def _name_of(part: Any) -> str:
    if isinstance(part, partial):
        return f"{_name_of(part.func)} with {_bound(part).replace(chr(10), ', '):.160}"
    module, name = (
        getattr(part, field, getattr(type(part), field)) for field in ("__module__", "__qualname__")
    )
    line = f":{part.__code__.co_firstlineno}" if name.endswith("<lambda>") else ""
    return f"{module}.{name}{line}"


def _digest(part: Any, more: str = "") -> str | None:
    """Return a hash of a part's source and settings, without the source of the project's own parts."""
    if isinstance(part, partial):
        return _digest(part.func, more + _bound(part))
    source = "" if is_projects(part) else _source(part)
    if source is None:
        return None
    return hashlib.sha256(f"{source}\n{_settings(part)}\n{more}".encode()).hexdigest()


def _bound(part: "partial[Any]") -> str:
    """Return the plain data that a partial function holds."""
    return _plain(dict(enumerate(part.args))) + _plain(part.keywords)


def _source(part: Any) -> str | None:
    defined = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
    try:
        return inspect.getsource(defined)
    except (OSError, TypeError):
        return None


def _settings(part: Any) -> str:
    """Return the plain data that a part holds: attributes, defaults, and what a function refers to."""
    if inspect.ismethod(part):
        return _settings(part.__self__)
    if inspect.isfunction(part):
        defaults = {name: p.default for name, p in inspect.signature(part).parameters.items()}
        used = inspect.getclosurevars(part)
        return _plain({**used.globals, **used.nonlocals, **defaults})
    if inspect.isclass(part) or is_projects(part):
        return ""
    return _plain(getattr(part, "__dict__", {}), _STATE)


def _plain(values: Mapping[Any, Any], without: Iterable[str] = ()) -> str:
    """Return the values that are plain data as text, in the order of their names."""
    texts = []
    for name in sorted(values.keys() - without):
        with suppress(TypeError, ValueError):
            texts.append(f"{name}={json.dumps(values[name], sort_keys=True)}")
    return "\n".join(texts)
