"""A tokenizer for the texts of one game: a token for each word, name with a number and repeated line.

Text is read in lower case, so a word that is asked for and the same word in a title are one token, and
what the model writes is in lower case. A word takes the space that follows it, not the one before it, so
a value reads the same in a list and between brackets. Any other text falls back to bytes.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from ragen_agents.starter.tokenizer import SPECIAL_TOKENS, TAGS, with_chat_template

VOCABULARY: Final = 4096
"""Most tokens, repeated lines not counted."""
CONTEXT: Final = 4096
_PIECES: Final = r"[a-z]+[0-9]* ?|[0-9]{1,2} ?|[^a-z0-9\s]+ ?|\s"
_REPEATED: Final = 0.1
"""A line is one token if this share of the texts holds it."""
_SHORTEST_LINE: Final = 12


def build_word_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Train the tokenizer on texts, such as whole conversations, and return it with its chat template."""
    lowered = [text.lower() for text in texts]
    lines = repeated_lines(lowered)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY - len(TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lowered, trainer)
    fast = with_chat_template(tokenizer, CONTEXT)
    fast.add_tokens([AddedToken(line, normalized=True, special=False) for line in lines])
    return fast


def repeated_lines(texts: Sequence[str]) -> list[str]:
    """Return the lines that many of some texts hold, the longest first."""
    found = Counter(line for text in texts for line in dict.fromkeys(text.splitlines()))
    often = [line for line, count in found.items() if count >= _REPEATED * len(texts)]
    fit = [line for line in often if len(line) >= _SHORTEST_LINE and "</" not in line]
    return sorted(fit, key=lambda line: (-len(line), line))
