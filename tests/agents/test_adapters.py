"""Other libraries' faces play the same games: same seed, same actions, same rewards as ``gym.make``."""

import itertools
import json
import random
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ragen_agents.adapters.trl_rollouts import GameRollouts, episode_return
from ragen_agents.starter import STARTER
from ragen_envs.adapters.trl_tools import GameTools
from ragen_envs.errors import InstanceError, RagenError

SMALL_LAKE = {"level": ["P_O", "___", "O_G"], "success_rate": 1.0}


def vec_env(*arguments, **settings):
    from ragen_envs.adapters.sb3_env import GameVecEnv  # its library takes a second to import

    return GameVecEnv(*arguments, **settings)


def test_stable_baselines3_steps_the_same_games():
    envs = vec_env("ragen/FrozenLake-v0", 4, max_episode_steps=6)
    singles = [gym.make("ragen/FrozenLake-v0", max_episode_steps=6) for _ in range(4)]
    envs.seed(30)
    seen = envs.reset()
    expected = [env.reset(seed=30 + i)[0] for i, env in enumerate(singles)]
    assert np.array_equal(seen, expected)
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(40):
        actions = rng.integers(4, size=4)
        seen, rewards, dones, infos = envs.step(actions)
        for i, env in enumerate(singles):
            observation, reward, terminated, truncated, info = env.step(actions[i])
            assert (rewards[i], dones[i]) == (reward, terminated or truncated)
            if dones[i]:
                ended += 1
                assert np.array_equal(infos[i]["terminal_observation"], observation)
                assert infos[i]["TimeLimit.truncated"] == (truncated and not terminated)
                assert infos[i]["success"] == info["success"]
                observation, _ = env.reset()
            assert np.array_equal(seen[i], observation)
    assert ended > 8


def test_stable_baselines3_gives_each_copy_its_own_level():
    envs = vec_env("ragen/Sokoban-v0", 3)
    envs.set_options([{"split": "test", "index": index} for index in (7, 2, 9)])
    single = gym.make("ragen/Sokoban-v0")
    expected = [single.reset(options={"split": "test", "index": i})[0] for i in (7, 2, 9)]
    assert np.array_equal(envs.reset(), expected)
    envs.set_options([{"split": split} for split in ("test", "test", "train")])
    with pytest.raises(InstanceError, match="the same split"):
        envs.reset()


@pytest.mark.parametrize("env_id", ["ragen/Cube-v0", "ragen/SokobanText-v0"])
def test_stable_baselines3_needs_a_compiled_vector_env(env_id):
    with pytest.raises(RagenError, match=f"env_id is '{env_id}', but must be a game with a comp"):
        vec_env(env_id, 2)


def test_spaces_of_copies_are_those_of_one_game():
    envs = vec_env("ragen/FrozenLake-v0", 3)
    assert envs.get_attr("observation_space", [0, 2]) == [envs.observation_space] * 2
    assert envs.get_attr("action_space") == [envs.action_space] * 3


def test_ppo_of_stable_baselines3_learns_a_small_lake():
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecMonitor

    torch.set_num_threads(1)
    envs = VecMonitor(vec_env("ragen/FrozenLake-v0", 16, max_episode_steps=12, **SMALL_LAKE))
    settings = {"n_steps": 16, "batch_size": 64, "n_epochs": 4, "learning_rate": 2e-3}
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", gamma=0.9, **settings)
    model.learn(4096)
    env = gym.make("ragen/FrozenLake-v0", max_episode_steps=12, **SMALL_LAKE)
    observation, _ = env.reset(seed=0)
    steps, over = 0, False
    while not over:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        steps, over = steps + 1, terminated or truncated
    assert (reward, steps) == (1.0, 4)


def test_tools_refuse_examples_that_reply_in_text():
    with pytest.raises(RagenError, match="demonstrations is 2, but must be 0"):
        GameTools("ragen/SokobanText-v0", demonstrations=2)


def test_tools_refuse_a_history_that_is_sent_anyway():
    with pytest.raises(RagenError, match="history is 'none', but must be 'full'"):
        GameTools("ragen/SokobanText-v0", history="none")


def without_format(text):
    """Return the text after a turn without the form of a reply, which a call of a tool does not have."""
    return re.sub(r"\nReply in this format.*\n.*</answer>", "", text)


def test_tools_play_the_same_game():
    tools = GameTools("ragen/SokobanText-v0", actions_per_turn=2)
    env = gym.make("ragen/SokobanText-v0", think=False, actions_per_turn=2)
    told = tools.reset(seed=8, prompt="a column of the dataset")
    env.reset(seed=8)
    assert told.endswith(env.get_wrapper_attr("user"))
    assert "<answer>" not in told
    total = 0.0
    for actions in ("Up || Right", "Down || Down", "Jump", "Left"):
        text = tools.act(actions)
        expected, reward, terminated, truncated, _ = env.step(f"<answer>{actions}</answer>")
        total += reward
        assert text == without_format(expected)
        assert "<answer>" not in text
        assert not terminated
        assert not truncated
    assert tools.get_reward() == total
    while not terminated:
        tools.act("Up || Up")
        _, _, terminated, _, _ = env.step("<answer>Up || Up</answer>")
    before = tools.get_reward()
    assert tools.act("Up") == "The game is over."
    assert tools.get_reward() == before
    assert tools.reset(split="test", index=3) != told


def test_tools_of_a_group_do_not_share_their_luck():
    """Rows of a dataset may have a seed, or also the number of the random events."""
    tools = GameTools("ragen/BanditText-v0", max_turns=1)
    tools.reset(seed=5)
    gamble = tools._env.names[tools._env.unwrapped.oracle().action]

    def paid(**row):
        tools.reset(seed=5, **row)
        tools.act(gamble)
        return tools.get_reward()

    random.seed(0)
    own = [paid() for _ in range(40)]
    assert len(set(own)) > 1
    random.seed(0)
    assert [paid() for _ in range(40)] == own
    env = gym.make("ragen/BanditText-v0", think=False, max_turns=1)
    for noise in range(12):
        env.reset(seed=5, options={"noise": noise})
        assert paid(noise=noise) == env.step(f"<answer>{gamble}</answer>")[1]


def test_tools_play_what_a_model_passes_in_another_type():
    tools, same = (GameTools("ragen/SokobanText-v0", actions_per_turn=2, max_turns=20) for _ in range(2))
    tools.reset(seed=8)
    same.reset(seed=8)
    assert tools.act(["Up", "Right"]) == same.act("Up || Right")
    assert tools.get_reward() == same.get_reward()
    for actions in (None, [], 3, True, [None], {"actions": "Up"}):
        before = tools.get_reward()
        assert "Your reply was invalid" in tools.act(actions)
        assert tools.get_reward() == pytest.approx(before - 0.1)


@pytest.fixture(scope="module")
def starter():
    return (
        AutoModelForCausalLM.from_pretrained(STARTER, dtype="float32"),
        AutoTokenizer.from_pretrained(STARTER),
    )


def grpo(folder, starter, **given):
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = starter
    args = GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=16, num_generations=8, max_steps=1,
        max_completion_length=1024, report_to=[], use_cpu=True, bf16=False, save_strategy="no",
        logging_steps=1, temperature=1.0, learning_rate=1e-3, seed=0,
    )  # fmt: skip
    return GRPOTrainer(model=model, args=args, processing_class=tokenizer, **given)


@pytest.mark.filterwarnings("ignore")
def test_trl_takes_a_step_on_rollouts(tmp_path, starter, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    rollouts = GameRollouts("ragen/FrozenLakeText-v0", max_tokens=100, max_turns=3)
    kept = []

    def keep(prompts, trainer):
        kept.append((prompts, rollouts(prompts, trainer)))
        return kept[-1][1]

    trainer = grpo(
        tmp_path, starter, reward_funcs=episode_return, rollout_func=keep,
        train_dataset=rollouts.dataset(8),
    )  # fmt: skip
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    result = trainer.train()
    assert np.isfinite(result.training_loss)
    assert any(not torch.equal(value, before[n]) for n, value in trainer.model.named_parameters())
    (prompts, output), *_ = kept
    assert len(prompts) == 16
    assert len({tuple(ids) for ids in output["prompt_ids"]}) == 2
    assert any(0 in mask for mask in output["env_mask"])  # some took several turns
    assert_rollouts_are_the_games(starter[1], prompts, output)
    logged = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert logged[0] == pytest.approx(np.mean(output["episode_returns"]), abs=1e-4)


def assert_rollouts_are_the_games(tokenizer, prompts, output):
    """Read the replies out of the tokens that are trained, and play them again."""
    for row, prompt in enumerate(prompts):
        seed = int(prompt[-1]["content"].split()[-1])
        member = [p[-1]["content"] for p in prompts[:row]].count(prompt[-1]["content"])
        env = gym.make("ragen/FrozenLakeText-v0", max_turns=3)
        env.reset(seed=seed, options={"noise": member})
        first = tokenizer.apply_chat_template(
            env.get_wrapper_attr("messages"), add_generation_prompt=True, return_dict=False
        )
        assert output["prompt_ids"][row] == first
        ids, mask = output["completion_ids"][row], output["env_mask"][row]
        assert len(ids) == len(mask) == len(output["logprobs"][row])
        total, reply = 0.0, []
        for token, own in zip([*ids, 0], [*mask, 0], strict=True):
            if own:
                reply.append(token)
            elif reply:
                text = tokenizer.decode(reply, skip_special_tokens=True)
                _, reward, *_ = env.step(text)
                total, reply = total + reward, []
        assert total == pytest.approx(output["episode_returns"][row])


class Caller:
    """Stands in for a model's ``generate``: writes calls of the tool, as one that knows tools does."""

    def __init__(self, tokenizer):
        self.tokenizer, self.rng, self.read = tokenizer, np.random.default_rng(0), []

    def __call__(self, input_ids, **_):
        self.read += self.tokenizer.batch_decode(input_ids)
        written = [self.tokenizer.encode(self.call(), add_special_tokens=False) for _ in input_ids]
        longest = max(map(len, written))
        rows = [ids + [self.tokenizer.pad_token_id] * (longest - len(ids)) for ids in written]
        return torch.cat([input_ids, torch.tensor(rows)], dim=1)

    def call(self):
        if self.rng.random() < 0.2:
            return "I stop here.<|im_end|>"
        actions = " || ".join(self.rng.choice(["Up", "Down", "Left", "Right", "Jump"], 2))
        call = json.dumps({"name": "act", "arguments": {"actions": actions}})
        return f"<tool_call>\n{call}\n</tool_call><|im_end|>"


@pytest.mark.filterwarnings("ignore")
def test_trl_takes_a_step_on_tools(tiny, tmp_path, monkeypatch):
    import trl
    from datasets import Dataset

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    known = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    tokenizer.chat_template = known.read_text("utf-8")  # one that knows tools
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype="float32")
    model.generate = caller = Caller(tokenizer)
    seen = []

    def keep(completions, environments, seed, **_):
        seen.extend(zip(completions, [e.get_reward() for e in environments], seed, strict=True))
        return [0.0] * len(completions)

    rows = [{"prompt": [{"role": "user", "content": "Play."}], "seed": seed} for seed in range(8)]
    trainer = grpo(
        tmp_path, (model, tokenizer), reward_funcs=keep, train_dataset=Dataset.from_list(rows),
        environment_factory=partial(GameTools, "ragen/SokobanText-v0", max_turns=3),
    )  # fmt: skip
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    assert np.isfinite(trainer.train().training_loss)
    assert any(not torch.equal(value, before[n]) for n, value in trainer.model.named_parameters())
    assert all('"name": "act"' in text and "Push every box" in text for text in caller.read)
    assert len(seen) == 16
    for completion, reward, seed in seen:
        assert reward == pytest.approx(played_again(completion, seed))
    assert len({reward for _, reward, _ in seen}) > 2
    logged = [row for row in trainer.state.log_history if "rewards/GameTools/mean" in row]
    mean = np.mean([reward for _, reward, _ in seen])
    assert logged[0]["rewards/GameTools/mean"] == pytest.approx(mean, abs=1e-4)


def played_again(completion, seed):
    """Play the calls of a conversation in the game itself, and compare what the tool has said."""
    env = gym.make("ragen/SokobanText-v0", max_turns=3, think=False)
    env.reset(seed=seed)
    total, over = 0.0, False
    for message, answer in itertools.pairwise(completion):
        for call in message.get("tool_calls") or ():
            text = "The game is over."
            if not over:
                actions = call["function"]["arguments"]["actions"]
                text, reward, terminated, truncated, _ = env.step(f"<answer>{actions}</answer>")
                total, over = total + reward, terminated or truncated
            assert answer["content"] == without_format(text)
    return total


def noise_of(rollouts, starter, step, levels, process=0, training=True):
    """Return the noise numbers that a call's episodes meet, by level."""
    model, tokenizer = starter
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(process_index=process, unwrap_model=lambda model: model),
        model=model.train(training), processing_class=tokenizer,
        state=SimpleNamespace(global_step=step), args=SimpleNamespace(temperature=1.0),
    )  # fmt: skip
    prompts = [rollouts.dataset(1, level)[0]["prompt"] for level in levels]
    rollouts(prompts, trainer)
    found = {level: set() for level in levels}
    for env in rollouts._collector._envs[: len(levels)]:
        found[env.unwrapped.instance.seed].add(env.unwrapped.instance.noise)
    return found


def short_rollouts():
    return GameRollouts("ragen/FrozenLakeText-v0", max_tokens=2, max_turns=1)


def test_a_level_meets_new_chance_in_every_call(starter):
    """Also in an evaluation, in a second batch of the same step, and in other shares of a group."""
    rollouts = short_rollouts()
    calls = [
        noise_of(rollouts, starter, step, [5] * size, training=training)[5]
        for step, size, training in [
            (0, 4, True), (0, 4, True), (0, 4, False), (0, 4, False), (1, 4, True), (2, 4, True),
            (3, 2, True), (4, 2, True), (6, 2, True), (8, 1, True), (9, 3, True), (10**6, 8, True),
        ]
    ]  # fmt: skip
    assert calls[0] == {0, 1, 2, 3}  # the first is the level's own, as in the game itself
    assert len(set.union(*calls)) == sum(map(len, calls)) == 4 * 6 + 2 * 3 + 1 + 3 + 8
    assert max(set.union(*calls)) < 1 << 63


def test_members_of_a_group_differ_in_the_games_chance_on_several_processes(starter):
    """Each process plays its share of the members: here two of four."""
    shares = [
        noise_of(short_rollouts(), starter, step, [0, 0], process)[0]
        for process in (0, 1, 1000)
        for step in (3, 10**6)
    ]
    assert len(set.union(*shares)) == 12
    assert max(set.union(*shares)) < 1 << 63


def test_a_resumed_training_goes_on_with_the_chance_of_its_step(starter):
    whole, resumed = short_rollouts(), short_rollouts()
    before = [noise_of(whole, starter, step, [0, 0, 1, 1]) for step in (0, 1)]
    noise_of(whole, starter, 2, [0, 0], training=False)  # an evaluation
    after = noise_of(whole, starter, 2, [0, 0, 1, 1])
    assert noise_of(resumed, starter, 2, [0, 0, 1, 1]) == after
    assert not any(after[level] & earlier[level] for level in after for earlier in before)


def test_rollouts_refuse_other_datasets():
    rollouts = GameRollouts("ragen/SokobanText-v0")
    with pytest.raises(RagenError, match=r"must be a row of dataset\(\)"):
        rollouts([[{"role": "user", "content": "2 + 2?"}]], trainer=None)


def test_tools_refuse_pictures_that_they_cannot_show():
    with pytest.raises(RagenError, match="observation is 'image', but must be one of"):
        GameTools("ragen/SokobanText-v0", observation="image")


def test_rollouts_refuse_pictures_that_they_cannot_show():
    with pytest.raises(RagenError, match="observation is 'image', but must be one of"):
        GameRollouts("ragen/SokobanText-v0", observation="image")
