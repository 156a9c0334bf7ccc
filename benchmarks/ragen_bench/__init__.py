"""The benchmark: `evaluate` plays agents, `load` reads a run, `compare` pairs two agents by level.

`sweep` plays agents along the axes of a sweep.

Examples:
    >>> import ragen_bench as rb
    >>> run = rb.evaluate("oracle", games=["FrozenLake"], episodes=8)  # doctest: +SKIP
    >>> run.table()  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragen_bench.api.evaluate import compare, evaluate
    from ragen_bench.api.intervene import intervene
    from ragen_bench.api.run import EpisodeView, Pages, Run, load
    from ragen_bench.api.sweep import SweepRun, sweep
    from ragen_bench.config.suites import Suite, load_suite
    from ragen_bench.console.tables import Table
    from ragen_bench.verification.run_verification import MismatchError, Verified

# Loaded when they are used, so that importing this package stays quick.
_MODULES = {
    "api.run": "EpisodeView Pages Run load",
    "verification.run_verification": "MismatchError Verified",
    "config.suites": "Suite load_suite",
    "console.tables": "Table",
    "api.intervene": "intervene",
    "api.sweep": "SweepRun sweep",
    "api.evaluate": "compare evaluate",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ragen_bench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "EpisodeView", "MismatchError", "Pages", "Run", "Suite", "SweepRun", "Table", "Verified", "compare",
    "evaluate", "intervene", "load", "load_suite", "sweep",
]  # fmt: skip
