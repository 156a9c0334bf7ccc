"""Training on few levels: groups that have a level in common do not have its chance events in common."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripted_engine import ScriptedEngine  # noqa: E402

from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.collect import Collector  # noqa: E402
from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.config import Reward  # noqa: E402
from ragen_agents.starpo.parts.rewards import TurnReward  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402

GAME = "ragen/FrozenLakeText-v0"


def test_groups_of_one_level_slip_apart():
    codec = ChatCodec(transformers.AutoTokenizer.from_pretrained(STARTER))
    reply = "<think>hm</think><answer>Right || Down || Right || Down || Right</answer>"
    ids = [*codec.tokenizer.encode(reply, add_special_tokens=False), codec.close]
    engine = ScriptedEngine(lambda _: ids, codec.stop_token_ids)
    collector = Collector(engine, codec, lambda: make(GAME), 2048, 64, 1.0, "test", TurnReward(Reward()))
    shape = {"prompts_per_iteration": 4, "group_size": 6}
    config = TrainConfig(game=GAME, levels=1, rollout=shape)
    paths: dict[int, list[str]] = {}
    for refill in range(2):
        for one in collector.collect(training_groups(config, 0, refill), 0):
            paths.setdefault(one.group, []).append("/".join(turn.state for turn in one.turns))
    starts = {path.split("\n")[0] for group in paths.values() for path in group}
    assert len(starts) == 1
    assert len({tuple(group) for group in paths.values()}) == len(paths) == 8
