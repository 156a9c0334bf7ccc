"""WebShop: buy what an instruction asks for."""

from ragen_envs.games.webshop.env import WebShopEnv

__all__ = ["WebShopEnv"]
