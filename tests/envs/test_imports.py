"""Which module may import which: one direction between the packages, no cycles within the games."""

import ast
from pathlib import Path

import pytest
import ragen_bench

import ragen_agents
import ragen_envs

PACKAGES = (ragen_envs, ragen_agents, ragen_bench)
"""Each may import itself and those before it."""


def modules(package):
    """Return the source file of every module of a package, by dotted name."""
    root = Path(package.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if "template" in inside.parts:  # the scaffold of a game from outside
            continue
        parts = [package.__name__, *inside.with_suffix("").parts]
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


SOURCES = {package.__name__: modules(package) for package in PACKAGES}
EVERY = {name: path for found in SOURCES.values() for name, path in found.items()}


def imported(source, known):
    """Return the known modules that a source imports, at its top or within a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & set(known)


ARROWS = {name: imported(path.read_text("utf-8"), EVERY) for name, path in EVERY.items()}


def cycle_of(arrows):
    """Return the modules of some cycle, in order, or None."""
    done, path = set(), []

    def follow(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        path.append(module)
        found = next(filter(None, map(follow, sorted(arrows.get(module, ())))), None)
        path.pop()
        done.add(module)
        return found

    return next(filter(None, map(follow, sorted(arrows))), None)


@pytest.mark.parametrize("number", range(len(PACKAGES)))
def test_a_package_imports_only_those_below_it(number):
    above = {package.__name__ for package in PACKAGES[number + 1 :]}
    for name in SOURCES[PACKAGES[number].__name__]:
        wrong = {there for there in ARROWS[name] if there.partition(".")[0] in above}
        assert not wrong, f"{name} imports {', '.join(sorted(wrong))}"


def test_the_games_import_each_other_in_no_circle():
    cycle = cycle_of({name: ARROWS[name] for name in SOURCES["ragen_envs"]})
    assert cycle is None, " -> ".join(cycle)


def test_the_walk_sees_what_it_must():
    known = ("a", "a.b", "a.c", "a.d")
    source = (
        "import a\nfrom a.b import thing\ndef f():\n    from a import c, other\n    import a.d\n"
    )
    assert imported(source, known) == {"a", "a.b", "a.c", "a.d"}
    assert cycle_of({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
    assert len(ARROWS) > 150
    assert "ragen_envs.sokoban.dynamics" in ARROWS["ragen_envs.sokoban.env"]
