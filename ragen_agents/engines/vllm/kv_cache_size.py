"""How much memory vLLM's keys and values take, from a model's config alone.

vLLM 0.32 keeps whole blocks of tokens. Where some layers attend to a window only, it sorts the layers into
groups of equal size, each with blocks of its own, and fills the last group of a kind with layers that do not
exist.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

BYTES_PER_ELEMENT: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number, by the name of its precision."""
BLOCK: Final = 32
"""Tokens of a block; vLLM uses 16 on GPUs, which rounds less."""


@dataclass(frozen=True)
class KvCacheShape:
    """What decides how large a model's keys and values are."""

    layers: int
    """Layers that are stored, those that only fill a group included."""
    heads: int
    """Heads of keys and values in a layer."""
    head_size: int
    """Numbers of a key, and of a value."""

    @classmethod
    def of(cls, config: Any) -> "KvCacheShape":
        """Return the shape of a transformers config, that of the text model where it has several."""
        text = config.get_text_config()
        queries = text.num_attention_heads
        heads = getattr(text, "num_key_value_heads", None) or queries
        size = getattr(text, "head_dim", None) or text.hidden_size // queries
        return cls(_stored_layers(text), heads, size)

    def bytes_per_token(self, precision: str) -> int:
        """Return the bytes that one token takes; precision is a key of `BYTES_PER_ELEMENT`."""
        return 2 * self.layers * self.heads * self.head_size * BYTES_PER_ELEMENT[precision]

    def bytes_of(self, precision: str, tokens: int, sequences: int = 1) -> int:
        """Return bytes that are enough for sequences that share nothing.

        A window may begin inside a block, and vLLM keeps one block for itself; both are counted.

        Args:
            precision: Key of `BYTES_PER_ELEMENT`.
            tokens: Of each sequence, prompt and replies together.
            sequences: At the same time.
        """
        blocks = sequences * (-(-tokens // BLOCK) + 1) + 1
        return blocks * BLOCK * self.bytes_per_token(precision)


def _stored_layers(text: Any) -> int:
    layers = int(text.num_hidden_layers)
    kinds = Counter((getattr(text, "layer_types", None) or ())[:layers])
    if len(kinds) < 2:
        return layers
    group = min(kinds.values())
    if max(kinds.values()) < 1.5 * group:
        group = max(kinds.values())
    return sum(-(-count // group) * group for count in kinds.values())
