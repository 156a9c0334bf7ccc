"""The market of bandits: arms whose payoff is shared by all who choose them."""

from ragen_envs.multi_agent.games.bandit_market.env import BanditMarketEnv
from ragen_envs.multi_agent.games.bandit_market.oracle import (
    optimal_welfare,
    pure_equilibrium,
    symmetric_equilibrium,
)

__all__ = ["BanditMarketEnv", "optimal_welfare", "pure_equilibrium", "symmetric_equilibrium"]
