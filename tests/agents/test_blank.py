"""Untrained models for one game."""

import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from ragen_bench.__main__ import main  # noqa: E402

from ragen_agents.policies.base import Sampling  # noqa: E402
from ragen_agents.policies.language_models import TransformersPolicy  # noqa: E402
from ragen_agents.rollout import EpisodeSpec, play_batch  # noqa: E402
from ragen_agents.starter.blank import (  # noqa: E402  # noqa: E402
    BlankConfig,
    build_word_tokenizer,
    conversations,
    repeated_lines,
    write_blank,
)

SHOP = BlankConfig(
    game="ragen/WebShopText-v0",
    env_kwargs={"think": False, "history": "none"},
    conversations=40,
    layers=1,
)


@pytest.fixture(scope="module")
def tokenizer():
    return build_word_tokenizer(conversations(SHOP))


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blank") / "model"
    write_blank(SHOP, folder)
    return folder


@given(st.text())
def test_any_text_is_read_in_lower_case(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    # What is lowered may be composed of other characters, such as a final sigma, but not lost.
    assert tokenizer.decode(ids).casefold() == text.lower().casefold()


def test_an_environment_without_an_oracle_is_played_at_random():
    given = {"actions": ["left", "right"], "think": False}
    config = BlankConfig(game="CartPole-v1", env_kwargs=given, conversations=2)
    texts = conversations(config)
    assert all("<answer>left</answer>" in text and "<answer>right</answer>" in text for text in texts)


def test_a_word_is_one_token_wherever_it_stands(tokenizer):
    def pieces(text):
        return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]

    assert pieces("with color: navy, and") == ["with ", "color", ": ", "navy", ", ", "and"]
    assert pieces("[navy] [Red]") == ["[", "navy", "] ", "[", "red", "]"]
    shown = re.findall(r"P\d{6}", " ".join(conversations(SHOP)))
    name, _ = Counter(shown).most_common(1)[0]
    assert pieces(f"click[{name}]") == ["click", "[", name.lower(), "]"]
    assert pieces("Turn 1 of 15.\nbuttons") == ["turn 1 of 15.", "\n", "buttons"]


def test_repeated_lines_are_those_of_a_tenth_of_the_texts():
    texts = [
        "A line of some length\nshort\nanother one that is rare",
        *9 * ["A line of some length"],
    ]
    assert repeated_lines([*texts, *9 * [""]]) == ["A line of some length"]


def test_the_same_settings_write_the_same_model(blank, tmp_path):
    settings = ["env_kwargs.think=false", "env_kwargs.history=none", "conversations=40", "layers=1"]
    again = tmp_path / "again"
    assert main(["starter", "blank", "webshop", *settings, "--out", str(again)]) == 0
    files = ["model.safetensors", "tokenizer.json", "blank.json"]
    assert all((blank / name).read_bytes() == (again / name).read_bytes() for name in files)
    assert json.loads((again / "blank.json").read_text())["game"] == "ragen/WebShopText-v0"


def test_test_levels_are_refused(tmp_path, capsys):
    out = str(tmp_path / "model")
    assert main(["starter", "blank", "webshop", "env_kwargs.split=test", "--out", out]) == 2
    said = capsys.readouterr().err
    assert "env_kwargs.split is 'test', but training always uses the training split" in said


def test_an_existing_folder_is_kept(blank, capsys):
    assert main(["starter", "blank", "webshop", "--out", str(blank)]) == 2
    assert "already exists; choose another --out" in capsys.readouterr().err


def test_imitation_and_training_continue_from_it(blank, tmp_path):
    small = [
        "demonstrations=4",
        "noise=0.2",
        "messages=true",
        "epochs=1",
        "batch_size=8",
        "micro_batch=8",
    ]
    kwargs = ["env_kwargs={think: false, history: none}", "lora_rank=0", f"model={blank}"]
    shops = "variants=[{catalogue_seed: 1}, {catalogue_seed: 2}]"
    out = tmp_path / "imitated"
    assert main(["sft", "webshop", *small, *kwargs, shops, "--out", str(out)]) == 0
    tiny = ["rollout.prompts_per_iteration=2", "rollout.group_size=2", "rollout.max_tokens=12"]
    tiny += [
        "iterations=1",
        "evaluation.episodes=4",
        "evaluation.every=1",
        f"model={out}",
        kwargs[0],
    ]
    run = tmp_path / "run"
    assert main(["train", "webshop", "--preset", "starpo-s-grpo", *tiny, "--out", str(run)]) == 0
    policy = TransformersPolicy(run / "best", Sampling(0.5, 12))
    specs = [EpisodeSpec("WebShop", "ragen/WebShopText-v0", 0, env_kwargs=SHOP.env_kwargs)]
    (episode,) = play_batch(specs, policy, 0)
    assert episode.turns
