"""Other libraries' faces play the same games: same seed, same actions, same rewards as ``gym.make``."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor
from transformers import AutoModelForCausalLM, AutoTokenizer

from ragen_agents.adapters.trl import GameRollouts, episode_return
from ragen_agents.starter import STARTER
from ragen_envs.adapters.stable_baselines3 import GameVecEnv
from ragen_envs.adapters.trl import GameTools
from ragen_envs.errors import RagenError

SMALL_LAKE = {"level": ["P_O", "___", "O_G"], "success_rate": 1.0}


def test_stable_baselines3_steps_the_same_games():
    envs = GameVecEnv("ragen/FrozenLake-v0", 4, max_episode_steps=6)
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


def test_ppo_of_stable_baselines3_learns_a_small_lake():
    torch.set_num_threads(1)
    envs = VecMonitor(GameVecEnv("ragen/FrozenLake-v0", 16, max_episode_steps=12, **SMALL_LAKE))
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
        assert text == expected
        assert not terminated
        assert not truncated
    assert tools.get_reward() == total
    while not truncated:
        tools.act("Up || Up")
        *_, truncated, _ = env.step("<answer>Up || Up</answer>")
    before = tools.get_reward()
    assert tools.act("Up") == "The game is over."
    assert tools.get_reward() == before
    assert tools.reset(split="test", index=3) != told


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
        max_completion_length=512, report_to=[], use_cpu=True, bf16=False, save_strategy="no",
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


def test_rollouts_refuse_other_datasets():
    rollouts = GameRollouts("ragen/SokobanText-v0")
    with pytest.raises(RagenError, match=r"must be a row of dataset\(\)"):
        rollouts([[{"role": "user", "content": "2 + 2?"}]], trainer=None)
