"""Engines turn token ids into more token ids, behind one protocol.

``vllm/`` runs vLLM in this process or asks its servers; ``cpu/`` generates with transformers; both get a
model's weights by ``weights.py``.
"""

from ragen_agents.engines.base import Completion, Engine, EngineError, TokenRequest

__all__ = ["Completion", "Engine", "EngineError", "TokenRequest"]
