"""The starter model's tokenizer: byte-level BPE whose merges may cross spaces.

Text is split into runs of words and single other characters. Within a run, merges cross words and the
commas between them (as in SuperBPE, Liu et al. 2025), so the sentences that every prompt repeats become few
tokens, while each board symbol, digit and punctuation mark stays a token of its own. Any other text
falls back to pieces and, in the end, to bytes.
"""

from collections.abc import Iterable
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY: Final = 2432
_RUN: Final = r"[a-z]+(?:(?: \(?|[;,] |-)[a-z]+\)?)*"
_PIECES: Final = (
    rf"[A-Z]?{_RUN}"  # words; a capitalised word begins a run of its own
    rf"| {_RUN}| [0-9]"
    r"|[.,:] (?=[A-Za-z])|[\s\S]"
)
_START, _END, _PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
SPECIAL_TOKENS: Final = (_PAD, _START, _END)
TAGS: Final = ("<think>", "</think>", "<answer>", "</answer>", " || ")

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML, with the marks that tell trainers which text the model wrote."""


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train the tokenizer on texts and return it with its chat template; deterministic."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return with_chat_template(tokenizer, 2048)


def with_chat_template(tokenizer: Tokenizer, context: int) -> PreTrainedTokenizerFast:
    """Return a trained tokenizer in transformers' form, with the tags of replies and the chat template.

    Args:
        tokenizer: Has been trained with `SPECIAL_TOKENS`; the tags are added to it.
        context: Most tokens that the model reads.
    """
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_END,
        pad_token=_PAD,
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=context,
    )
