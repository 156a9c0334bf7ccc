"""The order of the harness's wings, and of the three packages: imports go one way."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import ragen_bench

import ragen_agents
import ragen_envs

BASE = "(top level)"
"""Modules of ``ragen_bench`` that lie in no wing and that every wing may import."""
ENTRY = "__main__"
ORDER = (
    BASE, "config", "console", "stats", "runs", "evaluation", "match", "verification", "training", "sweeps",
    "reproduction", "leaderboard", "new_game", "cli", ENTRY,
)  # fmt: skip
"""A wing imports only wings before it."""
PACKAGES = (ragen_envs, ragen_agents, ragen_bench)
"""A package imports only packages before it."""


def modules(package):
    """Yield the dotted name and the tree of each module, those of the new game's template left out."""
    folder = Path(package.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if "template" not in parts:
            name = ".".join(parts).removesuffix(".__init__")
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree):
    """Yield the dotted names that a module imports, at its top or inside its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a name comes from"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def wing(name):
    parts = name.split(".")
    if parts[-1] == ENTRY:
        return ENTRY
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else BASE


BENCH = dict(modules(ragen_bench))


def module_of(name):
    """Return the module that an imported name is, or is in; None outside the harness."""
    while name and name not in BENCH:
        name = name.rpartition(".")[0]
    return name or None


def test_the_order_names_every_wing():
    folder = Path(ragen_bench.__file__).parent
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(ORDER) - {BASE, ENTRY}


@pytest.mark.parametrize("name", BENCH)
def test_a_wing_imports_only_wings_before_it(name):
    allowed = ORDER[: ORDER.index(wing(name)) + 1]
    found = {module for each in imported(BENCH[name]) if (module := module_of(each))}
    assert {module for module in found if wing(module) not in allowed} == set()


def test_no_modules_of_the_harness_import_one_another_in_a_circle():
    graph = defaultdict(set)
    for name, tree in BENCH.items():
        graph[name] = {module for each in imported(tree) if (module := module_of(each))} - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_packages_import_only_packages_before_them():
    names = [package.__name__ for package in PACKAGES]
    for number, package in enumerate(PACKAGES):
        later = set(names[number + 1 :])
        for name, tree in modules(package):
            assert {each for each in imported(tree) if each.split(".")[0] in later} == set(), name
