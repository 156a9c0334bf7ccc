"""Models whose tokens do not see all tokens before them."""

from typing import Any


def has_windows(config: Any) -> bool:
    """Return whether the attention of some layers has a window, by a text model's config."""
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    windowed = getattr(config, "sliding_window", None) is not None
    chunked = getattr(config, "attention_chunk_size", None) is not None
    return (windowed and "sliding_attention" in kinds) or chunked
