"""Prompts of training and of the benchmark, under the chat templates that people use."""

from datetime import date

import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from chat_templates import CHATML, QWEN25, SHAPES, THINKS, stops_of, tokenizer_with  # noqa: E402
from scripted_engine import ScriptedEngine  # noqa: E402

from ragen_agents.chat_template import ChatTemplate  # noqa: E402
from ragen_agents.policies.base import Request, Sampling  # noqa: E402
from ragen_agents.policies.language_models import LanguageModelPolicy  # noqa: E402
from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.collect import Collector, GroupSpec  # noqa: E402
from ragen_agents.starpo.config import Reward  # noqa: E402
from ragen_agents.starpo.parts.rewards import TurnReward  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

OPEN_ENDED = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
WELL_FORMED = "<think>\nI go up.\n</think>\n\n<answer>Up</answer>"
REPLIES = (
    WELL_FORMED,
    "<answer>Down</answer>",
    "<answer>Down</answer>\n",
    "",
    "<think>\n" + "Up and down. " * 40 + "\n</think>\n\n<answer>Up</answer>",
    "<think>so</think><answer>Down</answer>",
    "<think>\nWhat was I ab…",
    WELL_FORMED,
)
SYSTEM = {"role": "system", "content": "Rules."}


@pytest.fixture(params=SHAPES)
def shape(request):
    return SHAPES[request.param]


@pytest.fixture
def codec(shape):
    tokenizer = tokenizer_with(shape.template)
    return ChatCodec(tokenizer, stops_of(tokenizer, shape))


def game(shape, **settings):
    """Return a game that goes on until the replies are used up."""
    return make(
        "ragen/Sokoban-v0", max_turns=len(REPLIES), max_actions=100, actions_per_turn=1,
        think_prefix=shape.think_prefix, **settings,
    )  # fmt: skip


def said(shape):
    return [r.removeprefix("<think>\n") if shape.think_prefix else r for r in REPLIES]


def trained_prompts(codec, shape, **settings):
    """Return the prompts of an episode of training, and its trajectory."""
    prompts = []

    def write(request):
        reply = said(shape)[len(prompts)]
        prompts.append(list(request.ids))
        return codec.written(reply) + ([] if reply.endswith("…") else [codec.close])

    collector = Collector(
        ScriptedEngine(write, codec.stop_token_ids), codec, lambda: game(shape, **settings), 1 << 20, 1000,
        1.0, "test", TurnReward(Reward()),
    )  # fmt: skip
    (trajectory,) = collector.collect([GroupSpec(0, 1, {"seed": 4})], 0)
    return prompts, trajectory


class Recorder(LanguageModelPolicy):
    """Writes given replies, and records its prompts."""

    def __init__(self, folder, codec, replies):
        super().__init__(folder, Sampling(), None, 1)
        self._template = ChatTemplate(self._tokenizer, codec.stop_token_ids)
        self.prompts, self._replies, self._codec = [], list(replies), codec

    def _write(self, prompts, seeds):
        self.prompts += prompts
        reply = self._replies[len(self.prompts) - 1]
        stopped = not reply.endswith("…")
        return [(self._codec.written(reply) + [self._codec.close] * stopped, stopped)]


def benchmark_prompts(codec, shape, folder, **settings):
    """Return the prompts of the same episode when the model is scored."""
    codec.tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").touch()
    policy = Recorder(folder, codec, said(shape))
    env = game(shape, **settings)
    env.reset(seed=4, options={"noise": 0})
    while env.end is None:
        request = Request(env.messages, 0, env, (), env.settings.prefix)
        (reply,) = policy.act([request])
        env.play(reply.text, reply.cut_off)
    return policy.prompts


def test_what_a_template_does_to_earlier_turns_is_found_out(codec, shape):
    assert codec.appends == shape.appends
    assert codec.tokenizer.decode([codec.close]) in shape.ends


@pytest.mark.parametrize("history", ["full", "last", "none"])
def test_training_shows_the_prompts_of_the_benchmark(codec, shape, history, tmp_path):
    shown, trajectory = trained_prompts(codec, shape, history=history)
    assert len(shown) == len(REPLIES)
    assert shown == benchmark_prompts(codec, shape, tmp_path, history=history)
    if shape.appends and history == "full":
        repeats = shape.think_prefix  # one reply begins with its own <think>, which later prompts show once
        assert len(trajectory.rows) == 1 + repeats
    else:
        assert len(trajectory.rows) > 1


def test_training_shows_worked_examples_as_the_benchmark_does(codec, shape, tmp_path):
    shown, _ = trained_prompts(codec, shape, demonstrations=1)
    assert shown == benchmark_prompts(codec, shape, tmp_path, demonstrations=1)


def test_rows_hold_the_prompts_and_the_replies(codec, shape):
    shown, trajectory = trained_prompts(codec, shape)
    turn = 0
    for row in trajectory.rows:
        while turn in row.turn_ids:
            first = row.turn_ids.index(turn)
            assert row.ids[:first] == shown[turn]
            reply = row.ids[first : first + row.turn_ids.count(turn)]
            assert codec.text(reply) == trajectory.turns[turn].reply
            turn += 1
    assert turn == len(REPLIES)


def rendered(tokenizer, chat):
    day = date(2024, 7, 26).strftime
    return tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_dict=False, strftime_now=day
    )


def test_well_formed_replies_are_shown_as_the_template_shows_them(codec, shape):
    chat = [SYSTEM, {"role": "user", "content": "#P_O#"}]
    for user in ("Executed: Up.", "Turn 3\n####"):
        chat += [{"role": "assistant", "content": WELL_FORMED}, {"role": "user", "content": user}]
    same = codec.prompt(chat) == rendered(codec.tokenizer, chat)
    assert same == (shape.verbatim or not shape.appends)


@pytest.mark.parametrize(
    ("template", "opening"), [(CHATML, "<think>"), (QWEN25, "<think>"), (THINKS, "<think>\n")],
    ids=["chatml", "qwen2.5", "thinks"],
)  # fmt: skip
def test_a_turn_that_begins_with_think_begins_so_once(template, opening):
    codec = ChatCodec(tokenizer_with(template))
    chat = [SYSTEM, {"role": "user", "content": "#P_O#"}]
    ids = codec.start(chat, "<think>")
    assert codec.tokenizer.decode(ids).endswith(f"\n{opening}")
    for reply, user in (
        ("a</think><answer>Up</answer>", "Done: Up."),
        ("b</think><answer>Left || Down</answer>", "Turn 3\n####"),
    ):
        ids = [*ids, *codec.written(reply), codec.close, *codec.bridge(user, True, "<think>")]
        chat += [
            {"role": "assistant", "content": f"<think>{reply}"},
            {"role": "user", "content": user},
        ]
    assert ids == codec.prompt(chat, "<think>")
    assert codec.tokenizer.decode(ids).count("<think>") == 3


def test_what_a_user_writes_is_no_beginning_of_a_turn():
    template = ChatTemplate(tokenizer_with(CHATML))
    chat = [{"role": "user", "content": "Write <think>"}]
    assert template.tokenizer.decode(template.prompt(chat, "<think>")).count("<think>") == 2
    assert template.prompt(chat) == rendered(template.tokenizer, chat)


def test_templates_that_begin_with_think_need_the_setting_in_training():
    codec = ChatCodec(tokenizer_with(THINKS))
    chat = [{"role": "user", "content": "a"}]
    with pytest.raises(RagenError, match="set think_prefix to true"):
        codec.start(chat)
    assert codec.prompt(chat) == codec.start(chat, "<think>")


def test_a_reply_that_was_cut_off_is_closed_in_the_bridge():
    codec = ChatCodec(tokenizer_with(QWEN25))
    open_ended = codec.bridge("next", closed=False)
    assert open_ended == [codec.close, *codec.bridge("next", closed=True)]


def test_templates_without_an_end_of_turn_can_be_scored_but_not_trained():
    tokenizer = tokenizer_with(OPEN_ENDED)
    with pytest.raises(RagenError, match="end-of-turn"):
        ChatCodec(tokenizer)
    chat = [{"role": "user", "content": "a"}]
    assert ChatTemplate(tokenizer).prompt(chat) == rendered(tokenizer, chat)


def test_templates_that_tell_the_date_tell_the_same_one_on_every_day():
    codec = ChatCodec(tokenizer_with("Today: {{ strftime_now('%d %b %Y') }}\n" + CHATML))
    assert "Today: 26 Jul 2024\n" in codec.text(codec.start([{"role": "user", "content": "a"}]))


def test_templates_that_refuse_every_conversation_are_refused():
    with pytest.raises(RagenError, match="refuses a conversation of user: no chats"):
        ChatCodec(tokenizer_with("{{ raise_exception('no chats') }}"))


def test_tokenizers_without_a_template_are_refused():
    with pytest.raises(RagenError, match="no chat template"):
        ChatCodec(tokenizer_with(None))


def test_tokenizers_without_a_pad_token_are_fine():
    bare = tokenizer_with(CHATML)
    bare.pad_token = None
    assert ChatCodec(bare).pad == ChatCodec(bare).close


def test_tags_that_are_special_tokens_are_read(tmp_path):
    tokenizer = tokenizer_with(CHATML)
    tags = ["<think>", "</think>", "<answer>", "</answer>"]
    tokenizer.add_special_tokens({"additional_special_tokens": [*tags, "<|other|>"]})
    said = "<think>go up</think><answer>Up</answer>"
    ids = tokenizer.encode(f"{said}<|other|>", add_special_tokens=False)
    assert {*tokenizer.convert_tokens_to_ids(tags)} < {*ids} & {*tokenizer.all_special_ids}
    codec = ChatCodec(tokenizer)
    assert codec.text([*ids, tokenizer.eos_token_id]) == said
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    policy = Recorder(tmp_path, codec, [])
    assert policy._reply([1], [*ids, tokenizer.eos_token_id], True).text == said
