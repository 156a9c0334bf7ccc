"""No conversation becomes longer than its bound, and the bound is not far above the longest."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripted_engine import ScriptedEngine  # noqa: E402
from training_runs import trainer  # noqa: E402

from ragen_agents.rollout.chat import ChatCodec, stop_token_ids  # noqa: E402
from ragen_agents.rollout.collect import Collector, GroupSpec  # noqa: E402
from ragen_agents.rollout.conversation_length import longest_conversation  # noqa: E402
from ragen_agents.starpo.config import Reward  # noqa: E402
from ragen_agents.starpo.parts.rewards import TurnReward  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

MOST = 40


@pytest.fixture(scope="module")
def codec(tiny):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny)
    generation = transformers.GenerationConfig.from_pretrained(tiny)
    return ChatCodec(tokenizer, stop_token_ids(generation, tokenizer))


def longest_seen(codec, env_settings, game):
    """The tokens of the longest conversation of some that write as much as they may."""
    filler = codec.tokenizer.encode("no", add_special_tokens=False)[-1]

    def write(request):
        said = ("<answer>Up</answer>", "<think>x</think><answer>Up || Down</answer>", "")[request.seed % 3]
        ids = codec.tokenizer.encode(said, add_special_tokens=False)
        return [*ids, *[filler] * MOST][:MOST]

    collector = Collector(
        ScriptedEngine(write, codec.stop_token_ids), codec, lambda: make(game, **env_settings),
        1 << 30, MOST, 1.0, "test", TurnReward(Reward()),
    )  # fmt: skip
    specs = [GroupSpec(group, 2, {"seed": 1000 + group}) for group in range(12)]
    return max(len(row.ids) for t in collector.collect(specs, 0) for row in t.rows)


@pytest.mark.parametrize(
    ("game", "settings", "slack"),
    [
        ("ragen/SokobanText-v0", {}, 1.5),
        ("ragen/SokobanText-v0", {"max_turns": 12, "max_actions": 30}, 1.5),
        ("ragen/SokobanText-v0", {"history": "last", "history_turns": 2}, 1.5),
        ("ragen/SokobanText-v0", {"history": "none"}, 1.6),
        ("ragen/SokobanText-v0", {"invalid": "end"}, 9.0),
        ("ragen/BanditText-v0", {}, 1.2),
        ("ragen/BanditText-v0", {"max_turns": 4, "max_actions": 4}, 9.0),
        ("ragen/MastermindText-v0", {}, 2.5),
        ("ragen/WebShopText-v0", {}, 9.0),
    ],
)
def test_the_bound_holds_and_is_close(codec, game, settings, slack):
    seen = longest_seen(codec, settings, game)
    bound = longest_conversation(make(game, **settings), codec, MOST)
    assert seen <= bound <= slack * seen


def test_longer_replies_and_more_turns_need_more(codec):
    short, long = (longest_conversation(make("ragen/SokobanText-v0"), codec, n) for n in (10, 110))
    assert long - short == 5 * 100


def test_a_context_that_is_too_short_is_refused(tiny, tmp_path):
    layer = {"model": str(tiny), "engine": "vllm", "vllm": {"max_model_len": 128}}
    with pytest.raises(RagenError, match=r"vLLM reads 128 tokens, but the game's first prompt"):
        trainer(tmp_path / "run", layer)
