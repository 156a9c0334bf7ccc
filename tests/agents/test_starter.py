import json
import re
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from forked import context
from hypothesis import given, settings
from hypothesis import strategies as st
from starter_build import build
from starter_build.build import IGNORED, build_tokenizer, encode, tokenizer_texts
from starter_build.demonstrations import SHARES, WORDS, Mixture, demonstrate, name_pair
from starter_build.recipe import Recipe, Stage

from ragen_agents.model_files.source import weights_digest
from ragen_agents.starter import STARTER, STARTERS
from ragen_envs.conversation import parse_reply
from ragen_envs.games.bandit import arm_names

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(STARTER)


@pytest.fixture(scope="module")
def chats():
    rng = np.random.default_rng(7)
    return [demonstrate(rng, Mixture()).chat for _ in range(150)]


def _system(chat):
    return chat[0]["content"]


def _names(chat):
    return re.search(r"Actions: (.*)\.", _system(chat)).group(1).split(", ")


def test_demonstrations_are_valid_replies(chats):
    for chat in chats:
        several = re.search(r"up to (\d+) actions", _system(chat))
        per_turn = int(several.group(1)) if several else 1
        think = "<think>" in _system(chat)
        for asked, message in zip(chat[1::2], chat[2::2], strict=True):
            # Worked examples have arms of their own.
            arms = re.search(r"Arms: (\w+), (\w+)", asked["content"])
            names = arms.groups() if arms else _names(chat)
            parsed = parse_reply(message["content"], names, per_turn, think)
            assert parsed.defects == ()


def test_demonstrations_cover_every_game(chats):
    openings = {_system(chat)[:30] for chat in chats}
    assert len(openings) == 4
    assert sum(SHARES.values()) == pytest.approx(1)


def test_thoughts_tell_true_places(chats):
    seen = 0
    for chat in chats:
        if "Sokoban" not in _system(chat) or "W wall" in _system(chat):
            continue
        rows = re.split(r"Turn 1 of .*\.\n", chat[1]["content"])[1].split("\n")
        told = re.search(r"<think>Places as row column\. Player (\d) (\d)\.", chat[2]["content"])
        if told:
            row, column = map(int, told.groups())
            assert rows[row][column] in "PS"
            seen += 1
    assert seen > 10


def test_every_name_of_an_arm_is_one_token(chats):
    made = build_tokenizer(tokenizer_texts(chats))
    split = [word for word in WORDS if len(made.encode(word, add_special_tokens=False)) > 1]
    assert split == []  # a model of this size does not copy names in pieces


def test_held_out_pairs_are_never_demonstrated_though_their_words_are():
    rng = np.random.default_rng(0)
    drawn = {name_pair(rng) for _ in range(8000)}
    for split in ("validation", "test"):
        safe, risky = arm_names()[split]
        held_out = {pair for a, b in product(safe, risky) for pair in ((a, b), (b, a))}
        assert not drawn & held_out
        assert {*safe, *risky} <= {name for pair in drawn for name in pair}


def test_skipped_replies_and_the_system_message_are_not_learned(tokenizer):
    rng = np.random.default_rng(3)
    shown = [demonstrate(rng, Mixture(bandits=0.1, late=0.8)) for _ in range(40)]
    assert {demonstration.skipped for demonstration in shown} >= {0, 1, 2}
    for demonstration in shown:
        row = encode(demonstration, tokenizer)
        pairs = list(zip(row["input_ids"], row["labels"], strict=True))
        assert all(label in (token, IGNORED) for token, label in pairs)
        ignored = tokenizer.decode([token for token, label in pairs if label == IGNORED])
        chat, skipped = demonstration
        told = [chat[0], *[m for m in chat if m["role"] == "assistant"][:skipped]]
        assert ignored == "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in told)


def test_a_mixture_sets_the_share_of_the_large_board_and_how_much_is_left_at_first():
    rng = np.random.default_rng(5)
    mixture = Mixture(bandits=0, late=1, most_left=9, cubes=0, large=1)
    left = set()
    for chat, skipped in (demonstrate(rng, mixture) for _ in range(60)):
        assert re.search(r"\n#{8}\n", chat[1]["content"] + "\n")
        for asked in chat[1 + 2 * skipped : 2 + 2 * skipped]:  # none if all replies are skipped
            left.update(map(int, re.findall(r"[Aa]ctions? left: (\d+)", asked["content"])))
    assert left & {5, 6, 7, 8, 9}
    assert left & {1, 2, 3, 4}


def test_stored_results_began_with_shipped_weights():
    results = Path(__file__).parents[2] / "benchmarks" / "results" / "laptop"
    began = {
        (train["model"], train["weights"])
        for file in results.glob("*.jsonl")
        for train in (json.loads(line)["task"]["train"] for line in file.read_text("utf-8").splitlines())
    }
    assert began
    assert began <= {(name, weights_digest(folder)) for name, folder in STARTERS.items()}


@settings(max_examples=100)
@given(text=st.text(max_size=80))
def test_any_text_survives_the_tokenizer(tokenizer, text):
    if any(token in text for token in tokenizer.all_special_tokens):
        return
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_board_symbols_and_digits_are_tokens_of_their_own(tokenizer):
    row = "#_O√XPS#"
    assert [tokenizer.decode([i]) for i in tokenizer.encode(row)] == list(row)
    assert [tokenizer.decode([i]).strip() for i in tokenizer.encode(" 1 2")] == ["1", "2"]


def test_chat_template_extends_a_conversation_without_changing_its_tokens(tokenizer, chats):
    chat = max(chats, key=len)
    whole = tokenizer.apply_chat_template(chat, return_dict=False)
    start = tokenizer.apply_chat_template(chat[:2], add_generation_prompt=True, return_dict=False)
    assert whole[: len(start)] == start


def test_saved_model_computes_what_was_trained(tmp_path):
    import torch

    from ragen_agents.starter.blank import as_llama, new_model

    tokenizer = transformers.AutoTokenizer.from_pretrained(STARTER)
    trained = new_model(tokenizer, 64, 2, 384, heads=2).eval()
    for weight in trained.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    as_llama(trained).save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = torch.arange(5, 105).reshape(2, 50)
    with torch.no_grad():
        assert torch.equal(trained(ids).logits, loaded(ids).logits)


# Shipped model, game, least success rate, and most.
BAR = [
    ("starter", "Bandit", 0.25, 0.70),
    ("starter", "Sokoban", 0.30, 0.65),
    ("starter", "SokobanNewVocab", 0.30, 0.65),
    ("starter", "SokobanLarge", 0.0, 0.30),
    ("starter", "FrozenLakeDeterministic", 0.40, 0.75),
    ("small-sokoban", "Sokoban", 0.30, 0.60),
    ("small-lake", "FrozenLakeDeterministic", 0.30, 0.60),
    ("small-ice", "FrozenLake", 0.10, 0.40),
    ("small-thoughts", "Sokoban", 0.30, 0.60),
]


@pytest.mark.parametrize(("model", "game", "least", "most"), BAR)
def test_shipped_models_meet_their_bars(model, game, least, most):
    from ragen_agents.policies import Sampling, make_policy
    from ragen_agents.rollout import EpisodeSpec, play_batch

    policy = make_policy(model, Sampling(0.5, 200))
    settings = {} if model in ("starter", "small-thoughts") else {"think": False}
    specs = [EpisodeSpec(game, f"ragen/{game}Text-v0", i, env_kwargs=settings) for i in range(40)]
    episodes = play_batch(specs, policy, 0)
    valid = [not turn.defects for episode in episodes for turn in episode.turns]
    assert np.mean(valid) >= {"starter": 0.95, "small-thoughts": 0.75}.get(model, 0.85)
    assert least <= np.mean([episode.success for episode in episodes]) <= most


def test_a_turn_that_begins_with_think_is_continued():
    pytest.importorskip("torch")
    from ragen_agents.policies import Sampling
    from ragen_agents.policies.language_models import TransformersPolicy
    from ragen_agents.rollout import EpisodeSpec, play_batch

    policy = TransformersPolicy(STARTER, Sampling(0, 200), dtype="float32")
    first = {}
    for begins in (False, True):
        settings = {"think_prefix": begins, "max_turns": 2}
        specs = [EpisodeSpec("Sokoban", "ragen/SokobanText-v0", i, env_kwargs=settings) for i in range(4)]
        first[begins] = [episode.turns[0] for episode in play_batch(specs, policy, 0)]
    for plain, continued in zip(first[False], first[True], strict=True):
        assert plain.reply == f"<think>{continued.reply}"
        assert continued.prompt_tokens == plain.prompt_tokens + 1
        assert continued.reply_tokens == plain.reply_tokens - 1
        assert (continued.actions, continued.defects) == (plain.actions, plain.defects)


def test_what_was_played_before_changes_no_reply():
    pytest.importorskip("torch")
    from ragen_agents.policies import Sampling
    from ragen_agents.policies.language_models import TransformersPolicy
    from ragen_agents.rollout import EpisodeSpec, play_batch

    def texts(policy, levels):
        settings = {"max_turns": 2}
        specs = [EpisodeSpec("Sokoban", "ragen/SokobanText-v0", i, env_kwargs=settings) for i in levels]
        return [[turn.reply for turn in e.turns] for e in play_batch(specs, policy, 0)]

    # Half precision, where a sum in another order is often another reply.
    first, second = (TransformersPolicy(STARTER, Sampling(0.5, 100), dtype="bfloat16") for _ in range(2))
    texts(first, range(4))
    assert texts(first, range(4, 12)) == texts(second, range(4, 12))


def test_shipped_folder_is_small_and_tells_its_recipe():
    size = sum(path.stat().st_size for path in STARTER.iterdir())
    assert size < 15e6
    recipe = json.loads((STARTER / "recipe.json").read_text())["recipe"]
    assert recipe == json.loads(json.dumps(asdict(Recipe())))


def test_a_build_averages_its_last_passes(tmp_path, caplog, monkeypatch):
    import torch

    second = Stage(16, 1e-3, Mixture(0.5, 0.5, 0.5), batch_size=4, averaged=2)
    recipe = Recipe(0, (Stage(32, 1e-3, batch_size=8), second), hidden_size=32, layers=1, heads=1, kv_heads=1)
    trained = []

    def note(model, *args):
        train(model, *args)
        trained.append(build.as_llama(model).state_dict())

    train = build.train
    monkeypatch.setattr(build, "train", note)
    processes = context()
    monkeypatch.setattr(build.multiprocessing, "get_context", lambda _: processes)
    caplog.set_level("INFO", "ragen.starter")
    build.build(tmp_path / "built", recipe)
    assert any(line.startswith("stage 2 of 2: training on ") for line in caplog.messages)
    assert [path.name for path in tmp_path.iterdir()] == ["built"]
    built = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "built").state_dict()
    for name, weights in built.items():
        assert torch.equal(weights, torch.stack([state[name] for state in trained]).mean(0))
    assert not torch.equal(trained[0]["model.norm.weight"], trained[1]["model.norm.weight"])
