"""List every multi-agent id of the suite, in one table, and register them."""

from dataclasses import dataclass
from typing import Final

import pettingzoo

VERSION: Final = 0
"""Version of every multi-agent game."""


@dataclass(frozen=True)
class MultiAgentSpec:
    """One registered game.

    Ids are spelled ``ragen/<name>-v0``, here, in suites and in records. PettingZoo also reads
    ``ragen/<name>_v0``, and takes both for the same game.
    """

    name: str
    """snake_case name, as PettingZoo names its games."""
    summary: str
    """One line for lists."""

    @property
    def id(self) -> str:
        """Id of the numeric face."""
        return f"ragen/{self.name}-v{VERSION}"

    @property
    def text_id(self) -> str:
        """Id of the text face: the name with ``_text`` appended."""
        return f"ragen/{self.name}_text-v{VERSION}"

    @property
    def module(self) -> str:
        """PettingZoo's classic module, with ``env``, ``raw_env`` and ``parallel_env``."""
        return f"ragen_envs.multi_agent.{self.name}_v{VERSION}"


MULTI_AGENT_GAMES: Final = (
    MultiAgentSpec("sokoban_coop", "push all boxes together, in fewer rounds than one would need"),
    MultiAgentSpec("frozen_lake_race", "several walkers, one goal: be first, or arrive together"),
    MultiAgentSpec("bandit_market", "arms that pay less the more choose them"),
)
"""The games for several players."""


def register_all() -> None:
    """Register every id with PettingZoo, parallel and AEC; calling it again changes nothing."""
    for game in MULTI_AGENT_GAMES:
        if game.id in pettingzoo.env_registry.registration.parallel_registry:
            continue
        for env_id, kwargs in ((game.id, {}), (game.text_id, {"text": True})):
            pettingzoo.register("parallel", env_id, f"{game.module}:parallel_env", kwargs=kwargs)
            pettingzoo.register("aec", env_id, f"{game.module}:env", kwargs=kwargs)
