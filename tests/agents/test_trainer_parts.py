"""What a user passes to the trainer or registers for it, and what is refused."""

import json
from dataclasses import replace
from functools import partial
from itertools import count

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from scripted_engine import ScriptedEngine  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.starpo import (  # noqa: E402
    Callback,
    GroupFilter,
    Trainer,
    register_filter,
)
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402
from ragen_envs.games.frozen_lake import FrozenLakeEnv  # noqa: E402

pytestmark = pytest.mark.usefixtures("own_registries")


def short(reply, result):
    return {"game": sum(result.rewards), "length": -0.01 * len(reply)}


def first_group(batch):
    return [0]


def test_a_reward_function_takes_the_place_of_the_configured_reward(plain, tmp_path):
    reports, seen = [], []

    def watched(reply, result):
        seen.append(len(reply))
        return short(reply, result)

    trainer(tmp_path, plain, reports=reports, reward=watched).run()
    metrics = reports[-1][1]
    assert metrics["reward/length"] == pytest.approx(-0.01 * sum(seen) / 8)
    assert "reward/penalty" not in metrics
    assert metrics["return"] == pytest.approx(metrics["reward/game"] + metrics["reward/length"])


def test_a_reward_that_is_a_number_bears_the_name_of_its_function(plain, tmp_path):
    reports = []

    def politeness(reply, result):
        return 0.25

    trainer(tmp_path, plain, reports=reports, reward=politeness).run()
    assert reports[-1][1]["reward/politeness"] == 0.25 * reports[-1][1]["turns"]


def test_a_reward_without_parts_is_nothing(plain, tmp_path):
    trainer(tmp_path, plain, reward=lambda reply, result: {}, preset="starpo-grpo").run()
    assert lines(tmp_path)[0]["return"] == 0


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (lambda reply, result: float("nan"), "must return finite numbers"),
        (lambda reply, result: None, "the reward returned None for '<lambda>', but must return finite"),
    ],
)
def test_a_wrong_reward_is_refused(reward, words, plain, tmp_path):
    with pytest.raises(RagenError, match=words):
        trainer(tmp_path, plain, reward=reward).run()


def test_the_filter_can_look_at_the_games_part_only_if_there_is_one(plain, tmp_path):
    layer = {**plain, "filter": {"kind": "std"}, "reward": {"in_filter": False}}
    with pytest.raises(RagenError, match="the reward has no part named 'game', only politeness"):
        trainer(tmp_path, layer, reward=lambda reply, result: {"politeness": 1.0}).run()


def test_a_run_records_the_names_of_the_parts_that_were_passed(plain, tmp_path):
    register_filter(GroupFilter("mine", first_group, "for the test"))
    layer = {**plain, "filter": {"kind": "mine"}}
    one = trainer(tmp_path, layer, reward=partial(short))
    one.run()
    described = json.loads((tmp_path / "environment.json").read_text())
    assert described["own_parts"] == {
        "reward": f"{__name__}:short",
        "filter.kind": f"{__name__}:first_group",
    }
    other = Trainer(one.config, reward=lambda reply, result: 0.0)
    assert other.run_dir != Trainer(one.config).run_dir


def test_a_run_goes_on_with_its_own_reward_only(plain, tmp_path):
    trainer(tmp_path / "mine", plain, reward=short).run()
    longer = {**plain, "iterations": 2}
    with pytest.raises(RagenError, match=r"trained with .*:short, but continues with no reward of your own"):
        trainer(tmp_path / "mine", longer).run()
    trainer(tmp_path / "mine", longer, reward=short).run()
    trainer(tmp_path / "plain", plain).run()
    with pytest.raises(RagenError, match=r"trained with no reward of your own, but continues with .*:short"):
        trainer(tmp_path / "plain", longer, reward=short).run()


def test_an_engine_resumes_its_run_with_the_version_that_it_has_now(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    trainer(tmp_path, plain, engine=engine).run()
    trainer(tmp_path, {**plain, "iterations": 2}, engine=engine).run()
    assert len(lines(tmp_path)) == 2


def test_entropy_and_gradient_stay_in_the_metrics_when_nothing_is_kept(plain, tmp_path):
    layer = {**plain, "filter": {"kind": "std"}}
    trainer(tmp_path, layer, reward=lambda reply, result: 0.0).run()
    (line,) = lines(tmp_path)
    assert line["kept_groups"] == 0
    assert line["grad_norm"] == 0
    assert line["entropy"] > 0


@pytest.mark.parametrize("given", [None, 0.0])
def test_unknown_log_probabilities_scale_no_gradient(given, plain, tmp_path, caplog):
    """0 instead of None is the log-probability of a certain token, and nobody says so but a warning."""
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    completed = engine.poll
    engine.poll = lambda: [
        replace(one, logprobs=None if given is None else [given] * len(one.ids)) for one in completed()
    ]
    one = trainer(tmp_path, plain, engine=engine, preset="starpo-grpo")
    prepared = one.learner.prepare(TrainBatch.of(one.collect(0).trajectories, 0))
    assert bool((prepared.inputs.weights == 1).all()) == (given is None)
    assert torch.isfinite(prepared.inputs.rollout_logprobs).all()
    assert ("mismatch_max" in prepared.metrics) == (given is not None)
    one.run()
    assert caplog.text.count("must return None") == (given is not None)


def test_runs_of_one_process_have_precisions_of_their_own(plain, tmp_path):
    for precision in ("float32", "bfloat16", "float32"):
        layer = {**plain, "update": {"precision": precision}}
        trainer(tmp_path / f"{precision}-{len(list(tmp_path.iterdir()))}", layer).run()
    first, half, again = (lines(folder)[0] for folder in sorted(tmp_path.iterdir(), key=_number))
    assert first == again
    assert half["policy_loss"] != first["policy_loss"]


def _number(folder):
    return int(folder.name[-1])


def test_a_share_of_no_episodes_is_collected(plain, tmp_path):
    assert trainer(tmp_path, plain).collector.collect([], 0) == []


def test_a_run_that_is_complete_says_so(plain, tmp_path, caplog):
    trainer(tmp_path, plain).run()
    assert "nothing to train" not in caplog.text
    trainer(tmp_path, plain).run()
    assert "already has 1 iteration; nothing to train" in caplog.text


class Recorder(Callback):
    def __init__(self, stop_at=None):
        self.calls, self.stop_at = [], stop_at

    def on_train_begin(self, trainer):
        self.calls.append("begin")

    def on_rollout_end(self, trainer, iteration, trajectories):
        self.calls.append(("rollout", iteration, len(trajectories)))

    def on_evaluate(self, trainer, iteration, metrics):
        self.calls.append(("evaluate", iteration, "validation/success" in metrics))

    def on_iteration_end(self, trainer, iteration, metrics):
        self.calls.append(("iteration", iteration, "grad_norm" in metrics))
        if iteration == self.stop_at:
            trainer.stop()

    def on_save(self, trainer, folder):
        self.calls.append(("save", folder.name))

    def on_train_end(self, trainer):
        self.calls.append("end")


def test_callbacks_see_the_run_in_its_order(plain, tmp_path):
    recorder = Recorder(stop_at=2)
    layer = {**plain, "iterations": 5, "evaluation": {"every": 2, "episodes": 2}, "save_every": 2}
    trainer(tmp_path, layer, callbacks=[recorder]).run()
    assert recorder.calls == [
        "begin", ("evaluate", 0, True), ("save", "best"),
        ("rollout", 1, 8), ("iteration", 1, True),
        ("rollout", 2, 8), ("evaluate", 2, True), ("iteration", 2, True), ("save", "000002"), "end",
    ]  # fmt: skip


class Interrupts(Callback):
    def on_rollout_end(self, trainer, iteration, trajectories):
        if iteration == 3:
            raise KeyboardInterrupt


def test_an_interrupt_before_the_update_loses_no_finished_iteration(plain, tmp_path):
    layer = {**plain, "iterations": 4, "save_every": 4}
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "cut", layer, callbacks=[Interrupts()]).run()
    assert [folder.name for folder in (tmp_path / "cut/checkpoints").iterdir()] == ["000002"]
    trainer(tmp_path / "cut", layer).run()
    trainer(tmp_path / "whole", layer).run()
    assert lines(tmp_path / "cut")[-1]["grad_norm"] == lines(tmp_path / "whole")[-1]["grad_norm"]


class Adds(Callback):
    def on_evaluate(self, trainer, iteration, metrics):
        metrics["validation/mine"] = np.float32(10.0 + iteration)


def test_numbers_that_a_callback_adds_are_kept_from_the_first_evaluation_on(plain, tmp_path):
    layer = {**plain, "iterations": 2, "evaluation": {"every": 1, "episodes": 2}}
    trainer(tmp_path, layer, callbacks=[Adds()]).run()
    assert [line["validation/mine"] for line in lines(tmp_path)] == [10.0, 11.0, 12.0]


def small_lake():
    return FrozenLakeEnv(size=3, success_rate=1.0)


def small_lake_in_words():
    return make("ragen/FrozenLakeText-v0", size=3, max_turns=1)


def small_lake_of_gymnasium():
    return gym.make("ragen/FrozenLakeText-v0", size=3, max_turns=1)


@pytest.mark.parametrize(
    ("env", "turns"), [(small_lake, 2), (small_lake_in_words, 1), (small_lake_of_gymnasium, 1)]
)
def test_an_env_takes_the_place_of_the_game(env, turns, plain, tmp_path):
    layer = {**plain, "game": "a lake", "env_kwargs": {"max_turns": 2} if turns == 2 else {}}
    one = trainer(tmp_path, layer, env=env)
    one.run()
    env = one._make_env()
    env.reset(seed=0)
    assert env.settings.max_turns == turns
    assert env.unwrapped.board.shape == (3, 3)


def test_an_engine_takes_the_place_of_the_configured_one_and_stays_open(plain, tmp_path):
    closed = []
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    engine.close = lambda: closed.append(True)
    trainer(tmp_path, plain, engine=engine).run()
    assert engine.version == 1
    assert lines(tmp_path)[0]["reply_tokens"] == 3
    assert not closed


def test_an_engine_that_returns_nothing_stops_the_run(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    engine.poll = list
    with pytest.raises(RagenError, match="no reply although requests are queued"):
        trainer(tmp_path, plain, engine=engine).run()


class Shared:
    """Returns the same game at each call."""

    def __init__(self):
        self.env = small_lake()

    def __call__(self):
        return self.env


class UnseededLake(FrozenLakeEnv):
    """Ignores the seed."""

    seeds = count()

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=next(self.seeds), options=options)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Shared(), "was made twice"),
        (lambda: make("ragen/FrozenLakeText-v0", split="test"), "is of the split 'test'"),
        (UnseededLake, "UnseededLake begins differently with the same seed"),
    ],
)
def test_an_env_that_cannot_be_trained_on_is_refused(env, words, plain, tmp_path):
    with pytest.raises(RagenError, match=words):
        trainer(tmp_path, plain, env=env).run()


def test_a_trainer_runs_once(plain, tmp_path):
    one = trainer(tmp_path, plain)
    one.run()
    with pytest.raises(RagenError, match="has run already; make another one to resume"):
        one.run()


def test_a_run_knows_the_weights_that_it_started_from(plain, tmp_path):
    weights = trainer(tmp_path, plain).config.weights
    assert len(weights) == 64
    assert trainer(tmp_path, plain, {"weights": weights}).config.weights == weights


def test_a_config_of_other_weights_is_refused(plain, tmp_path):
    with pytest.raises(RagenError, match=r"weights is 0000.*have the hash .*; restore the model"):
        trainer(tmp_path, plain, {"weights": "0" * 64})


def test_a_directory_that_was_killed_before_its_config_is_used(plain, tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / "config.tmp").write_text("half")
    trainer(tmp_path, plain).run()
    assert len(lines(tmp_path)) == 1
