"""The supervised baseline."""

import json
import resource

import gymnasium as gym
import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.evaluation.comparison import Side  # noqa: E402
from ragen_bench.evaluation.run_table import Run  # noqa: E402
from ragen_bench.runs.records import replay_spec  # noqa: E402
from ragen_bench.training.own_episodes import choose_episodes, written_conversations  # noqa: E402

from ragen_agents import sft  # noqa: E402
from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.episode_runner import make_env  # noqa: E402
from ragen_agents.rollout.trajectory import CONTEXT  # noqa: E402
from ragen_agents.run_files.files import exclusive_lock  # noqa: E402
from ragen_agents.sft import SftConfig, demonstrations, train  # noqa: E402
from ragen_agents.sft_trainer import (  # noqa: E402
    IGNORED,
    ImitationTrainer,
    common_beginning,
    labelled,
    labelled_all,
    padded,
)
from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.setup import make_accelerator  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402
from ragen_envs.registration import register_text, text_ids  # noqa: E402


@pytest.fixture(scope="module")
def codec():
    return ChatCodec(transformers.AutoTokenizer.from_pretrained(STARTER))


def test_a_game_that_is_registered_with_another_split_is_refused(codec):
    register_text("mine/TestLakeText-v0", "ragen/FrozenLake-v0", split="test")
    try:
        with pytest.raises(RagenError, match="the game is of the split 'test', but training always"):
            demonstrations(SftConfig(game="mine/TestLakeText-v0", demonstrations=1), codec)
    finally:
        del gym.registry["mine/TestLakeText-v0"]


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


def test_noise_replaces_actions_and_what_is_kept_still_solves_the_game(codec):
    game, kwargs = "ragen/WebShopText-v0", {"think": False}
    calm, noisy = (
        demonstrations(SftConfig(game=game, env_kwargs=kwargs, demonstrations=6, noise=noise), codec)
        for noise in (0.0, 0.4)
    )
    assert all(trajectory.success for trajectory in noisy)
    assert sum(len(t.messages) for t in noisy) > sum(len(t.messages) for t in calm)


def test_random_play_can_be_imitated_to_learn_the_format_alone(codec):
    game, kwargs = "ragen/BanditText-v0", {"think": False}
    both = SftConfig(game=game, env_kwargs=kwargs, demonstrations=60, noise=1.0, solved_only=False)
    assert 15 < sum(bool(t.success) for t in demonstrations(both, codec)) < 45
    solved = SftConfig(game=game, env_kwargs=kwargs, demonstrations=20, noise=1.0)
    assert all(t.success for t in demonstrations(solved, codec))


def test_noise_replaces_a_turn_with_as_many_actions(codec):
    calm, noisy = (
        demonstrations(
            SftConfig(game="ragen/SokobanText-v0", demonstrations=8, noise=noise, solved_only=False),
            codec,
        )
        for noise in (0.0, 1.0)
    )
    counts = [[each.messages[2]["content"].count("||") for each in part] for part in (calm, noisy)]
    assert counts[0] == counts[1]
    assert max(counts[0]) > 0


def test_noise_that_solves_too_little_is_named(codec):
    config = SftConfig(game="ragen/CubeText-v0", demonstrations=1, noise=1.0)
    with pytest.raises(RagenError, match=r"noise is 1\.0: lower it, or set solved_only=false"):
        demonstrations(config, codec)


def test_each_variant_has_an_equal_share(codec):
    variants = [{"max_turns": 6}, {"max_turns": 7}]
    config = SftConfig(game="ragen/WebShopText-v0", variants=variants, demonstrations=4)
    told = [trajectory.messages[0]["content"] for trajectory in demonstrations(config, codec)]
    assert [f"at most {n} turns" in text for n, text in zip((6, 6, 7, 7), told, strict=True)] == [True] * 4


def test_one_conversation_is_learned_too(codec):
    config = SftConfig(game="ragen/SokobanText-v0", demonstrations=1)
    rows = [row for trajectory in demonstrations(config, codec) for row in trajectory.rows]
    (labels,) = [each["labels"] for each in labelled_all(rows)]
    assert labels[rows[0].prompt :] == rows[0].ids[rows[0].prompt :]


def test_messages_are_learned_but_for_their_common_beginning(codec):
    config = SftConfig(game="ragen/SokobanText-v0", demonstrations=3)
    rows = [row for trajectory in demonstrations(config, codec) for row in trajectory.rows]
    for row, each in zip(rows, labelled_all(rows), strict=True):
        learned = [token for token in each["labels"] if token != IGNORED]
        assert row.ids[-len(learned) :] == learned
        text = codec.tokenizer.decode(learned)
        assert "Reply in this format" not in text
        assert codec.tokenizer.decode(row.ids[row.prompt :]) in text
        assert len(learned) > len(row.ids) - row.prompt


@pytest.mark.parametrize(("rank", "precision"), [(0, "float32"), (4, "float32"), (0, "bfloat16")])
def test_a_model_is_trained_and_written(rank, precision, tmp_path, capsys):
    out = tmp_path / "model"
    settings = [
        "demonstrations=8",
        "epochs=2",
        "batch_size=4",
        "micro_batch=2",
        f"lora_rank={rank}",
        f"precision={precision}",
    ]
    settings += ["env_kwargs.actions_per_turn=2"]
    assert main(["sft", "frozenlake-deterministic", *settings, "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == str(out)
    score = f"ragen bench --agent {out} --game FrozenLakeDeterministic --setting actions_per_turn=2"
    assert told.err.splitlines()[-1] == f"score: {score}"
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
    config = SftConfig(game="ragen/SokobanText-v0", demonstrations=2, env_kwargs={"think_prefix": True})
    for trajectory in demonstrations(config, codec):
        chat = codec.tokenizer.apply_chat_template(trajectory.messages, return_dict=False)
        assert trajectory.ids == chat[: len(trajectory.ids)]
        first = trajectory.turn_ids.index(0)
        assert codec.tokenizer.decode(trajectory.ids[first - 1 : first + 1]).startswith("<think>")


GAMES = ["ragen/BanditText-v0", "ragen/FrozenLakeDeterministicText-v0"]


@pytest.fixture(scope="module")
def rows(codec):
    """Rows that share a beginning, of several lengths."""
    shown = [demonstrations(SftConfig(game=game, demonstrations=3), codec) for game in GAMES]
    return [labelled(row) for each in shown for one in each for row in one.rows]


def trainer(model, tmp_path, data, **settings):
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), remove_unused_columns=False, report_to="none",
        save_strategy="no", use_cpu=True, disable_tqdm=True, **settings,
    )  # fmt: skip
    return ImitationTrainer(model=model, args=arguments, train_dataset=data, data_collator=padded)


def test_the_loss_and_its_gradient_are_those_of_a_whole_pass(tiny, rows, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny)
    batch = padded(rows)
    assert 1 < common_beginning(batch["input_ids"], batch["labels"]) < batch["input_ids"].shape[1]
    trainer(model, tmp_path, rows).compute_loss(model, batch).backward()
    ours = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"].long()).logits[:, :-1]
    targets = batch["labels"][:, 1:]
    torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORED
    ).backward()
    for one, other in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("bf16", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_passes_compute_in_the_precision_that_is_asked_for(bf16, dtype, tiny, rows, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny)
    computed = []
    layer = model.model.layers[0].mlp.down_proj
    layer.register_forward_hook(lambda module, inputs, output: computed.append(output.dtype))
    trainer(model, tmp_path, rows, bf16=bf16).compute_loss(model, padded(rows)).backward()
    assert computed
    assert set(computed) == {dtype}
    assert model.model.norm.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_without_instructions_for_it_is_warned_of(fast, tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("ragen_agents.engines.device.has_bfloat16", lambda: fast)
    config = SftConfig(
        game="ragen/BanditText-v0", model=str(tiny), demonstrations=2, batch_size=2, epochs=1,
        lora_rank=0, precision="bfloat16",
    )  # fmt: skip
    train(config, tmp_path / "model")
    make_accelerator(TrainConfig(game="ragen/BanditText-v0", update={"precision": "bfloat16"}))
    told = [r.getMessage() for r in caplog.records if r.name == "ragen.engines"]
    slow = [message.split(" is bfloat16, ")[0] for message in told]
    assert slow == ([] if fast else ["precision", "update.precision"])


def test_more_gpus_than_one_change_nothing(monkeypatch, tiny, tmp_path):
    """The trainer multiplies the batch by the number of GPUs, but passes run on the first alone."""
    real = transformers.TrainingArguments.__post_init__

    def seeing_four(arguments):
        real(arguments)
        arguments._n_gpu = 4

    monkeypatch.setattr(transformers.TrainingArguments, "__post_init__", seeing_four)
    seen = []
    monkeypatch.setattr(ImitationTrainer, "train", lambda self: seen.append(self.args))
    config = SftConfig(
        game="ragen/BanditText-v0", model=str(tiny), demonstrations=4, batch_size=4, micro_batch=2,
        lora_rank=0,
    )  # fmt: skip
    train(config, tmp_path / "model")
    assert [(args.train_batch_size, args.gradient_accumulation_steps) for args in seen] == [(2, 2)]


def test_a_count_of_tokens_on_several_devices_is_no_truth_value(tiny, rows, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny)
    one = trainer(model, tmp_path, rows)
    batch = padded(rows)
    count = int((batch["labels"][:, 1:] != IGNORED).sum())
    whole = one.compute_loss(model, batch)
    counted = one.compute_loss(model, batch, num_items_in_batch=torch.full((4, 1), count))
    torch.testing.assert_close(counted, whole.expand(4, 1))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_step_is_the_same_in_passes_of_any_size(size, tiny, rows, tmp_path):
    weights = []
    for micro in (6, size):
        model = transformers.AutoModelForCausalLM.from_pretrained(tiny)
        trainer(
            model, tmp_path, rows, per_device_train_batch_size=micro,
            gradient_accumulation_steps=6 // micro, num_train_epochs=1, learning_rate=1e-2,
            optim="sgd",
        ).train()  # fmt: skip
        weights.append(list(model.parameters()))
    start = transformers.AutoModelForCausalLM.from_pretrained(tiny).parameters()
    assert any(not one.equal(other) for one, other in zip(weights[0], start, strict=True))
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_equal_conversations_have_a_common_beginning_that_ends_before_the_reply(rows):
    batch = padded([rows[0], rows[0]])
    length = common_beginning(batch["input_ids"], batch["labels"])
    assert rows[0]["labels"][length] != IGNORED
    assert rows[0]["labels"][length - 1] == IGNORED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bandit", "batch_size=100"], "batch_size is 100, but must be a multiple of micro_batch"),
        (["nope"], "unknown game 'nope'"),
        (["sokoban", "--best-of"], "--best-of is for the episodes of a run"),
        (
            ["sokoban", "variants=[{size: 6}, {observation: image}]"],
            "variants.1.observation is image, but training takes text",
        ),
        (["sokoban", "env_kwargs.split=test"], "env_kwargs.split is 'test', but training always"),
        (["bandit", f"seed={1 << 32}"], f"seed: Input should be less than {1 << 32}"),
    ],
)
def test_wrong_settings_are_refused(arguments, words, tmp_path, capsys):
    assert main(["sft", *arguments, "--out", str(tmp_path / "m")]) == 2
    assert words in capsys.readouterr().err


def test_conversations_beyond_the_models_context_are_refused(tmp_path, capsys):
    settings = ["demonstrations=1", "env_kwargs.demonstrations=16"]
    assert main(["sft", "sokoban", *settings, "--out", str(tmp_path / "m")]) == 2
    said = capsys.readouterr().err
    assert "the model reads 2048 tokens, but the longest conversation has " in said
    assert "env_kwargs.demonstrations" in said
    assert not (tmp_path / "m").exists()


QUICK = ["demonstrations=2", "epochs=1", "batch_size=2", "micro_batch=2", "lora_rank=0"]


def not_reached(*arguments):
    raise AssertionError("a model was loaded")


def test_a_folder_that_cannot_be_written_is_refused_before_the_model_is_loaded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ragen_agents.starpo.update.models.load_model", not_reached)
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "model"
    assert main(["sft", "bandit", *QUICK, "--out", str(out)]) == 2
    assert f"'{out}' cannot be written: Not a directory" in capsys.readouterr().err


def test_a_folder_that_another_command_writes_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ragen_agents.starpo.update.models.load_model", not_reached)
    work = tmp_path / ".model.writing"
    work.mkdir()
    with exclusive_lock(work / ".lock"):
        assert main(["sft", "bandit", *QUICK, "--out", str(tmp_path / "model")]) == 2
        assert f"'{tmp_path / 'model'}' is in use by another command" in capsys.readouterr().err
        assert work.exists()


def test_torchrun_is_refused(tmp_path, monkeypatch, capsys):
    """All processes but one said that another command uses the folder."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["sft", "bandit", "--out", str(tmp_path / "model")]) == 2
    assert "start it without torchrun" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_line_and_leaves_nothing(tiny, tmp_path, capsys):
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
    try:
        code = main(["sft", "bandit", f"model={tiny}", *QUICK, "--out", str(tmp_path / "model")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert code == 2
    assert "error: '" in (said := capsys.readouterr().err.splitlines()[-1])
    assert "model' cannot be written: " in said
    assert not list(tmp_path.iterdir())


def test_a_run_that_diverges_writes_no_model(tiny, tmp_path, capsys):
    settings = [*QUICK, f"model={tiny}", "epochs=3", "learning_rate=1e30"]
    assert main(["sft", "bandit", *settings, "--out", str(tmp_path / "model")]) == 2
    assert "training diverged" in (said := capsys.readouterr().err.splitlines()[-1])
    assert "learning_rate is 1e+30" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("shapes differ")]
)
def test_memory_that_runs_out_is_one_line(error, tiny, tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(ImitationTrainer, "compute_loss", fails)
    arguments = ["sft", "bandit", *QUICK, f"model={tiny}", "--out", str(tmp_path / "model")]
    if not isinstance(error, torch.OutOfMemoryError):
        with pytest.raises(RuntimeError, match="shapes differ"):
            main(arguments)
    else:
        assert main(arguments) == 2
        told = capsys.readouterr().err.splitlines()[-1]
        assert "error: out of memory in training; micro_batch is " in told
    assert not list(tmp_path.iterdir())


def test_ctrl_c_says_that_nothing_was_saved(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ragen_agents.starpo.update.models.load_model", interrupt)
    assert main(["sft", "bandit", "--out", str(tmp_path / "model")]) == 130
    assert capsys.readouterr().err == "\ninterrupted; nothing was saved\n"
    assert not list(tmp_path.iterdir())


# --- episodes of a run ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Two attempts of random play and of the oracle, without thoughts, on training levels of two games."""
    out = tmp_path_factory.mktemp("played") / "run"
    agents = ["--agent", "random", "--agent", "oracle"]
    games = ["--game", "Bandit", "--game", "FrozenLake"]
    sizes = ["--split", "train", "--episodes", "8", "--attempts", "2", "--setting", "think=false"]
    assert main(["bench", *agents, *games, *sizes, "--out", str(out)]) == 0
    return out


def records(run, agent, task):
    lines = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    return [line for line in lines if (line["agent"], line["task"]) == (agent, task)]


def chat(episode):
    """Write down by hand what a model would imitate."""
    messages = [{"role": "system", "content": episode["system"]}]
    for turn in episode["turns"]:
        messages += [
            {"role": "user", "content": turn["user"]},
            {"role": "assistant", "content": turn["reply"]},
        ]
    return messages


def test_episodes_of_a_run_are_imitated_as_they_were_recorded(played, tiny, tmp_path, capsys):
    out = tmp_path / "imitated"
    command = ["sft", "frozenlake", "--from", f"{played}:random", f"model={tiny}", "epochs=1"]
    assert main([*command, "--out", str(out)]) == 0
    solved = [each for each in records(played, "random", "FrozenLake") if each["success"]]
    assert 0 < len(solved) < 16
    shown = [json.loads(line) for line in (out / "demonstrations.jsonl").read_text().splitlines()]
    assert [each["messages"] for each in shown] == [chat(episode) for episode in solved]
    config = json.loads((out / "sft.json").read_text())
    assert (config["source"], config["demonstrations"]) == (f"{played}:random", len(solved))


def test_written_conversations_are_those_of_imitation_by_hand(played, codec):
    """As tokens, where the oracle is imitated on the same levels."""
    _, episodes = choose_episodes(f"{played}:oracle", "ragen/FrozenLakeText-v0", True, False)
    for episode, row in zip(episodes, written_conversations(episodes, codec), strict=True):
        env = make_env(replay_spec(episode))
        by_hand = sft._play(env, codec, 0, 0.0, np.random.default_rng(0))
        assert (row.ids, row.turn_ids) == (by_hand.ids, by_hand.turn_ids)


def test_an_agent_that_has_not_played_is_named(tmp_path, monkeypatch):
    nothing = Side(Run(tmp_path, None, {}, torn=False), "noop")
    monkeypatch.setattr("ragen_bench.training.own_episodes.read_side", lambda _: nothing)
    with pytest.raises(RagenError, match=r"^'run:noop' has no episode of this agent$"):
        choose_episodes("run:noop", None, True, False)


@pytest.mark.parametrize(("solved_only", "best_of"), [(True, True), (False, True), (False, False)])
def test_the_best_attempt_at_a_level_is_chosen(solved_only, best_of, played):
    game = "ragen/FrozenLakeText-v0"
    _, episodes = choose_episodes(f"{played}:random", game, solved_only, best_of)
    recorded = [e for e in records(played, "random", "FrozenLake") if e["success"] or not solved_only]
    best = {}
    for each in recorded:
        index = each["instance"]["index"]
        best[index] = max(best.get(index, -9), each["episode_return"])
    if best_of:
        assert {e.instance.index: e.episode_return for e in episodes} == best
        assert len(episodes) == len(best)
    else:
        assert len(episodes) == len(recorded) == 16


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--from", "{run}:oracle"], "has the games Bandit, FrozenLake; name one"),
        (["sokoban", "--from", "{run}:oracle"], "has no episode of ragen/SokobanText-v0"),
        (["bandit", "noise=0.1", "--from", "{run}:oracle"], "noise has no effect with --from"),
        (["noise=0.1", "--from", "{run}:oracle"], "noise has no effect with --from"),
        (["bandit", "--from", "{test}"], "holds test levels, on which a model must not be trained"),
        (["bandit", "--from", "{run}:oracle", "--recipe", "smollm2-bandit"], "leave one out"),
    ],
)
def test_runs_that_cannot_be_imitated_are_refused(change, words, played, tmp_path, capsys):
    test = tmp_path / "test"
    if "{test}" in change:
        main(["bench", "--agent", "oracle", "--game", "Bandit", "--episodes", "2", "--out", str(test)])
    arguments = [word.format(run=played, test=test) for word in change]
    assert main(["sft", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
