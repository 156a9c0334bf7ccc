"""Where two configs differ."""

from typing import Any, Final

_UNSET: Final = object()


def differences_of(there: dict[str, Any], here: dict[str, Any]) -> str | None:
    """Return the first field in which two configs, as plain data, differ, or None."""
    return _first_difference(there, here, "")


def _first_difference(there: object, here: object, where: str) -> str | None:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in [*there, *(n for n in here if n not in there)]:
            inside = f"{where}.{name}" if where else str(name)
            found = _first_difference(there.get(name, _UNSET), here.get(name, _UNSET), inside)
            if found is not None:
                return found
        # The order of the tasks is the order of the episodes.
        return None if list(there) == list(here) else f"the order of {where}"
    if there == here or all(value is None or value is _UNSET for value in (there, here)):
        return None
    return f"{where} is {_shown(there)} there and {_shown(here)} now"


def _shown(value: object) -> str:
    return "not set" if value is _UNSET else f"{value!r:.120}"
