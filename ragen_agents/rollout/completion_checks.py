"""What an engine must return: completions that a trajectory can be built from."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

from ragen_agents.engines.base import Completion
from ragen_envs.game.errors import RagenError

_ROUNDING: Final = 1e-3
"""Log-probabilities of almost certain tokens may exceed 0 by so much."""


def check_completions(
    completions: Sequence[Completion],
    waiting: set[int],
    vocabulary: int | None,
    version: int,
    max_tokens: int,
) -> None:
    """Check what an engine returned.

    Args:
        completions: All that it returned at once.
        waiting: Keys of the requests that have no completion yet.
        vocabulary: Number of tokens that the model knows; None checks no upper bound.
        version: Of the weights that must have written them.
        max_tokens: Most tokens of a reply.

    Raises:
        RagenError: A trajectory cannot be built from it.
    """
    if not isinstance(completions, Sequence):  # a generator could be read only once
        raise _no_completions(completions)
    seen: set[int] = set()
    for completion in completions:
        if not isinstance(completion, Completion):
            raise _no_completions(completion)
        key = completion.key
        if key not in waiting or key in seen:
            raise RagenError(
                f"the engine returned a completion with the key {key}, which was not requested"
            )
        seen.add(key)
        where = f"the engine returned a completion for the key {key} with"
        _check_ids(completion.ids, where, vocabulary)
        if len(completion.ids) > max_tokens:
            raise RagenError(
                f"{where} {len(completion.ids)} tokens, but a reply has at most {max_tokens} "
                "(rollout.max_tokens)"
            )
        if completion.version != version:
            raise RagenError(
                f"{where} version={completion.version!r:.80}, but the engine has the weights {version}"
            )
        _check_logprobs(completion.logprobs, len(completion.ids), where)
        if completion.finish not in ("stop", "length"):
            raise RagenError(
                f"{where} finish={completion.finish!r:.80}, but it must be 'stop' or 'length'"
            )
        _check_entropies(completion.entropies, len(completion.ids), where)


def _no_completions(found: Any) -> RagenError:
    return RagenError(
        f"the engine returned {found!r:.80}, but must return a list of ragen_agents.engines.base.Completion"
    )


def is_finite(value: Any) -> bool:
    """Return whether a value is a finite number, within the range of a float."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def _check_ids(ids: Any, where: str, vocabulary: int | None) -> None:
    if not isinstance(ids, list) or any(type(token) is not int or token < 0 for token in ids):
        raise RagenError(f"{where} the ids {ids!r:.80}, but they must be a list of int")
    if vocabulary is not None and max(ids, default=0) >= vocabulary:
        raise RagenError(
            f"{where} the id {max(ids)}, but the model has {vocabulary} tokens: ids must be smaller"
        )


def _check_logprobs(logprobs: Any, length: int, where: str) -> None:
    if not isinstance(logprobs, list) or len(logprobs) != length:
        raise RagenError(f"{where} {length} ids, but the logprobs {logprobs!r:.80}")
    for number in logprobs:
        if not is_finite(number) or number > _ROUNDING:
            diverged = isinstance(number, float) and math.isnan(number)
            advice = "; if the model's training has diverged, lower update.learning_rate"
            raise RagenError(
                f"{where} the logprob {number!r:.80}, but it must be a finite number, 0 or less"
                f"{advice if diverged else ''}"
            )


def _check_entropies(entropies: Any, length: int, where: str) -> None:
    if entropies is None:
        return
    if not isinstance(entropies, list) or len(entropies) != length:
        raise RagenError(
            f"{where} {length} ids, but the entropies {entropies!r:.80}; return one for each id, or None"
        )
    for number in entropies:
        if not is_finite(number):
            raise RagenError(f"{where} the entropy {number!r:.80}, but it must be a finite number")
