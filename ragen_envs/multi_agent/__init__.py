"""Games for several agents, as PettingZoo environments. Importing this package registers every id.

Examples:
    >>> import pettingzoo, ragen_envs.multi_agent
    >>> env = pettingzoo.make("parallel", "ragen/bandit_market-v0")
    >>> observations, infos = env.reset(seed=0)
    >>> sorted(observations)
    ['player_0', 'player_1', 'player_2', 'player_3']
"""

from ragen_envs.multi_agent.registration import MULTI_AGENT_GAMES, register_all

register_all()

__all__ = ["MULTI_AGENT_GAMES"]
