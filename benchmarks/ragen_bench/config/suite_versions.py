"""Results of older suite versions: they can be read, but neither be played again nor be resumed."""

from collections.abc import Mapping
from typing import Final

from ragen_envs import SUITE_VERSION
from ragen_envs.game.errors import RagenError

RELEASES: Final[Mapping[int, str]] = {1: "0.1"}
"""The last release of the package that plays each older suite version."""


def is_old(version: int) -> bool:
    """Return whether results of a suite version can be read but not replayed."""
    return version != SUITE_VERSION and version in RELEASES


def check_readable(what: str, version: object) -> None:
    """Raise `RagenError` unless results of a suite version can be read.

    Args:
        what: What is of that version, such as "'runs/mine' is a run".
        version: As recorded.
    """
    if isinstance(version, int) and version != SUITE_VERSION and version not in RELEASES:
        raise RagenError(
            f"{what} of suite version {version}, but this is suite version {SUITE_VERSION}; results of "
            "different versions are not comparable"
        )


def check_playable(what: str, version: int) -> None:
    """Raise `RagenError` unless the games of a suite version can be played."""
    check_readable(what, version)
    if is_old(version):
        raise RagenError(
            f"{what} of suite version {version}, which only release {RELEASES[version]} of the package "
            f"can play; this is suite version {SUITE_VERSION}"
        )


def incomparable(version: int) -> str:
    """Return the mark of results of an older suite version."""
    return (
        f"suite version {version}: levels, prompts and scores are not comparable with suite version "
        f"{SUITE_VERSION}"
    )
