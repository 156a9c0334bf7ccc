"""The module that verifiers' loader finds; see ``ragen_envs.adapters.verifiers``."""

from ragen_envs.adapters.verifiers import RagenEnv, RagenHarness, RagenTaskset

__all__ = ["RagenEnv", "RagenHarness", "RagenTaskset"]
