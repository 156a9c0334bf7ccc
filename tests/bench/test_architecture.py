"""Which module may import which: one way between packages and between wings, and never in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import ragen_bench

import ragen_agents
import ragen_envs

PACKAGES = (ragen_envs, ragen_agents, ragen_bench)
"""A package imports only itself and packages before it."""
BASE = "(top level)"
"""Modules of ``ragen_bench`` that lie in no wing and that every wing may import."""
DOOR = "(the package)"
"""What ``import ragen_bench`` exports."""
ENTRY = "__main__"
ORDER = (
    BASE, "config", "console", "stats", "runs", "evaluation", "verification", "analysis",
    "export", "viewer", "sweeps", "training", "training_sweeps", "reproduction", "leaderboard", "new_game",
    "play", "api", DOOR, "cli", ENTRY,
)  # fmt: skip
"""A wing of ``ragen_bench`` imports only itself and wings before it."""
ROOMS = (
    "_version", "errors", "levels", "pictures", "game", "compiled", "registration", "(the package)",
    "games", "conversation", "multi_agent", "adapters",
)  # fmt: skip
"""A room of ``ragen_envs`` imports only itself and rooms before it."""


def modules(package):
    """Return the tree of each module by its dotted name, without those of the new game's template."""
    folder = Path(package.__file__).parent
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if "template" not in parts:
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree, types=True):
    """Yield the dotted names that a module imports, at its top or inside its functions.

    Args:
        tree: Of the module.
        types: Whether imports under ``if TYPE_CHECKING`` count.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a name comes from"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imported(node, types)


def strings(tree):
    """Yield the strings of a module, by which it might load another one's files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def arrows(trees, types=True):
    """Return for each module which other modules among them it imports."""

    def module_of(name):
        while name and name not in trees:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {module for each in imported(tree, types) if (module := module_of(each))} - {name}
        for name, tree in trees.items()
    }


def circle(graph):
    """Return modules that import one another in a circle, as a text, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return ""


def wing(name):
    parts = name.split(".")
    if len(parts) == 1:
        return DOOR
    if parts[-1] == ENTRY:
        return ENTRY
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else BASE


NAMES = [package.__name__ for package in PACKAGES]


@pytest.fixture(scope="module")
def trees():
    return {package.__name__: modules(package) for package in PACKAGES}


@pytest.fixture(scope="module")
def every_arrow(trees):
    return arrows({name: tree for each in trees.values() for name, tree in each.items()})


@pytest.mark.parametrize("package", NAMES)
def test_a_package_imports_only_packages_before_it(package, trees, every_arrow):
    later = set(NAMES[NAMES.index(package) + 1 :])
    found = {(name, there) for name in trees[package] for there in every_arrow[name]}
    assert {pair for pair in found if pair[1].partition(".")[0] in later} == set()
    assert [name for name, tree in trees[package].items() if later & set(strings(tree))] == []


@pytest.mark.parametrize("package", NAMES)
def test_no_modules_of_a_package_import_one_another_in_a_circle(package, trees):
    assert not circle(arrows(trees[package], types=False))


def test_the_order_names_every_wing():
    folder = Path(ragen_bench.__file__).parent
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(ORDER) - {
        BASE,
        DOOR,
        ENTRY,
    }


def room(name):
    return [*name.split("."), "(the package)"][1]


@pytest.mark.parametrize(
    ("package", "place", "order"), [("ragen_bench", wing, ORDER), ("ragen_envs", room, ROOMS)]
)
def test_a_wing_or_room_imports_only_those_before_it(package, place, order, trees, every_arrow):
    assert [
        (name, there)
        for name in trees[package]
        for there in every_arrow[name]
        if there in trees[package] and order.index(place(there)) > order.index(place(name))
    ] == []


def test_the_walk_sees_every_import(every_arrow):
    source = (
        "import a\nfrom a.b import thing\ndef f():\n    from a import c, other\n    import a.d\n"
        "if TYPE_CHECKING:\n    from e import Type\n"
    )
    trees = {name: ast.parse("") for name in ("a", "a.b", "a.c", "a.d", "e")}
    trees["x"] = ast.parse(source)
    assert arrows(trees)["x"] == {"a", "a.b", "a.c", "a.d", "e"}
    assert arrows(trees, types=False)["x"] == {"a", "a.b", "a.c", "a.d"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (
        "b imports c imports b",
        "c imports b imports c",
    )
    assert not circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert "ragen_envs.games.sokoban.dynamics" in every_arrow["ragen_envs.games.sokoban.env"]
