"""The prefix cache: the next turn of a conversation is decoded from where its last one ended."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import torch

from ragen_agents.engines.cpu.decoding import Decoder, fresh_tokens
from ragen_agents.engines.cpu.key_values import KeyValues
from ragen_agents.engines.cpu.sampling import Sample

_SPARE: Final = 64
"""Tokens of a reply for which there is room before buffers grow."""


class PrefixCache:
    """Keys and values of the last batch of prompts and replies, and the tokens that they are of.

    It is for one model with the same weights; whoever changes them, or is done with the conversations,
    clears it.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Release the keys and values."""
        self._past: KeyValues | None = None
        self._read: list[list[int]] = []

    def sample(self, decoder: Decoder, prompts: Sequence[list[int]], seeds: Sequence[int]) -> list[Sample]:
        """Sample a reply to each prompt, and read only what is not cached; no prompt is empty.

        The decoder's model is the one that has read what is cached.
        """
        places = self._places(decoder, prompts)
        suffixes = [prompt[n:] for prompt, (_, n) in zip(prompts, places, strict=True)]
        spare = max(map(len, suffixes)) + _SPARE
        samples, past = decoder.run(suffixes, seeds, self._taken(places, spare))
        self._past = past
        self._read = [[*prompt, *sample.ids[:-1]] for prompt, sample in zip(prompts, samples, strict=True)]
        return samples

    def _places(self, decoder: Decoder, prompts: Sequence[list[int]]) -> list[tuple[int, int]]:
        """Return, for each prompt, the cached row that it extends and how many tokens that row covers."""
        nowhere = [(0, 0)] * len(prompts)
        if self._past is None or not decoder.reads_in_parts:
            return nowhere
        beginnings = self._longest_beginnings(prompts)
        left = sum(len(prompt) - n for prompt, (_, n) in zip(prompts, beginnings, strict=True))
        return beginnings if left < fresh_tokens(prompts) else nowhere

    def _longest_beginnings(self, prompts: Sequence[list[int]]) -> list[tuple[int, int]]:
        order = sorted(range(len(self._read)), key=self._read.__getitem__)
        read = [self._read[row] for row in order]
        beginnings = []
        for prompt in prompts:
            # In their order, the row that shares most is a neighbour of the prompt.
            place = bisect_left(read, prompt)
            near = [i for i in (place - 1, place) if 0 <= i < len(read)]
            shared, best = max((_shared(read[i], prompt), i) for i in near)
            beginnings.append((order[best], shared))
        return beginnings

    def _taken(self, places: list[tuple[int, int]], spare: int) -> KeyValues | None:
        """Remove the keys and values from the cache, so that they do not lie beside those that grow."""
        past, self._past = self._past, None
        if past is None or not any(n for _, n in places):
            return None
        rows, counts = torch.tensor(places, device=past.mask.device).unbind(1)
        return past.beginnings(rows, counts, spare)


def _shared(read: list[int], prompt: list[int]) -> int:
    """Count the tokens of a prompt that were read, without its last one."""
    most = min(len(read), len(prompt) - 1)
    if read[:most] == prompt[:most]:
        return most
    return next(i for i in range(most) if read[i] != prompt[i])
