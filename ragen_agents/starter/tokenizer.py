"""The tokenizers of small models trained from scratch: byte-level BPE on the texts of the games.

A tokenizer for one game has a token for each word, name with a number and repeated line. Text is read in
lower case, so a word that is asked for and the same word in a title are one token, and what the model
writes is in lower case. A word takes the space that follows it, not the one before it, so a value reads the
same in a list and between brackets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

_WORD_VOCABULARY: Final = 4096
"""Most tokens, repeated lines not counted."""
CONTEXT: Final = 4096
_WORD_PIECES: Final = r"[a-z]+[0-9]* ?|[0-9]{1,2} ?|[^a-z0-9\s]+ ?|\s"
_REPEATED: Final = 0.1
"""A line is one token if this share of the texts holds it."""
_SHORTEST_LINE: Final = 12
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


def trained_on(tokenizer: Tokenizer, texts: Iterable[str], pieces: str, vocabulary: int) -> Tokenizer:
    """Train a tokenizer whose merges stay within pieces, a regular expression, and return it."""
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def with_chat_template(tokenizer: Tokenizer, context: int) -> PreTrainedTokenizerFast:
    """Return a trained tokenizer in transformers' form, with the tags of replies and the chat template."""
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


def build_word_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Train a tokenizer for one game on its texts, such as whole conversations; with a chat template."""
    lowered = [text.lower() for text in texts]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    fast = with_chat_template(trained_on(tokenizer, lowered, _WORD_PIECES, _WORD_VOCABULARY), CONTEXT)
    lines = repeated_lines(lowered)
    fast.add_tokens([AddedToken(line, normalized=True, special=False) for line in lines])
    return fast


def repeated_lines(texts: Sequence[str]) -> list[str]:
    """Return the lines that many of some texts hold, the longest first."""
    counts = Counter(line for text in texts for line in dict.fromkeys(text.splitlines()))
    often = [line for line, count in counts.items() if count >= _REPEATED * len(texts)]
    fit = [line for line in often if len(line) >= _SHORTEST_LINE and "</" not in line]
    return sorted(fit, key=lambda line: (-len(line), line))
