"""The module that verifiers' loader finds; see ``ragen_envs.adapters.verifiers_env``."""

from ragen_envs.adapters.verifiers_env import RagenEnv, RagenHarness, RagenTaskset

__all__ = ["RagenEnv", "RagenHarness", "RagenTaskset"]
