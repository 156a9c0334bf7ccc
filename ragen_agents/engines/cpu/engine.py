"""Rollouts by a transformers model in this process: requests of one temperature in lock-step.

The next turn of a conversation is decoded from where its last one ended.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from ragen_agents.engines.base import Completion, TokenRequest
from ragen_agents.engines.cpu.decoding import Decoder, fresh_tokens
from ragen_agents.engines.cpu.key_values import KeyValues
from ragen_agents.engines.cpu.sampling import Sample

_SPARE: Final = 64
"""Tokens of a reply for which there is room before buffers grow."""


class TransformersEngine:
    """Generates with the module that is being trained, or with a whole copy if that one is sharded.

    The KV cache is kept until the next requests: a prefix that a request shares with an earlier one, or with
    the other members of its group, is processed once. ``pad`` is any token id, and ``precision`` the
    arithmetic of the passes (autocast), by default that of the weights.
    """

    def __init__(
        self, model: Any, stop_token_ids: frozenset[int], pad: int, max_tokens: int,
        precision: torch.dtype | None = None, ends_with_stop: Callable[[Tensor], Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.version = 0
        self._precision, self._ends_with_stop = precision, ends_with_stop
        self._decoders: dict[float, Decoder] = {}
        self._model = model
        self._stop_token_ids, self._pad, self._max_tokens = stop_token_ids, pad, max_tokens
        self._queue: list[TokenRequest] = []
        self._prefix_cache = PrefixCache()

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""
        self._queue.extend(requests)

    def poll(self) -> list[Completion]:
        """Answer everything that is queued with the temperature of the first request."""
        if not self._queue:
            return []
        temperature = self._queue[0].temperature
        requests = [r for r in self._queue if r.temperature == temperature]
        self._queue = [r for r in self._queue if r.temperature != temperature]
        training = self._model.training
        self._model.eval()
        decoder = self._decoders.setdefault(
            temperature,
            Decoder(
                self._model, self._stop_token_ids, self._pad, temperature, self._max_tokens,
                self._precision, ends_with_stop=self._ends_with_stop,
            ),
        )  # fmt: skip
        samples = self._prefix_cache.sample(decoder, [r.ids for r in requests], [r.seed for r in requests])
        self._model.train(training)
        return [
            Completion(request.key, ids, logprobs, finish, self.version, entropies)
            for request, (ids, logprobs, entropies, finish) in zip(requests, samples, strict=True)
        ]

    def sync(self, model: Any, version: int) -> None:
        """Use a model, which may be the current one, after its weights have changed."""
        if model is not self._model:
            self._decoders.clear()
        self._model, self.version = model, version
        self.release()

    def release(self) -> None:
        """Release the KV cache."""
        self._prefix_cache.clear()

    def close(self) -> None:
        """Release the KV cache; the model belongs to the caller."""
        self.release()


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
