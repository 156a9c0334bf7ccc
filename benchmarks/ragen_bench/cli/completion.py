"""What the shell completes: names of games and of agents."""

from collections.abc import Iterable
from typing import Final

_MODELS: Final = ("starter", "starter-0.2", "smollm2", "gemma3-270m", "hf:", "openai:", "vllm:")


def complete_game(incomplete: str) -> list[str]:
    """Return the games whose short name begins like this, in lower case if it does so only there."""
    from ragen_bench.config.game_names import short_names
    from ragen_envs.registration import text_ids

    return _beginning(incomplete, short_names(text_ids()))


def complete_agent(incomplete: str) -> list[str]:
    """Return the kinds of agents that begin like this."""
    from ragen_agents.policies import CONTROLS, SHOP_RULES

    return _beginning(incomplete, (*CONTROLS, *SHOP_RULES, *_MODELS))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    spelled = [name if name.startswith(incomplete) else name.lower() for name in names]
    return [name for name in spelled if name.startswith(incomplete)]
