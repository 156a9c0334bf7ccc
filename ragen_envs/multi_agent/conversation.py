"""Play a multi-agent game as conversations: every seat gets text and answers with text."""

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from pettingzoo import ParallelEnv

from ragen_envs.conversation.parser import MAX_REPLY_CHARACTERS
from ragen_envs.conversation.protocol import MAX_TEXT, ConversationEnd, EndReason, TurnResult
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.game.free_text import FreeText
from ragen_envs.game.text import action_texts
from ragen_envs.multi_agent.base import Infos, MultiAgentEnv, Step
from ragen_envs.multi_agent.seat import Seat


class MultiAgentConversation(ParallelEnv[str, Any, str]):
    """Turn a game into text in, text out, for every seat. One step is one reply of everybody.

    An observation is a dictionary of the game's own ``observation`` and of ``text``: the whole first
    prompt after ``reset``, then the seat's next user message. An action is any string in the form that
    the prompt asks for; one with a defect costs ``format_penalty`` and does what could be read of it,
    or nothing. Infos have the game's keys and ``action_is_valid``, ``defects``, ``soft_defects`` and
    ``executed``.
    """

    metadata: dict[str, Any]

    def __init__(self, game: MultiAgentEnv, settings: ConversationSettings) -> None:
        self.game = game
        name = str(game.metadata["name"]).replace("_v", "_text_v")
        self.metadata = {**game.metadata, "name": name}
        self.render_mode = game.render_mode
        self.possible_agents = game.possible_agents
        self.seats = [Seat(game, number, settings) for number in range(game.players)]
        self.observation_spaces = {
            agent: spaces.Dict(observation=game.observation_space(agent), text=FreeText(MAX_TEXT))
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: FreeText(MAX_REPLY_CHARACTERS) for agent in self.possible_agents}

    @property
    def agents(self) -> list[str]:
        """Agents that are in the game."""
        return self.game.agents

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of a seat."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[str]:
        """Return the action space of a seat: any text."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], Infos]:
        """Start an episode; seed and options are the game's."""
        observations, infos = self.game.reset(seed, options)
        first = {
            agent: {"observation": observations[agent], "text": seat.start()}
            for agent, seat in zip(self.agents, self.seats, strict=True)
        }
        new = {"action_is_valid": True, "defects": (), "soft_defects": (), "executed": ()}
        return first, {agent: {**info, **new} for agent, info in infos.items()}

    def step(self, actions: Mapping[str, str]) -> Step:
        """Play one reply of every agent that is still in the game."""
        (observations, _, out, late, infos), results = self._round(actions, {})
        following = {
            agent: {"observation": observations[agent], "text": result.text}
            for agent, result in results.items()
        }
        rewards = {agent: result.reward for agent, result in results.items()}
        for agent, result in results.items():
            names = self.seats[self.game.seat_of(agent)].names
            infos[agent] |= {
                "action_is_valid": result.parsed.is_valid,
                "defects": tuple(str(defect) for defect in result.parsed.defects),
                "soft_defects": tuple(str(defect) for defect in result.parsed.soft_defects),
                "executed": action_texts(names, result.executed),
            }
        return following, rewards, out, late, infos

    def play(
        self, replies: Mapping[str, str], truncated: Mapping[str, bool] | None = None
    ) -> dict[str, TurnResult]:
        """Play one reply of every agent in the game and return what each did.

        Args:
            replies: By agent.
            truncated: Whose model was cut off by its token limit.
        """
        return self._round(replies, truncated or {})[1]

    def _round(
        self, replies: Mapping[str, str], truncated: Mapping[str, bool]
    ) -> tuple[Step, dict[str, TurnResult]]:
        seats = {agent: self.seats[self.game.seat_of(agent)] for agent in self.agents}
        parsed = {
            agent: seat.read(replies[agent], truncated.get(agent, False)) for agent, seat in seats.items()
        }
        nothing = len(self.game.names) - 1
        choices = {agent: seat.choice(parsed[agent]) for agent, seat in seats.items()}
        done = self.game.step({a: nothing if c is None else c for a, c in choices.items()})
        _, rewards, out, late, infos = done
        results = {}
        for agent, seat in seats.items():
            end: ConversationEnd | None = EndReason.BUDGET if late[agent] else None
            results[agent] = seat.tell(
                replies[agent],
                parsed[agent],
                rewards[agent],
                infos[agent]["action_is_effective"],
                EndReason.TERMINATED if out[agent] else end,
            )
        return done, results

    def render(self) -> Any:
        """Return the game's picture."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()
