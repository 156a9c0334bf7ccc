"""Short chat templates that behave like those of well-known models.

Each has its model's roles, beginning and end of a turn and treatment of thoughts, without tools and pictures.
"""

from typing import NamedTuple

from transformers import AutoTokenizer

from ragen_agents.starter import STARTER

_SPECIAL = [
    "<|bos|>", "<|header|>", "<|/header|>", "<|eot|>", "<start_of_turn>", "<end_of_turn>", "<|end|>",
    "<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|system|>", "<|user|>", "<|assistant|>",
    "[gMASK]", "<sop>",
]  # fmt: skip


class Shape(NamedTuple):
    """A chat template, and what is true of it."""

    template: str
    ends: tuple[str, ...] = ("<|im_end|>",)
    """Tokens that end a reply."""
    appends: bool = True
    """Whether later turns leave earlier ones as they were."""
    verbatim: bool = True
    """Whether it shows a well-formed reply exactly as it was written."""
    think_prefix: bool = False
    """Whether the model's turn begins with a thought."""


_CHATML = (
    "{%% for m in messages %%}<|im_start|>{{ m.role }}\n{{ %s }}<|im_end|>\n{%% endfor %%}"
    "{%% if add_generation_prompt %%}<|im_start|>assistant\n%s{%% endif %%}"
)
_ANSWER = "m.content.split('</think>')[-1].lstrip('\\n')"
_THOUGHT = "m.content.split('</think>')[0].split('<think>')[-1].strip('\\n')"
_LAST_QUERY = (
    "{%- set ns = namespace(last=0) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
    "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
)
_SYSTEM_BY_DEFAULT = "{%% if messages[0].role != 'system' %%}<|im_start|>system\n%s<|im_end|>\n{%% endif %%}"

CHATML = _CHATML % ("m.content", "")
QWEN25 = _SYSTEM_BY_DEFAULT % "You are Qwen." + CHATML
SMOLLM2 = _SYSTEM_BY_DEFAULT % "You are SmolLM." + CHATML
QWEN3 = _LAST_QUERY + _CHATML % (
    f"{_ANSWER} if m.role == 'assistant' and loop.index0 <= ns.last else m.content",
    "",
)
QWEN3_TRAINING = _CHATML % (
    f"'<think>\\n' + ({_THOUGHT} if '</think>' in m.content else '') + '\\n</think>\\n\\n' + {_ANSWER}"
    " if m.role == 'assistant' else m.content",
    "",
)
QWEN3_NO_THOUGHTS = _CHATML % ("m.content", "<think>\n\n</think>\n\n")
LFM2 = "<|bos|>" + CHATML
LFM25 = (
    "<|bos|>{%- set ns = namespace(last=-1) -%}{%- for m in messages -%}{%- if m.role == 'assistant' -%}"
    "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
) + _CHATML % (f"{_ANSWER} if m.role == 'assistant' and loop.index0 != ns.last else m.content", "")
THINKS = _CHATML % ("m.content", "<think>\n")
DEEPSEEK_R1 = _CHATML % (f"{_ANSWER} if m.role == 'assistant' else m.content", "<think>\n")
LLAMA3 = (
    "<|bos|>{% for m in messages %}<|header|>{{ m.role }}<|/header|>\n\n"
    "{% if m.role == 'system' %}Today Date: {{ strftime_now('%d %b %Y') }}\n\n{% endif %}"
    "{{ m.content | trim }}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant<|/header|>\n\n{% endif %}"
)
GEMMA3 = (
    "<|bos|>{% for m in messages if m.role != 'system' %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{% if loop.first and messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
PHI3 = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
)
GLM4 = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
GPT_OSS = (
    "<|start|>system<|message|>Current date: {{ strftime_now('%Y-%m-%d') }}<|end|>{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
    "{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}{% else %}"
    "<|start|>{{ 'developer' if m.role == 'system' else m.role }}<|message|>{{ m.content }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)

SHAPES = {
    "chatml": Shape(CHATML),
    "qwen2.5": Shape(QWEN25),
    "qwen3": Shape(QWEN3, appends=False),
    "qwen3-training": Shape(QWEN3_TRAINING),
    "qwen3-no-thoughts": Shape(QWEN3_NO_THOUGHTS, appends=False),
    "llama3": Shape(LLAMA3, ends=("<|eot|>",)),
    "gemma3": Shape(GEMMA3, ends=("<end_of_turn>",)),
    "lfm2": Shape(LFM2),
    "lfm2.5": Shape(LFM25, appends=False),
    "smollm2": Shape(SMOLLM2),
    "phi3": Shape(PHI3, ends=("<|end|>",)),
    "glm4": Shape(GLM4, ends=("<|user|>",), verbatim=False),
    "gpt-oss": Shape(GPT_OSS, ends=("<|return|>",), appends=False),
    "thinks": Shape(THINKS, think_prefix=True),
    "deepseek-r1": Shape(DEEPSEEK_R1, appends=False, think_prefix=True),
}
"""By the name of a model with such a template."""


def tokenizer_with(template):
    """Return the starter's tokenizer with another template, whose special tokens it knows."""
    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    tokenizer.add_special_tokens({"additional_special_tokens": _SPECIAL})
    tokenizer.chat_template = template
    return tokenizer


def stops_of(tokenizer, shape):
    """Return the tokens that end a reply of a shape's model."""
    return tokenizer.convert_tokens_to_ids(list(shape.ends))
