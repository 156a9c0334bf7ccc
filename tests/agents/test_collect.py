"""Collecting trajectories: exact token records, groups, ends."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripted_engine import ScriptedEngine  # noqa: E402

from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.collect import Collector, GroupSpec  # noqa: E402
from ragen_agents.rollout.trajectory import CONTEXT  # noqa: E402
from ragen_agents.starpo.config import Reward  # noqa: E402
from ragen_agents.starpo.math.advantages import place_rewards  # noqa: E402
from ragen_agents.starpo.parts.rewards import TurnReward, graded_format, grounded  # noqa: E402
from ragen_agents.starpo.run.metrics import rollout_metrics  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.conversation import make, parse_reply  # noqa: E402
from ragen_envs.errors import InstanceError, RagenError  # noqa: E402


@pytest.fixture(scope="module")
def codec():
    return ChatCodec(transformers.AutoTokenizer.from_pretrained(STARTER))


def collector(codec, write, game="ragen/Sokoban-v0", context=2048, reward=None, **settings):
    def written(request):
        text = write(request)
        ids = codec.tokenizer.encode(text, add_special_tokens=False)
        return ids if text.endswith("…") else [*ids, codec.close]

    return Collector(
        ScriptedEngine(written, codec.stop_token_ids), codec, lambda: make(game, **settings),
        context, 64, 1.0, "test", TurnReward(reward or Reward()),
    )  # fmt: skip


def say(*actions):
    return f"<think>hm</think><answer>{' || '.join(actions)}</answer>"


def by_seed(request):
    return say(*[("Up", "Down", "Left", "Right")[(request.seed >> k) % 4] for k in range(3)])


def test_trajectories_are_the_templates_tokens(codec):
    found = collector(codec, by_seed).collect([GroupSpec(g, 3, {"seed": g}) for g in range(4)], 0)
    assert [(t.group, t.member) for t in found] == [(g, m) for g in range(4) for m in range(3)]
    assert max(len(t.turns) for t in found) > 1
    for trajectory in found:
        assert len(trajectory.ids) == len(trajectory.turn_ids) == len(trajectory.logprobs)
        whole = codec.tokenizer.apply_chat_template(trajectory.messages[:-1], return_dict=False)
        assert trajectory.ids == whole[: len(trajectory.ids)]
        for number, turn in enumerate(trajectory.turns):
            at = [i for i, t in enumerate(trajectory.turn_ids) if t == number]
            assert at == list(range(at[0], at[-1] + 1))
            assert codec.text([trajectory.ids[i] for i in at]) == turn.reply
            assert trajectory.ids[at[-1]] == codec.close


def test_the_beginning_of_a_turn_is_context(codec):
    def continued(request):
        return by_seed(request).removeprefix("<think>")

    specs = [GroupSpec(g, 3, {"seed": g}) for g in range(3)]
    found = collector(codec, continued, think_prefix=True, max_turns=3).collect(specs, 0)
    (think,) = codec.tokenizer.encode("<think>", add_special_tokens=False)
    for trajectory in found:
        whole = codec.tokenizer.apply_chat_template(trajectory.messages[:-1], return_dict=False)
        assert trajectory.ids == whole[: len(trajectory.ids)]
        for number, turn in enumerate(trajectory.turns):
            assert turn.reply.startswith("hm</think>")
            first = trajectory.turn_ids.index(number)
            assert trajectory.ids[first - 1] == think
            assert trajectory.turn_ids[first - 1] == -1
            last = first + trajectory.turn_ids.count(number)
            assert codec.text(trajectory.ids[first:last]) == turn.reply
    metrics = rollout_metrics(found)
    assert metrics["thought_characters"] == 2
    assert metrics["valid"] == 1


def test_rewards_are_all_placed(codec):
    found = collector(codec, by_seed).collect([GroupSpec(g, 4, {"seed": g}) for g in range(4)], 0)
    batch = TrainBatch.of(found, codec.pad)
    placed = place_rewards([[turn.reward for turn in t.turns] for t in found], batch.turn_ids)
    returns = [t.episode_return for t in found]
    assert placed.sum(1).tolist() == pytest.approx(returns, abs=1e-5)
    assert not placed[~batch.mask].any()


def test_a_batch_holds_the_trajectories_and_nothing_else(codec):
    specs = [GroupSpec(0, 2, {"seed": 1}), GroupSpec(1, 2, {"seed": 2})]
    found = collector(codec, by_seed, "ragen/SokobanLarge-v0").collect(specs, 0)
    found += collector(codec, by_seed, "ragen/FrozenLake-v0").collect(specs, 0)
    batch = TrainBatch.of(found, codec.pad)
    for row, trajectory in enumerate(found):
        real, rows = batch.attention_mask[row], batch.rows
        assert torch.equal(rows.attention_mask[row], real)
        assert torch.equal(rows.mask, batch.mask)
        assert rows.ids[row][real].tolist() == trajectory.ids
        assert batch.turn_ids[row][real].tolist() == trajectory.turn_ids
        assert batch.turn_ids[row, rows.start] == 0
        assert (batch.turn_ids[row, : rows.start] == -1).all()


def test_members_share_the_level_and_draw_their_own_noise(codec):
    right = collector(codec, lambda _: say("Right", "Down", "Left", "Up"), "ragen/FrozenLake-v0")
    found = right.collect([GroupSpec(0, 12, {"seed": 5})], 0)
    assert len({t.messages[1]["content"] for t in found}) == 1
    assert len({t.messages[-1]["content"] for t in found}) > 1


def test_seeds_depend_on_iteration_group_member_and_turn(codec):
    seen = []

    def write(request):
        seen.append(request.seed)
        return by_seed(request)

    specs = [GroupSpec(0, 3, {"seed": 1}), GroupSpec(1, 3, {"seed": 2})]
    collector(codec, write).collect(specs, 0)
    first = sorted(seen)
    assert len(set(first)) == len(first)
    seen.clear()
    collector(codec, write).collect(list(reversed(specs)), 0)
    assert sorted(seen) == first
    seen.clear()
    collector(codec, write).collect(specs, 1)
    assert not set(seen) & set(first)


class LockStep(ScriptedEngine):
    """Holds completions back until all are there, and returns them in the order of their keys."""

    def poll(self):
        found = []
        while done := super().poll():
            found += done
        return sorted(found, key=lambda completion: completion.key)


def test_continuous_and_lock_step_engines_give_the_same_trajectories(codec):
    specs = [GroupSpec(g, 4, {"seed": g}) for g in range(3)]
    level = ["#####", "#PXO#", "#####"]
    one = collector(codec, by_seed, level=level)
    continuous = one.collect(specs, 0)
    other = collector(codec, by_seed, level=level)
    other.engine = LockStep(one.engine._write, codec.stop_token_ids)
    assert other.collect(specs, 0) == continuous
    assert len({len(trajectory.turns) for trajectory in continuous}) > 1


def test_ends_are_told_apart(codec):
    def ends(write, **kwargs):
        found = collector(codec, write, **kwargs).collect([GroupSpec(0, 1, {"seed": 3})], 0)
        return found[0]

    level = ["#####", "#PXO#", "#####"]
    solved = ends(lambda _: say("Right"), level=level)
    assert (solved.end, solved.success) == ("terminated", True)
    assert ends(lambda _: say("Up"), level=level).end == "budget"
    assert ends(lambda _: "what?", level=level, invalid="end").end == "invalid"
    context = len(solved.ids) + 64
    overflow = ends(lambda _: say("Up"), level=level, context=context)
    assert overflow.end == "overflow"
    assert len(overflow.turns) >= 1
    assert len(overflow.ids) + 64 > context


def test_a_reply_that_was_cut_off_is_closed_as_context(codec):
    found = collector(codec, lambda _: "<think>and so on…").collect([GroupSpec(0, 1, {"seed": 3})], 0)
    trajectory = found[0]
    assert all(turn.cut_off and not turn.valid for turn in trajectory.turns)
    last = max(i for i, turn in enumerate(trajectory.turn_ids) if turn == 0)
    assert trajectory.ids[last] != codec.close
    assert trajectory.ids[last + 1] == codec.close
    assert trajectory.turn_ids[last + 1] == -1


@pytest.mark.parametrize("method", ["play", "claims"])
def test_a_game_that_breaks_ends_its_episode_only(codec, method):
    made = []

    def make_env():
        env = make("ragen/Sokoban-v0")
        if not made:
            setattr(env, method, lambda *_, **__: 1 / 0)
        made.append(env)
        return env

    working = collector(codec, by_seed)
    working.make_env = make_env
    found = working.collect([GroupSpec(0, 2, {"seed": 1})], 0)
    assert found[0].end == "error"
    assert "ZeroDivisionError" in found[0].error
    assert found[1].end in ("budget", "terminated")


def test_a_game_that_cannot_begin_ends_its_episode_only(codec):
    made = []

    def make_env():
        env = make("ragen/Sokoban-v0")
        if not made:
            env.unwrapped.reset = lambda **_: 1 / 0
        made.append(env)
        return env

    working = collector(codec, by_seed)
    working.make_env = make_env
    broken, whole = working.collect([GroupSpec(0, 2, {"seed": 1})], 0)
    assert (broken.end, broken.turns) == ("error", [])
    assert "ZeroDivisionError" in broken.error
    assert whole.end in ("budget", "terminated")
    metrics = rollout_metrics([broken, whole])
    assert (metrics["end/error"], metrics["reward_std"]) == (0.5, 0)


def test_an_instance_that_does_not_exist_is_the_callers_error(codec):
    with pytest.raises(InstanceError, match="0 to 511"):
        collector(codec, by_seed).collect([GroupSpec(0, 1, {"split": "validation", "index": 600})], 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"key": 7}, "a completion for the key 7, which is not open"),
        ({"logprobs": [0.0]}, "tokens for the key .*, but not as many finite"),
        (
            {"ids": [5, 6], "logprobs": [0.0, float("nan")]},
            "not as many finite .* lower update.learning_rate",
        ),
        ({"ids": [5, 6], "logprobs": None, "entropies": [0.5]}, "2 tokens for the key .*, but 1 entropies"),
    ],
)
def test_what_an_engine_returns_is_checked(wrong, words, codec):
    games = collector(codec, by_seed)
    poll = games.engine.poll
    games.engine.poll = lambda: [replace(completion, **wrong) for completion in poll()]
    with pytest.raises(RagenError, match=f"the engine returned .*{words}"):
        games.collect([GroupSpec(0, 2, {"seed": 1})], 0)


def test_parts_that_are_not_finite_are_refused(codec):
    class Wrong(TurnReward):
        def parts(self, before, reply, result):
            return {"game": float("nan")}

    games = collector(codec, by_seed)
    games.reward = Wrong(Reward())
    with pytest.raises(RagenError, match=r"the reward returned nan for 'game', .*finite numbers"):
        games.collect([GroupSpec(0, 1, {"seed": 1})], 0)


def test_parts_of_the_reward(codec):
    weights = Reward(game=0, penalty=2, format=3, grounded=4)
    text = "<think>Player 1 1. Box 1 3.</think><answer>Up</answer>"
    level = ["#####", "#PXO#", "#####"]
    found = collector(codec, lambda _: text, reward=weights, level=level, max_turns=1).collect(
        [GroupSpec(0, 1, {"seed": 1})], 0
    )
    assert found[0].turns[0].rewards == {"game": 0, "penalty": 0, "format": 3, "grounded": 2}


def test_predictions_are_paid_for_executed_actions(codec):
    thought = "5 Left blocked. 4 Right to 1 2, box to 1 3. 3 Up to 1 1."
    level = ["#######", "#PX__O#", "#######"]
    shares = {"Left || Right || Up": 2 / 3, "Left": 1, "Right || Left": 0, "": 0}
    for answer, share in shares.items():
        text = f"<think>{thought}</think><answer>{answer}</answer>"
        weights = Reward(game=0, penalty=0, prediction=3)
        (played,) = collector(
            codec, lambda _, text=text: text, reward=weights, level=level, max_turns=1
        ).collect([GroupSpec(0, 1, {"seed": 1})], 0)
        assert played.turns[0].rewards["prediction"] == pytest.approx(3 * share)
    metrics = rollout_metrics([played])
    assert metrics["claims/made"] == metrics["claims/move_1"] == metrics["claims/move_2"] == 1
    assert metrics["claims/move_3"] == metrics["claims/plan"] == 0


@pytest.mark.parametrize(
    ("reply", "graded"),
    [
        ("<think>a</think><answer>Up</answer>", 1),
        ("<think>a</think><answer>Up || Fly</answer>", 2 / 3),
        ("<answer>Up</answer>", 1 / 3),
        ("<think>a</think>", 1 / 3),
        ("nothing", 0),
    ],
)
def test_graded_format(reply, graded):
    assert graded_format(parse_reply(reply, ["Up"], 5, True)) == pytest.approx(graded)


@pytest.mark.parametrize(
    ("reply", "graded"), [("<answer>Up</answer>", 2 / 3), ("<think>a</think><answer>Up</answer>", 1 / 3)]
)
def test_a_thought_that_was_not_asked_for_earns_nothing(reply, graded):
    assert graded_format(parse_reply(reply, ["Up"], 5, False)) == pytest.approx(graded)


STATE = "The board has 6 rows and 6 columns.\nplayer: (1, 2)\nbox: (3, 4), (4, 3)\ntarget: (1, 3), (1, 5)"


@pytest.mark.parametrize(
    ("thought", "share"),
    [
        ("Player 1 2. Box 3 4, 4 3. Target 1 3, 1 5.", 1),
        ("The player is lost.", 0),
        ("player: (1, 2) and the boxes: (3, 4), (9, 9)", 2 / 3),
        ("Player 1 2. Plan: Up 0 2. Player 0 2.", 1),
        ("Box 3 4, 3 4, 3 4.", 1 / 3),
        ("", 0),
    ],
)
def test_grounded(thought, share):
    assert grounded(thought, STATE) == pytest.approx(share)


def test_worked_examples_are_context_and_never_trained_on(codec):
    games = collector(codec, by_seed, demonstrations=2)
    (trajectory,) = games.collect([GroupSpec(0, 1, {"seed": 0})], 0)
    shown = [m["content"] for m in trajectory.messages if m["role"] == "assistant"]
    assert len(shown) == 2 + len(trajectory.turns)
    pairs = list(zip(trajectory.ids, trajectory.turn_ids, strict=True))
    sampled, context = (
        codec.tokenizer.decode([i for i, turn in pairs if (turn == CONTEXT) == wanted])
        for wanted in (False, True)
    )
    for example in shown[:2]:
        assert "Solved." in example
        assert example in context
    assert "Solved." not in sampled
    whole = codec.tokenizer.apply_chat_template(trajectory.messages[:-1], return_dict=False)
    assert trajectory.ids == whole[: len(trajectory.ids)]


def test_members_begin_with_the_opening(codec):
    first, plays = say("Up"), collector(codec, by_seed)
    ids = [*codec.tokenizer.encode(first, add_special_tokens=False), codec.close]
    found = plays.collect([GroupSpec(0, 3, {"seed": 1}, (ids,)), GroupSpec(1, 2, {"seed": 2})], 0)
    assert [t.turns[0].reply == first for t in found] == [True, True, True, False, False]
    alone = collector(codec, lambda request: first).collect([GroupSpec(0, 1, {"seed": 1})], 0)[0]
    for trajectory in found[:3]:
        assert len(trajectory.turns) > 1
        assert trajectory.turns[0].reward == alone.turns[0].reward
        whole = codec.tokenizer.apply_chat_template(trajectory.messages[:-1], return_dict=False)
        assert trajectory.ids == whole[: len(trajectory.ids)]


def test_an_opening_may_end_the_episode(codec):
    ids = [*codec.tokenizer.encode(say("Up"), add_special_tokens=False), codec.close]
    (found,) = collector(codec, by_seed, max_turns=1).collect([GroupSpec(0, 1, {"seed": 1}, (ids, ids))], 0)
    assert found.end is not None
    assert found.replies == 1
