"""A seat of a turn-based game of PettingZoo as an environment, and as a conversation."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("pettingzoo")
from pettingzoo import AECEnv
from pettingzoo.utils import AgentSelector
from replies import say

from ragen_envs.conversation import make
from ragen_envs.multi_agent.seat_env import SeatEnv


class Nim(AECEnv):
    """Take one to three of the sticks; who takes the last one wins."""

    metadata = {"name": "nim", "render_modes": []}

    def __init__(self):
        self.possible_agents = ["first", "second"]
        self.observation_spaces = dict.fromkeys(
            self.possible_agents,
            gym.spaces.Dict(observation=gym.spaces.Discrete(20), action_mask=gym.spaces.MultiBinary(3)),
        )
        self.action_spaces = {agent: gym.spaces.Discrete(3) for agent in self.possible_agents}
        self.render_mode = None

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.sticks = 4 + seed % 6
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._selector = AgentSelector(self.agents)
        self.agent_selection = self._selector.next()

    def observe(self, agent):
        mask = np.array([taken <= self.sticks for taken in (1, 2, 3)], np.int8)
        return {"observation": self.sticks, "action_mask": mask}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.sticks -= action + 1
        assert self.sticks >= 0
        if self.sticks == 0:
            self.rewards = {each: 1.0 if each == agent else -1.0 for each in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self._selector.next()
        return self._accumulate_rewards()


def best(seen, mask, rng):
    """Leave a multiple of four, if possible."""
    taken = seen % 4
    return taken - 1 if taken else int(rng.choice(np.flatnonzero(mask)))


@pytest.mark.parametrize("seat", [0, 1])
def test_the_other_seat_answers_until_the_game_ends(seat):
    env = SeatEnv(Nim(), seat, best)
    for seed in range(12):
        sticks, _ = env.reset(seed=seed)
        assert sticks == 4 + seed % 6 or seat == 1
        total, terminated = 0.0, False
        can_win = sticks % 4 != 0
        while not terminated:
            action = sticks % 4 - 1 if sticks % 4 else 0
            sticks, reward, terminated, truncated, _ = env.step(action)
            assert not truncated
            total += reward
        assert (total, sticks) == ((1.0, 0) if can_win else (-1.0, 0))


def test_a_seat_is_played_as_a_conversation_against_random_moves():
    env = make(SeatEnv(Nim()), actions=["one", "two", "three"], success=1, max_turns=9)
    outcomes = set()
    for index in range(12):
        env.reset(options={"index": index})
        while env.end is None:
            *_, info = env.step(say("three"))
            shown = env.state_text()
            if not info["action_is_effective"]:
                assert shown in ("Observation: 1", "Observation: 2")
                env.step(say("one"))
        outcomes.add(env.success)
    assert outcomes == {True, False}


class ShortNim(Nim):
    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.sticks = 2


def test_a_game_that_ends_before_the_first_turn_ends_with_the_first_step():
    env = SeatEnv(ShortNim(), 1, best)
    env.reset(seed=0)
    assert env.step(0) == (0, -1.0, True, False, {})
    talk = make(env, actions=["one", "two", "three"], success=1, max_turns=9)
    talk.reset(seed=0)
    _, reward, terminated, _, _ = talk.step(say("one"))
    assert (reward, terminated, talk.success) == (-1.0, True, False)
