"""From messages to token ids and back, without ever tokenising again what a model has written."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ragen_agents.chat_template import opening, prefix_ids, template_ids
from ragen_envs.conversation.parser import THINK_PREFIX
from ragen_envs.conversation.wrapper import Message
from ragen_envs.errors import RagenError

_BASE: Final[list[Message]] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "a"},
]
_REWRITES: Final = (
    "the chat template is not one to which turns can be appended: the ids of a whole conversation differ "
    "from those of its turns, one after another; templates that strip earlier thoughts need a variant for "
    "training"
)


class ChatCodec:
    """Turns a conversation into a growing list of token ids.

    The next prompt is the last one, the ids that were sampled, and a *bridge*: what the chat template
    puts between the end of the model's turn and its next one. It is cut from the template of a fixed
    conversation after its last end of turn, which keeps, for example, the newline that Qwen's template
    has there (training without it drifts from what the model sees later).

    Args:
        tokenizer: A tokenizer with a chat template.
        stop_token_ids: Further ids that end a turn, such as those of the model's generation config.

    Raises:
        RagenError: There is no chat template, or it is none to which turns can be appended.
    """

    def __init__(self, tokenizer: Any, stop_token_ids: Iterable[int] = ()) -> None:
        if tokenizer.chat_template is None:
            raise RagenError("the tokenizer has no chat template; save one with it")
        self.tokenizer = tokenizer
        known = {*stop_token_ids, tokenizer.eos_token_id} - {None}
        self._base = self._template(_BASE, reply=False)
        closes = [i for i, token in enumerate(self._base) if token in known]
        if not closes:
            raise RagenError(
                "the chat template does not end a turn with an end-of-sequence token "
                f"({sorted(known)}); name its end-of-turn token in the generation config"
            )
        self._cut = closes[-1] + 1
        self.close: int = self._base[closes[-1]]
        """The token that ends a turn."""
        self.stop_token_ids = frozenset({*known, self.close})
        """All tokens that end a turn."""
        self.pad: int = self.close if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self._opening = opening(tokenizer, self._template(_BASE[:2], reply=True), THINK_PREFIX)
        self._verify()

    def start(self, messages: Sequence[Message], prefix: str = "") -> list[int]:
        """Return the first prompt: the messages and the beginning of the model's turn.

        Args:
            messages: Each with role and content.
            prefix: What the turn begins with, after what the template puts there: ``<think>`` or "". It is
                not repeated where the template ends with it.

        Raises:
            RagenError: The template begins the turn with ``<think>``, and the prefix is "".
        """
        return self._template(messages, reply=True) + self._prefix(prefix)

    def bridge(self, user: str, closed: bool, prefix: str = "") -> list[int]:
        """Return what follows a reply: a close unless the model wrote it, the user's message, a start.

        Args:
            user: The message.
            closed: Whether the model wrote the token that ends its turn.
            prefix: What the next turn begins with; see `start`.
        """
        whole = self._template([*_BASE, {"role": "user", "content": user}], reply=True)
        if whole[: self._cut] != self._base[: self._cut]:
            raise RagenError(_REWRITES)
        return ([] if closed else [self.close]) + whole[self._cut :] + self._prefix(prefix)

    def text(self, ids: Sequence[int]) -> str:
        """Return what sampled ids say, without the end of the turn."""
        written = list(ids)
        while written and written[-1] in self.stop_token_ids:
            written.pop()
        text: str = self.tokenizer.decode(written, skip_special_tokens=True)
        return text

    def _prefix(self, prefix: str) -> list[int]:
        if not self._opening:
            return prefix_ids(self.tokenizer, prefix)
        if prefix:
            return []
        raise RagenError(
            f"the chat template begins the model's turn with {THINK_PREFIX}; set think_prefix to true"
        )

    def _template(self, messages: Sequence[Message], reply: bool) -> list[int]:
        return template_ids(self.tokenizer, messages, reply)

    def _verify(self) -> None:
        """Check that appending gives the ids of the template of the whole conversation."""
        chat, prefix = [*_BASE[:2]], self._opening.rstrip()
        reply = {"role": "assistant", "content": f"{self._opening}a"}
        ids = self.start(chat, prefix)
        for user in ("b", "c"):
            written = self.tokenizer.encode("a", add_special_tokens=False)
            ids = [*ids, *written, self.close, *self.bridge(user, True, prefix)]
            chat = [*chat, reply, {"role": "user", "content": user}]
        if ids != self._template(chat, reply=True):
            raise RagenError(_REWRITES)
