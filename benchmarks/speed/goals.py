"""The goals of the project, from measurements of its peers and of the release before."""

from typing import Final, NamedTuple


class Goal(NamedTuple):
    """A time of ours, or how many times it a peer's time should be."""

    section: str
    row: str
    target: float
    """Seconds, or a ratio if there is a peer."""
    peer: str | None = None
    note: str = ""
    """Which of the cells of the peer, or of ours, by a part of its note."""


_MANY: Final = "Many envs"
_LEVELS: Final = "New levels"
_SOLVED: Final = "Shortest solutions"
_LAKE: Final = "FrozenLake 4x4, one map"
_SOKOBAN: Final = "Sokoban 10x10/4, endless"
_ONE: Final = "Sokoban 6x6/1, one level"
_IN_PLACE: Final = ", copy=False"

GOALS: Final = (
    Goal("One env", _LAKE, 3, "Gymnasium"),
    Goal("One env", _ONE, 10, "gym-sokoban", "stubbed"),
    Goal("One env", _ONE, 40, "gym-sokoban", "tiny"),
    *(
        goal
        for copies in ("", _IN_PLACE)
        for goal in (
            Goal(_MANY, f"{_LAKE}{copies}, 64 envs", 300, "Gymnasium"),
            Goal(_MANY, f"{_LAKE}{copies}, 64 envs", 40, "envpool"),
            Goal(_MANY, f"{_LAKE}{copies}, 1,024 envs", 2500, "Gymnasium"),
            Goal(_MANY, f"{_LAKE}{copies}, 1,024 envs", 150, "envpool"),
            Goal(_MANY, f"{_SOKOBAN}{copies}, 1,024 envs", 100, "jumanji", "scan"),
        )
    ),
    Goal("Many envs, with text", "Sokoban 6x6/1, 1,024 envs", 150e-9),
    Goal(_LEVELS, "Sokoban 6x6/1", 300, "gym-sokoban"),
    Goal(_LEVELS, "Sokoban 8x8/2, the paper's levels", 24e-6, note="at once"),
    Goal(_LEVELS, "Sokoban 10x10/4", 300, "gym-sokoban"),
    Goal(_LEVELS, "FrozenLake 4x4", 5e-6, note="at once"),
    Goal(_SOLVED, "Sokoban 6x6/1", 1.4e-6, note="at once"),
    Goal(_SOLVED, "Sokoban 6x6/2", 8e-6, note="at once"),
    Goal("A state as text", "Sokoban", 0.5e-6, note="one"),
    Goal("WebShop", "a catalogue and its index, 1,000 products", 1),
    Goal("WebShop", "a search, 1,000 products", 1e-3),
    Goal("WebShop", "a search, 100,000 products", 10e-3),
    Goal("WebShop", "a step without a search", 50e-6),
)
