"""Settings from the command line, as ``field=value``."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import yaml

from ragen_agents.run_files.yaml_files import check_depth, merged
from ragen_envs.errors import RagenError


def read_overrides(texts: Sequence[str]) -> dict[str, Any]:
    """Return settings in the form ``field=value``, laid over one another, as nested settings.

    The last value of a field counts; a note says so.
    """
    names: set[str] = set()
    for name in (text.partition("=")[0] for text in texts):
        if name in names:
            print(f"note: {name:.80} is set twice; the last value counts", file=sys.stderr)
        names.add(name)
    return merged(*map(read_override, texts))


def read_override(text: str) -> dict[str, Any]:
    """Return ``section.field=value`` as nested settings."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RagenError(
            f"'{text}' must have the form field=value, with dots between a section and its field"
        )
    try:
        data: Any = yaml.safe_load(value)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise RagenError(
            f"{name} is '{value:.80}', which is not valid YAML; check quotes and brackets"
        ) from error
    if isinstance(data, str):
        with suppress(ValueError):  # YAML 1.1 reads 1e-4 as text
            data = float(data)
    for part in reversed(name.split(".")):
        data = {part: data}
    check_depth(data, name[:80])
    return dict(data)
