"""The text games of ragen-suite as a verifiers environment."""

from ragen_envs.adapters.verifiers_env import RagenEnv, RagenHarness, RagenTaskset

__all__ = ["RagenEnv", "RagenHarness", "RagenTaskset"]
