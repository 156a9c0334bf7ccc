"""What the tests of engines collect, and what they compare it with."""

import pytest
import torch

from ragen_agents.engines import TokenRequest
from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.starpo.config import Reward
from ragen_agents.starpo.parts.rewards import TurnReward
from ragen_envs.conversation import make

TOKENS = 48
SPECS = [GroupSpec(group, 3, {"seed": group}) for group in range(4)]


def beside(model, codec):
    return TransformersEngine(model, codec.stop_token_ids, codec.pad, TOKENS)


def collect(engine, codec, game, temperature):
    collector = Collector(
        engine, codec, lambda: make(f"ragen/{game}-v0"), 2048, TOKENS, temperature,
        "test", TurnReward(Reward()),
    )  # fmt: skip
    return collector.collect(SPECS, 0)


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.ids == theirs.ids
        assert ours.turn_ids == theirs.turn_ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        assert (ours.end, ours.episode_return) == (theirs.end, theirs.episode_return)


def requests(codec, seeds, temperature=1.0):
    env = make("ragen/Sokoban-v0")
    made = []
    for seed in seeds:
        env.reset(seed=seed)
        made.append(TokenRequest(seed, codec.start(env.messages), seed, temperature))
    return made


def answers(engine, asked):
    engine.submit(asked)
    found = {}
    while done := engine.poll():
        found |= {completion.key: completion for completion in done}
    return found


def changed(model, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1 * float(weight.abs().mean()))
    return model
