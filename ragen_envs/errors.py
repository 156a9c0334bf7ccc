"""Errors that a user can cause. Each message names the field, the value and what would be right."""

import gymnasium as gym

__all__ = [
    "GameError",
    "GenerationError",
    "InstanceError",
    "RagenError",
    "ResetNeededError",
    "SolverLimitError",
]


class RagenError(ValueError):
    """Base of every error whose message is for users. The command line prints it and exits with 2."""


class GameError(RagenError):
    """A game lacks something that every game has, or one of its methods fails."""


class GenerationError(RagenError):
    """No level that matches the requested settings was found by a bounded search."""


class InstanceError(RagenError):
    """A requested frozen instance does not exist, or a pack is damaged."""


class SolverLimitError(RagenError):
    """The exact search reached its memory limit before it found the optimum."""


class ResetNeededError(RagenError, gym.error.ResetNeeded):
    """``step`` was called before the first reset, or after the end of the episode."""


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, as the end of an error message about a missing package."""
    return f"install it with pip install -e '.[{extra}]' in a checkout of ragen-suite"


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error, for use in an error message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
