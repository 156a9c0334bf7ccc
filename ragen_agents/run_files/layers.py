"""Nested settings laid over one another."""

from typing import Any


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
