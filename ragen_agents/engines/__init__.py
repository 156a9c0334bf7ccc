"""Engines: what turns token ids into more token ids, behind one protocol."""

from ragen_agents.engines.base import Completion, Engine, EngineError, TokenRequest

__all__ = ["Completion", "Engine", "EngineError", "TokenRequest"]
