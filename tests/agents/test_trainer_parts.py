"""What a user passes to the trainer or registers for it, and what is refused."""

import json
import linecache
import runpy
from functools import partial
from itertools import count

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from scripted_engine import ScriptedEngine  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.starpo import (  # noqa: E402
    FILTERS,
    Callback,
    TrainConfig,
    Trainer,
)
from ragen_agents.starpo.parts.own_parts import own_part  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402
from ragen_envs.game.errors import RagenError  # noqa: E402
from ragen_envs.games.frozen_lake import FrozenLakeEnv  # noqa: E402

pytestmark = pytest.mark.usefixtures("own_registries")


def short(reply, result):
    return {"game": sum(result.rewards), "length": -0.01 * len(reply)}


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


def no_arguments():
    return 0.0


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ("game", "must be a function or a RewardFunction"),
        (no_arguments, "must take two arguments"),
        (lambda reply, result: float("nan"), "must return finite numbers"),
    ],
)
def test_a_wrong_reward_is_refused(reward, words, plain, tmp_path):
    with pytest.raises(RagenError, match=words):
        trainer(tmp_path, plain, reward=reward).run()


def test_the_filter_can_look_at_the_games_part_only_if_there_is_one(plain, tmp_path):
    layer = {**plain, "filter": {"kind": "std"}, "reward": {"in_filter": False}}
    with pytest.raises(RagenError, match="the reward has no part named 'game', only politeness"):
        trainer(tmp_path, layer, reward=lambda reply, result: {"politeness": 1.0}).run()


def test_a_run_is_resumed_with_the_same_parts_only(plain, tmp_path):
    trainer(tmp_path, plain, reward=short).run()
    longer = {**plain, "iterations": 2}
    with pytest.raises(RagenError, match=r"holds a run with reward=.*short, but .*no parts of its"):
        trainer(tmp_path, longer).run()
    trainer(tmp_path, longer, reward=short).run()
    assert len(lines(tmp_path)) == 2


PRICE = 1.0


def priced(reply, result):
    return PRICE * len(reply)


def test_a_value_of_its_module_belongs_to_a_part(monkeypatch):
    before = own_part(priced)
    assert own_part(priced) == before
    monkeypatch.setitem(globals(), "PRICE", 2.0)
    assert own_part(priced).digest != before.digest


EDITED = {
    "reward": """
def reward(reply, result):
    return {} * len(reply)
""",
    "filter": """
from ragen_agents.starpo import GroupFilter, register_filter

def first(batch):
    return [0, {}]

register_filter(GroupFilter("edited", first, "for the test"))
""",
}


def imported(path, source):
    path.write_text(source)
    linecache.checkcache(str(path))
    return runpy.run_path(str(path), run_name="my_parts")


@pytest.mark.parametrize("kind", EDITED)
def test_a_part_that_was_edited_does_not_resume_a_run(kind, plain, tmp_path):
    file, longer = tmp_path / "my_parts.py", {**plain, "iterations": 2}

    def train(layer, version):
        FILTERS._parts.pop("edited", None)
        made = imported(file, EDITED[kind].replace("{}", str(version)))
        named = {"filter": {"kind": "edited"}} if kind == "filter" else {}
        parts = {"reward": made["reward"]} if kind == "reward" else {}
        trainer(tmp_path / "run", layer, named, **parts).run()

    train(plain, 1)
    with pytest.raises(RagenError, match=rf"another version of .*{kind}.*another run directory"):
        train(longer, "1 * 1")
    train(longer, 1)
    assert len(lines(tmp_path / "run")) == 2


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def before(self, env):
        return None

    def parts(self, before, reply, result):
        return {"scaled": self.scale * sum(result.rewards)}


def scaled(scale):
    return lambda reply, result: scale * len(reply)


@pytest.mark.parametrize("make_reward", [Scaled, scaled])
def test_a_part_with_other_values_does_not_resume_a_run(make_reward, plain, tmp_path):
    trainer(tmp_path, plain, reward=make_reward(1.0)).run()
    longer = {**plain, "iterations": 2}
    with pytest.raises(RagenError, match=r"another version of reward=.*the values that it holds"):
        trainer(tmp_path, longer, reward=make_reward(2.0)).run()
    trainer(tmp_path, longer, reward=make_reward(1.0)).run()


def test_a_run_of_an_earlier_version_is_resumed_by_the_names_of_its_parts(plain, tmp_path):
    trainer(tmp_path, plain, reward=Scaled(1.0)).run()
    file = tmp_path / "environment.json"
    described = json.loads(file.read_text())
    described["own_parts"] = {"reward": described["own_parts"]["reward"]["name"]}
    file.write_text(json.dumps(described))
    trainer(tmp_path, {**plain, "iterations": 2}, reward=Scaled(2.0)).run()
    with pytest.raises(RagenError, match="another version of reward"):
        trainer(tmp_path, {**plain, "iterations": 3}, reward=Scaled(1.0)).run()


def test_an_engine_resumes_its_run_with_the_version_that_it_has_now(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    trainer(tmp_path, plain, engine=engine).run()
    trainer(tmp_path, {**plain, "iterations": 2}, engine=engine).run()
    assert len(lines(tmp_path)) == 2


class Judge:
    pass


def judged(judge, reply, result, scale):
    return scale * len(reply)


def test_a_reward_that_holds_an_object_resumes_its_run(plain, tmp_path):
    for iterations in (1, 2):
        layer = {**plain, "iterations": iterations}
        trainer(tmp_path, layer, reward=partial(judged, Judge(), scale=0.5)).run()
    assert len(lines(tmp_path)) == 2
    with pytest.raises(RagenError, match="pass the same"):
        trainer(tmp_path, layer, reward=partial(judged, Judge(), scale=0.25)).run()


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


class Adds(Callback):
    def on_evaluate(self, trainer, iteration, metrics):
        metrics["validation/mine"] = 10.0 + iteration


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


def test_an_engine_cannot_write_what_the_model_does_not_know(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 10**6], frozenset({2}))
    with pytest.raises(RagenError, match=r"the id 1000000, but the model has \d+ tokens"):
        trainer(tmp_path, plain, engine=engine).run()


def test_an_engine_that_returns_nothing_stops_the_run(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    engine.poll = list
    with pytest.raises(RagenError, match="no reply although requests are queued"):
        trainer(tmp_path, plain, engine=engine).run()


def test_an_engine_that_ignores_new_weights_is_refused(plain, tmp_path):
    engine = ScriptedEngine(lambda request: [5, 6, 2], frozenset({2}))
    engine.sync = lambda model, version: None
    with pytest.raises(
        RagenError, match=r"the engine has version=0 after sync\(model, 1\), which must load"
    ):
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
    ("env", "layer", "words"),
    [
        (Shared(), {}, "was made twice"),
        (small_lake(), {}, "must be a function that makes a new env"),
        (lambda size: small_lake(), {}, "must be a function .* takes no arguments"),
        (small_lake_in_words, {"env_kwargs": {"max_turns": 2}}, "settings of its own"),
        (lambda: make("ragen/FrozenLakeText-v0", observation="image"), {}, "observation is image"),
        (lambda: make("ragen/FrozenLakeText-v0", split="test"), {}, "is of the split 'test'"),
        (lambda: FrozenLakeEnv(split="validation"), {}, "is of the split 'validation'"),
        (UnseededLake, {}, "UnseededLake begins differently with the same seed"),
    ],
)
def test_an_env_that_cannot_be_trained_on_is_refused(env, layer, words, plain, tmp_path):
    with pytest.raises(RagenError, match=words):
        trainer(tmp_path, plain, layer, env=env).run()


def test_a_trainer_runs_once(plain, tmp_path):
    one = trainer(tmp_path, plain)
    one.run()
    with pytest.raises(RagenError, match="has run already; make another one to resume"):
        one.run()


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        (Recorder(), "must be a list of callbacks"),
        ([type("Misspelt", (Callback,), {"on_iteration_ends": print})()],
         r"Misspelt\.on_iteration_ends is not a hook.* the nearest is on_iteration_end\."),
        ([type("Short", (Callback,), {"on_save": lambda self, trainer: None})()],
         r"Short\.on_save must be a method that takes trainer, folder"),
        ([type("Value", (Callback,), {"on_save": 5})()], r"Value\.on_save must be a method"),
    ],
)  # fmt: skip
def test_callbacks_that_cannot_be_called_are_refused(callbacks, words, plain, tmp_path):
    with pytest.raises(RagenError, match=words):
        Trainer(TrainConfig(**plain), tmp_path, callbacks=callbacks)


class EarlierEngine(ScriptedEngine):
    def __init__(self):
        super().__init__(lambda request: [5], frozenset())

    def sync(self, model):
        pass


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (object(), "lacks submit, poll, sync"),
        (ScriptedEngine, "is a class"),
        (EarlierEngine(), "has a method sync of other arguments"),
    ],
)
def test_an_engine_without_the_five_methods_is_refused(engine, words, plain, tmp_path):
    with pytest.raises(RagenError, match=rf"engine is .*{words}.*the methods of .*Engine"):
        trainer(tmp_path, plain, engine=engine)


def test_callbacks_are_checked_and_can_add_metrics(plain, tmp_path):
    with pytest.raises(RagenError, match="must hold instances of ragen_agents"):
        trainer(tmp_path, plain, callbacks=[print])

    class Own(Callback):
        def on_iteration_end(self, trainer, iteration, metrics):
            metrics["own"] = self.value

    own = Own()
    own.value = 7
    trainer(tmp_path / "a", plain, callbacks=[own]).run()
    assert lines(tmp_path / "a")[0]["own"] == 7


class Meddler(Callback):
    def __init__(self, change):
        self.change = change

    def on_iteration_end(self, trainer, iteration, metrics):
        self.change(metrics)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda metrics: metrics.update(own=torch.ones(1)), "added the metric 'own' of the type Tensor"),
        (lambda metrics: metrics.update(own="high"), "added the metric 'own' of the type str"),
        (lambda metrics: metrics.update({5: 1.0}), "added a metric with the name 5"),
        (lambda metrics: metrics.update(iteration=9), "added a metric with the name 'iteration'"),
        (lambda metrics: metrics.update({"validation/success": 0.9}),
         "added the metric 'validation/success', which is of the trainer's own"),
        (lambda metrics: metrics.update(success="high"), "changed the metric 'success'"),
        (lambda metrics: metrics.update(success=2.0), "changed the metric 'success'"),
        (lambda metrics: metrics.pop("success"), "removed the metric 'success'"),
    ],
)  # fmt: skip
def test_a_hook_only_adds_numbers(change, words, plain, tmp_path):
    with pytest.raises(RagenError, match=rf"Meddler\.on_iteration_end {words}"):
        trainer(tmp_path, plain, callbacks=[Meddler(change)]).run()


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
