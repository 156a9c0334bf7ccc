"""The space of all strings up to a length."""

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, overload

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import read_from_shared_memory
from numpy.typing import NDArray

_COUNT: Final = 0x110000
"""Number of code points that Python strings can hold."""


@lru_cache(maxsize=1)
def _all_characters() -> str:
    return "".join(map(chr, range(_COUNT)))


class FreeText(spaces.Text):
    """All strings up to a length, of any characters. Samples are random printable ASCII.

    Its character set has every character, so that whatever a game writes and a model replies is in the
    space, and Gymnasium can flatten it or put it into shared memory; see `SharedTexts`.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=" ")  # what follows stands in for its tables

    def sample(
        self,
        mask: tuple[int | None, NDArray[np.int8] | None] | None = None,
        probability: tuple[int | None, NDArray[np.float64] | None] | None = None,
    ) -> str:
        """Return a string of random printable characters; masks are over ``string.printable``."""
        printable = spaces.Text(self.max_length, min_length=0, charset=string.printable)
        printable._np_random = self.np_random
        return printable.sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Return whether x is a string within the length limit."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def characters(self) -> str:
        """Every character, in the order of the code points."""
        return _all_characters()

    # A string stands in for the frozen set and the tuple of a million characters that `spaces.Text` makes.
    character_set = character_list = characters  # type: ignore[assignment]

    def character_index(self, char: str) -> np.int32:
        """Return the code point of a character."""
        return np.int32(ord(char))

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"


class SharedTexts(Sequence[str]):
    """The texts in the shared memory of a vector env, read whenever they are looked at.

    Gymnasium reads shared memory once, when it makes the vector env: an array is a view of the memory, but a
    string would stay as it was then. A deep copy, which vector envs return by default, is a tuple of strings.
    """

    def __init__(self, codes: NDArray[np.int32]) -> None:
        self._codes = codes

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(map(_decoded, self._codes[index]))
        return _decoded(self._codes[index])

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"SharedTexts of {len(self)} envs"


def _decoded(codes: NDArray[np.int32]) -> str:
    return "".join(map(chr, codes[codes < _COUNT].tolist()))


@read_from_shared_memory.register(FreeText)
def _read(space: FreeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    codes = np.frombuffer(shared_memory.get_obj(), np.int32)
    return SharedTexts(codes.reshape(n, space.max_length))
