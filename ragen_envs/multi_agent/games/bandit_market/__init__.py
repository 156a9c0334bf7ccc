"""The market of bandits: arms whose payoff is shared by all who choose them."""

from ragen_envs.multi_agent.games.bandit_market.dynamics import pure_equilibrium
from ragen_envs.multi_agent.games.bandit_market.env import BanditMarketEnv

__all__ = ["BanditMarketEnv", "pure_equilibrium"]
