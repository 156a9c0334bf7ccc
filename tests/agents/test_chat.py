"""The chat codec against the chat templates that people use."""

import pytest

transformers = pytest.importorskip("transformers")

from ragen_agents.chat_template import prompt_ids, template_ids  # noqa: E402
from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN25 = (
    "{% if messages[0]['role'] == 'system' %}<|im_start|>system\n{{ messages[0]['content'] }}<|im_end|>\n"
    "{% else %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for m in messages %}{% if m['role'] != 'system' or not loop.first %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{% for m in messages %}{% if loop.first %}<|begin|>{% endif %}"
    "<|start_header|>{{ m['role'] }}<|end_header|>\n\n{{ m['content'] | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header|>assistant<|end_header|>\n\n{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and not loop.last %}{{ m['content'][:0] }}{% else %}"
    "{{ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPEN_ENDED = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"


def tokenizer(template):
    found = transformers.AutoTokenizer.from_pretrained(STARTER)
    found.add_special_tokens(
        {"additional_special_tokens": ["<|begin|>", "<|start_header|>", "<|end_header|>"]}
    )
    found.chat_template = template
    return found


@pytest.mark.parametrize("template", [CHATML, QWEN25, LLAMA3], ids=["chatml", "qwen2.5", "llama3"])
def test_appended_turns_are_those_of_the_whole_template(template):
    codec = ChatCodec(tokenizer(template))
    chat = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "#P_O#"}]
    ids = codec.start(chat)
    for reply, user in (
        ("<think>a</think><answer>Up</answer>", "Executed: Up."),
        ("<answer>Left || Down</answer>", "Turn 3\n####"),
    ):
        written = codec.tokenizer.encode(reply, add_special_tokens=False)
        ids = [*ids, *written, codec.close, *codec.bridge(user, closed=True)]
        chat += [{"role": "assistant", "content": reply}, {"role": "user", "content": user}]
        assert codec.text([*written, codec.close]) == reply
    whole = codec.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert ids == whole


THINKS = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
"""Like the templates of reasoning models, but for training: earlier thoughts stay."""


@pytest.mark.parametrize(
    ("template", "opening"),
    [(CHATML, "<think>"), (QWEN25, "<think>"), (LLAMA3, "<think>"), (THINKS, "<think>\n")],
    ids=["chatml", "qwen2.5", "llama3", "thinks"],
)
def test_a_turn_that_begins_with_think_begins_so_once(template, opening):
    codec = ChatCodec(tokenizer(template))
    chat = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "#P_O#"}]
    ids = codec.start(chat, "<think>")
    assert codec.tokenizer.decode(ids).endswith(f"\n{opening}")
    for reply, user in (
        ("a</think><answer>Up</answer>", "Done: Up."),
        ("b</think><answer>Left || Down</answer>", "Turn 3\n####"),
    ):
        written = codec.tokenizer.encode(reply, add_special_tokens=False)
        ids = [*ids, *written, codec.close, *codec.bridge(user, True, "<think>")]
        chat += [
            {"role": "assistant", "content": f"{opening}{reply}"},
            {"role": "user", "content": user},
        ]
    whole = template_ids(codec.tokenizer, chat, reply=True)
    assert ids == prompt_ids(codec.tokenizer, chat, "<think>")
    extra = (
        [] if template == THINKS else codec.tokenizer.encode("<think>", add_special_tokens=False)
    )
    assert ids == [*whole, *extra]
    assert codec.tokenizer.decode(ids).count("<think>") == 3


def test_what_a_user_writes_is_no_beginning_of_a_turn():
    found = tokenizer(CHATML)
    chat = [{"role": "user", "content": "Write <think>"}]
    assert found.decode(prompt_ids(found, chat, "<think>")).count("<think>") == 2
    assert prompt_ids(found, chat, "") == template_ids(found, chat, reply=True)


def test_templates_that_begin_with_think_need_the_setting():
    codec = ChatCodec(tokenizer(THINKS))
    with pytest.raises(RagenError, match="set think_prefix to true"):
        codec.start([{"role": "user", "content": "a"}])


def test_a_reply_that_was_cut_off_is_closed_in_the_bridge():
    codec = ChatCodec(tokenizer(QWEN25))
    open_ended = codec.bridge("next", closed=False)
    assert open_ended == [codec.close, *codec.bridge("next", closed=True)]


def test_templates_that_rewrite_earlier_turns_are_refused():
    with pytest.raises(RagenError, match="variant for training"):
        ChatCodec(tokenizer(QWEN3))


def test_templates_without_an_end_of_turn_are_refused():
    with pytest.raises(RagenError, match="end-of-turn"):
        ChatCodec(tokenizer(OPEN_ENDED))


def test_templates_that_tell_the_date_tell_the_same_one_on_every_day():
    codec = ChatCodec(tokenizer("Today: {{ strftime_now('%d %b %Y') }}\n" + CHATML))
    assert "Today: 26 Jul 2024\n" in codec.text(codec.start([{"role": "user", "content": "a"}]))


def test_templates_without_a_system_role_are_refused():
    no_system = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    with pytest.raises(RagenError, match=r"refuses a conversation of system, user.*no system"):
        ChatCodec(tokenizer(no_system + CHATML))


def test_tokenizers_without_a_template_are_refused():
    with pytest.raises(RagenError, match="no chat template"):
        ChatCodec(tokenizer(None))


def test_tokenizers_without_a_pad_token_are_fine():
    bare = tokenizer(CHATML)
    bare.pad_token = None
    assert ChatCodec(bare).pad == ChatCodec(bare).close
