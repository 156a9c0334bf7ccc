"""Rewards of a turn: the game's, the format penalty, and three that look at the reasoning.

The paper finds that reasoning fades where only the outcome is rewarded (section 4.4) and calls for
rewards that see it. Each part is weighted, summed, and logged apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragen_agents.rollout.collect import RewardFunction
from ragen_agents.starpo.config import Reward
from ragen_envs.conversation import ConversationWrapper, Defect, ParsedReply, TurnResult
from ragen_envs.game.claims import cells_of, count_predicted, mentioned
from ragen_envs.game.text import COORDINATES

_THOUGHT_DEFECTS = (Defect.NO_THINK, Defect.UNCLOSED_THINK, Defect.UNEXPECTED_THINK)


@dataclass(frozen=True)
class TurnReward:
    """The parts that a config asks for; a part with weight 0 is not computed and not logged."""

    weights: Reward

    def before(self, env: ConversationWrapper) -> str:
        """Return the positions on the board, for the part that checks the thought against them."""
        if self.weights.grounded == 0:
            return ""
        return env.face.observation(env.unwrapped, COORDINATES, env.symbols)

    def parts(self, before: str, reply: str, result: TurnResult) -> dict[str, float]:  # noqa: ARG002
        """Return the weighted parts."""
        weights = self.weights
        parts = {"game": weights.game * sum(result.rewards), "penalty": weights.penalty * result.penalty}
        if weights.format:
            parts["format"] = weights.format * graded_format(result.parsed)
        if weights.grounded:
            parts["grounded"] = weights.grounded * grounded(result.parsed.thought, before)
        if weights.prediction:
            true = count_predicted(result.claims, result.executed)
            parts["prediction"] = weights.prediction * true / max(len(result.executed), 1)
        return parts


@dataclass(frozen=True)
class FunctionReward:
    """A plain function of the reply and what it did, as a reward."""

    function: Callable[[str, TurnResult], float | Mapping[str, float]]

    def before(self, env: ConversationWrapper) -> str:  # noqa: ARG002
        """Return nothing: the function sees only what the reply did."""
        return ""

    def parts(self, before: str, reply: str, result: TurnResult) -> dict[str, float]:  # noqa: ARG002
        """Return the named parts, or the number under the function's name."""
        rewards = self.function(reply, result)
        name = getattr(self.function, "__name__", "reward")
        return dict(rewards) if isinstance(rewards, Mapping) else {name: rewards}


def as_reward(reward: RewardFunction | Callable[..., Any]) -> RewardFunction:
    """Return a reward, or a function ``(reply, result)``, as the collector takes it."""
    return reward if isinstance(reward, RewardFunction) else FunctionReward(reward)


def graded_format(parsed: ParsedReply) -> float:
    """Return a third each for a thought that was asked for, an answer with an action, and no defect."""
    thought = bool(parsed.thought.strip()) and not any(d in parsed.defects for d in _THOUGHT_DEFECTS)
    return (thought + bool(parsed.actions) + parsed.is_valid) / 3


def grounded(thought: str, coordinates: str) -> float:
    """Return the share of the places a thought tells of things in the game that are true of the state.

    It reads the first mention of each kind of thing ("Player", "Box") with row and column behind it: later
    ones are plans. Each true place counts once, so that repeating one earns nothing. 0 where there is none.

    Args:
        thought: Any text.
        coordinates: The state in the observation format "coordinates".
    """
    true = claimed = 0
    for line in coordinates.splitlines():
        name, colon, places = line.partition(": ")
        mention = mentioned(thought, name)
        if not colon or mention is None:
            continue
        real = set(cells_of(places))
        cells = cells_of(mention.group())
        claimed += len(cells)
        true += len(real & set(cells))
    return true / claimed if claimed else 0.0
