"""A cache for exact searches that remembers refusals, too."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from ragen_envs.errors import SolverLimitError

P = ParamSpec("P")
T = TypeVar("T")


def search_cache(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator like ``lru_cache`` that also remembers a `SolverLimitError`.

    ``lru_cache`` remembers no exceptions, so a search would spend the time until it gives up again each
    time it is asked.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @lru_cache(maxsize)
        def attempt(*args: P.args, **kwargs: P.kwargs) -> T | SolverLimitError:
            try:
                return function(*args, **kwargs)
            except SolverLimitError as error:
                return SolverLimitError(str(error))  # without the frames of the search

        @wraps(function)
        def answer(*args: P.args, **kwargs: P.kwargs) -> T:
            outcome = attempt(*args, **kwargs)  # type: ignore[arg-type]
            if isinstance(outcome, SolverLimitError):
                raise SolverLimitError(str(outcome))
            return outcome

        return answer

    return decorate
