"""Every multi-agent id of the suite, in one table."""

from dataclasses import dataclass
from typing import Final

import pettingzoo


@dataclass(frozen=True)
class MultiAgentSpec:
    """One registered game: ``ragen/<name>_v0``, and in words ``ragen/<name>_text_v0``."""

    name: str
    summary: str
    """One line for lists."""

    @property
    def module(self) -> str:
        """The classic module."""
        return f"ragen_envs.multi_agent.{self.name}_v0"

    @property
    def id(self) -> str:
        """Id of the numeric face, in PettingZoo's canonical form."""
        return f"ragen/{self.name}-v0"

    @property
    def text_id(self) -> str:
        """Id of the text face."""
        return f"ragen/{self.name}_text-v0"


MULTI_AGENT_GAMES: Final = (
    MultiAgentSpec("sokoban_coop", "push all boxes together, in fewer rounds than one would need"),
    MultiAgentSpec("frozen_lake_race", "several walkers, one goal: be first, or arrive together"),
    MultiAgentSpec("bandit_market", "arms that pay less the more choose them"),
)


def register_all() -> None:
    """Register every id with PettingZoo, parallel and AEC; calling it again changes nothing."""
    for game in MULTI_AGENT_GAMES:
        if game.id in pettingzoo.env_registry.registration.parallel_registry:
            continue
        for env_id, kwargs in ((game.id, {}), (game.text_id, {"text": True})):
            pettingzoo.register("parallel", env_id, f"{game.module}:parallel_env", kwargs=kwargs)
            pettingzoo.register("aec", env_id, f"{game.module}:env", kwargs=kwargs)
