"""Errors that a user can cause. Each message names the field, the value and what would be right."""


class RagenError(ValueError):
    """Base of every error with a message meant for a person. The command line prints it and exits 2."""


class GenerationError(RagenError):
    """No level of the wished kind was found within the bounded amount of work."""


class InstanceError(RagenError):
    """A frozen instance was asked for that does not exist, or a pack is not what it should be."""


class SolverLimitError(RagenError):
    """The exact search ran out of its memory bound before it could decide."""


def install_hint(extra: str) -> str:
    """Return how to install an extra, as the end of a message about a missing package."""
    return f"install it with pip install -e '.[{extra}]' in a checkout of ragen-suite"


def first_line(error: BaseException) -> str:
    """Return what a library's error says in its first line, for a message of our own."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
