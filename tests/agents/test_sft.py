"""The supervised baseline."""

import json

import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("trl")

from ragen_bench.__main__ import main  # noqa: E402

from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.trajectory import CONTEXT  # noqa: E402
from ragen_agents.sft import SftConfig, demonstrations  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.registration import text_ids  # noqa: E402


@pytest.fixture(scope="module")
def codec():
    return ChatCodec(transformers.AutoTokenizer.from_pretrained(STARTER))


@pytest.mark.parametrize("game", text_ids())
def test_demonstrations_solve_their_game(game, codec):
    found = demonstrations(SftConfig(game=game, demonstrations=3), codec)
    assert len(found) == 3
    for trajectory in found:
        assert trajectory.success
        text = codec.tokenizer.decode(
            [t for t, turn in zip(trajectory.ids, trajectory.turn_ids, strict=True) if turn == 0]
        )
        assert text.startswith("<think>")
        assert text.endswith("</answer><|im_end|>")
    again = demonstrations(SftConfig(game=game, demonstrations=3), codec)
    assert [t.ids for t in again] == [t.ids for t in found]


def test_worked_examples_of_the_prompt_are_not_imitated(codec):
    settings = {"demonstrations": 2}
    config = SftConfig(game="ragen/SokobanText-v0", demonstrations=2, env_kwargs=settings)
    for trajectory in demonstrations(config, codec):
        replies = [m["content"] for m in trajectory.messages if m["role"] == "assistant"]
        pairs = zip(trajectory.ids, trajectory.turn_ids, strict=True)
        learned = codec.tokenizer.decode([token for token, turn in pairs if turn != CONTEXT])
        assert learned.count("</answer>") == len(replies) - 2
        assert all(reply in learned for reply in replies[2:])


@pytest.mark.parametrize("rank", [0, 4])
def test_a_model_is_trained_and_written(rank, tmp_path):
    out = tmp_path / "model"
    settings = [
        "demonstrations=8",
        "epochs=2",
        "batch_size=4",
        "micro_batch=2",
        f"lora_rank={rank}",
    ]
    settings += ["env_kwargs.actions_per_turn=2"]
    assert main(["sft", "frozenlake-deterministic", *settings, "--out", str(out)]) == 0
    trained = transformers.AutoModelForCausalLM.from_pretrained(out).state_dict()
    before = transformers.AutoModelForCausalLM.from_pretrained(STARTER).state_dict()
    assert trained.keys() == before.keys()
    assert any(not trained[name].equal(before[name]) for name in before)
    assert json.loads((out / "sft.json").read_text())["lora_rank"] == rank
    lines = (out / "demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line)["messages"] for line in lines]
    assert len(chats) == 8
    assert all("up to 2 actions per turn" in chat[0]["content"] for chat in chats)
    assert all(chat[-1]["content"].endswith("</answer>") for chat in chats)
    assert main(["sft", "frozenlake", *settings, "--out", str(out)]) == 2


def test_demonstrations_continue_turns_that_begin_with_think(codec):
    config = SftConfig(
        game="ragen/SokobanText-v0", demonstrations=2, env_kwargs={"think_prefix": True}
    )
    for trajectory in demonstrations(config, codec):
        chat = codec.tokenizer.apply_chat_template(trajectory.messages, return_dict=False)
        assert trajectory.ids == chat[: len(trajectory.ids)]
        first = trajectory.turn_ids.index(0)
        assert codec.tokenizer.decode(trajectory.ids[first - 1 : first + 1]).startswith("<think>")


def test_a_batch_that_cannot_be_split_is_refused(tmp_path, capsys):
    assert main(["sft", "bandit", "batch_size=100", "--out", str(tmp_path / "m")]) == 2
    assert "batch_size is 100, but must be a multiple of micro_batch" in capsys.readouterr().err


def test_an_unknown_game_is_named_wherever_it_is_said(tmp_path, capsys):
    for arguments in (["nope"], ["bandit", "game=nope"]):
        assert main(["sft", *arguments, "--out", str(tmp_path / "m")]) == 2
        assert "unknown game 'nope'" in capsys.readouterr().err


def test_unknown_settings_are_named(tmp_path, capsys):
    assert main(["sft", "bandit", "lr=1", "--out", str(tmp_path / "m")]) == 2
    assert "unknown option 'lr'" in capsys.readouterr().err
