"""A model's chat template, the same on every day, as the prompts of a conversation that grows."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, Final

from jinja2.exceptions import TemplateError

from ragen_agents import template_check
from ragen_agents.policies.base import merge_system
from ragen_envs.conversation.parser import THINK_PREFIX
from ragen_envs.conversation.protocol import Message
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.chat_template")
_DATE: Final = date(2024, 7, 26)
"""Date of templates that show one: a prompt that changed at midnight could not be replayed. It is
what Llama's tell where there is no clock."""
_MESSAGES: Final = 8192
"""User messages whose tokens are kept, for the next prompt of a conversation holds those of the last."""
_TAIL: Final = 24
"""Last tokens of a prompt in which the beginning of the model's turn is looked for."""
_BASE: Final[list[Message]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
_THOUGHT: Final = "<think>\nThe goal is on my right.\n</think>\n\n<answer>Right</answer>"
_LONG_THOUGHT: Final = _THOUGHT.replace("\n</think>", " I go there." * 60 + "\n</think>")
_REPLIES: Final = (_THOUGHT, "Right", "", _LONG_THOUGHT, "Right", _THOUGHT)
"""A conversation by which a template is checked: replies with and without a thought, empty and long."""
_TAGS: Final = frozenset({"<think>", "</think>", "<answer>", "</answer>"})
"""Texts of tokens that belong to a reply even where a tokenizer counts them as special."""
SECONDS: Final = 5
"""Most time of a processor for the conversations of the check."""
_WAIT: Final = 120
"""Most time on the clock: on a busy machine, and where there is no limit of the processor's time."""
_MEMORY: Final = 1 << 30
_LIMITED: Final = 9
"""Exit code of the check where memory is not enough."""
_TEXT: Final = "go " * 400
_CHATS: Final = [
    [{"role": role, "content": _TEXT} for role in roles.split()]
    for roles in ("system user", "user", "user assistant user assistant user")
]


class ChatTemplate:
    """Turns conversations into prompts, for the benchmark and for training alike.

    Most templates *append*: a later turn changes nothing before it. The prompt of the next turn is then the
    last prompt, the reply as the model wrote it, and a *bridge*: what the template puts between the end of
    the model's turn and its next one. Other templates rewrite earlier turns, for example by removing their
    thoughts; each prompt is then the template of the whole conversation.

    Where a template refuses system messages, their text begins the first user message. The first prompt is
    checked: a warning shows where the template changes the text of a message.

    Args:
        tokenizer: A tokenizer with a chat template.
        stop_token_ids: Further ids that end a turn, such as those of the model's generation config.
    """

    _merges = False
    _checked: ClassVar[set[str]] = set()
    """Templates of this process whose first prompt was compared with its messages."""

    def __init__(self, tokenizer: Any, stop_token_ids: Iterable[int] = ()) -> None:
        _check_template(tokenizer)
        self.tokenizer = tokenizer
        self.stop_token_ids: frozenset[int] = frozenset({*stop_token_ids, tokenizer.eos_token_id} - {None})
        """All tokens that end a turn."""
        self._skipped = _skipped_tokens(tokenizer)
        self._tail = lru_cache(_MESSAGES)(self._read_tail)
        self._begun = self._begin_chat()
        # The templates of some reasoning models begin the model's turn with <think> and a line break.
        end = self._decoded(self._begun[-_TAIL:])
        self._opening = end[end.rindex(THINK_PREFIX) :] if end.rstrip().endswith(THINK_PREFIX) else ""
        self._close = self._find_close()
        self.appends: bool = self._close is not None and self._keeps_turns()
        """Whether later turns leave earlier ones, thoughts included, as they were."""

    def prompt(self, messages: Sequence[Message], prefix: str = "") -> list[int]:
        """Return the prompt of a conversation that waits for a reply.

        Args:
            messages: Each with role and content: perhaps a system message, then turns of the user and the
                assistant, then the user's last.
            prefix: What the model's turn begins with, after what the template puts there: ``<think>`` or
                "". It is not repeated where the template ends with it.
        """
        if (template := str(self.tokenizer.chat_template)) not in self._checked:
            self._checked.add(template)
            self._check_text(messages)
        if not self.appends:
            return self._template(messages) + self._begin(prefix)
        roles = [message["role"] for message in messages]
        first = roles.index("assistant") if "assistant" in roles else len(roles)
        ids = self._template(messages[:first]) + self._begin(prefix)
        for assistant, user in zip(messages[first::2], messages[first + 1 :: 2], strict=True):
            opened = prefix or (THINK_PREFIX if self._opening else "")
            text = assistant["content"].removeprefix(self._opening).removeprefix(opened)
            ids += self.written(text) + self.bridge(user["content"], False, prefix)
        return ids

    def bridge(self, user: str, closed: bool, prefix: str = "") -> list[int]:
        """Return the tokens after a reply: a close unless the model wrote it, the user's message, a start.

        It needs a template that appends.

        Args:
            user: The message.
            closed: Whether the model wrote the token that ends its turn.
            prefix: What the next turn begins with; see `prompt`.
        """
        assert self._close is not None
        return [*([] if closed else [self._close]), *self._tail(user), *self._begin(prefix)]

    def continuation(self, before: Sequence[int], reply: str, after: Sequence[int]) -> list[int] | None:
        """Return the tokens after a reply in the next prompt, from the one that ends the turn.

        Returns:
            None if the next prompt does not begin with the last one and the reply.
        """
        shown = [*before, *self.written(reply)]
        rest = list(after[len(shown) :])
        if list(after[: len(shown)]) != shown or not self.stop_token_ids.intersection(rest[:1]):
            return None
        return rest

    def written(self, text: str) -> list[int]:
        """Return the tokens of a text in the middle of a conversation.

        Some tokenizers begin a text of its own with a space, so it is read after a token that stands alone.
        """
        mark = "" if self._close is None else self._decoded([self._close])
        ids = self._encoded(mark + text)
        return ids[len(self._encoded(mark)) :]

    def read(self, ids: Sequence[int]) -> str:
        """Return the text of what a model wrote, without special tokens other than the tags of a reply."""
        kept = [token for token in ids if token not in self._skipped]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        return text

    def _begin(self, prefix: str) -> list[int]:
        return [] if self._opening or not prefix else self.written(prefix)

    def _template(self, messages: Sequence[Message], reply: bool = True) -> list[int]:
        ids: list[int] = _rendered(self.tokenizer, self._shown(messages), reply, return_dict=False)
        return ids

    def _shown(self, messages: Sequence[Message]) -> Sequence[Mapping[str, Any]]:
        return merge_system(messages) if self._merges else messages

    def _begin_chat(self) -> list[int]:
        """Return a prompt with a system message, merged with the user's if the template refuses the role."""
        try:
            return self._template(_BASE)
        except RagenError as error:
            self._merges = True
            begun = self._template(_BASE)
            _LOG.info("%s; the system message begins the first user message instead", error)
            return begun

    def _check_text(self, messages: Sequence[Message]) -> None:
        """Warn if the prompt lacks a line of a message that is not the model's own."""
        text: str = _rendered(self.tokenizer, self._shown(messages), True, tokenize=False)
        shown = [line.strip() for line in text.splitlines()]
        for message in messages:
            lines = () if message["role"] == "assistant" else message["content"].splitlines()
            for line in map(str.strip, lines):
                if line not in text:
                    instead = "".join(get_close_matches(line, shown, 1, 0.3)) or "nothing like it"
                    _LOG.warning(
                        "the model's chat template changes the prompt: '%s' becomes '%s'",
                        line, instead,
                    )  # fmt: skip
                    return

    def _find_close(self) -> int | None:
        """Return the token that the template puts after a reply, if it is one that ends a turn."""
        chat = [*_BASE, self._turn(_THOUGHT)]
        for whole in (
            self._template([*chat, {"role": "user", "content": "v"}]),
            self._template(chat, reply=False),  # the end of a conversation may have a token of its own
        ):
            end = self._end(whole, _shared(self._begun, whole))
            if end is not None:
                return whole[end]
        return None

    def _keeps_turns(self) -> bool:
        """Return whether appending gives the prompts of a conversation with replies of every kind.

        A template may put an empty thought before a reply that has none. That is no rewriting: what the
        model wrote is shown instead, by `prompt` too.
        """
        chat, shown = list(_BASE), self._begun
        for reply in _REPLIES:
            turn = self._turn(reply)
            chat += [turn, {"role": "user", "content": "v"}]
            whole = self._template(chat)
            end = self._end(whole, len(shown))
            if whole[: len(shown)] != shown or end is None or whole[end] != self._close:
                return False
            if reply in (_THOUGHT, _LONG_THOUGHT):
                shown_reply = self._decoded(whole[len(shown) : end])
                if shown_reply.strip() != turn["content"].removeprefix(self._opening).strip():
                    return False
            if tuple(whole[end + 1 :]) != self._tail("v"):
                return False
            shown = whole
        return True

    def _read_tail(self, user: str) -> tuple[int, ...]:
        """Return the tokens that the template puts after the one that ends a reply."""
        chat = [*_BASE, self._turn(_THOUGHT), {"role": "user", "content": user}]
        whole = self._template(chat)
        end = self._end(whole, len(self._begun))
        assert end is not None
        return tuple(whole[end + 1 :])

    def _turn(self, reply: str) -> Message:
        opened = reply.startswith(self._opening)
        return {"role": "assistant", "content": reply if opened else self._opening + reply}

    def _end(self, ids: Sequence[int], start: int) -> int | None:
        """Return the place of the first token from a start on that ends a turn."""
        return next((i for i in range(start, len(ids)) if ids[i] in self.stop_token_ids), None)

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _decoded(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


def _skipped_tokens(tokenizer: Any) -> frozenset[int]:
    added = {token: str(what) for token, what in tokenizer.added_tokens_decoder.items() if what.special}
    named = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    special = {**named, **added}
    return frozenset(token for token, text in special.items() if text.strip() not in _TAGS)


def _rendered(tokenizer: Any, messages: Sequence[Mapping[str, Any]], reply: bool, **options: bool) -> Any:
    tells_date = "strftime_now" in str(tokenizer.chat_template)
    try:
        return tokenizer.apply_chat_template(
            list(messages),
            add_generation_prompt=reply,
            **options,
            **({"strftime_now": _DATE.strftime} if tells_date else {}),
        )
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        roles = ", ".join(message["role"] for message in messages)
        raise RagenError(f"the model's chat template refuses a conversation of {roles}: {error}") from error


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the first tokens that two prompts share."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _check_template(tokenizer: Any) -> None:
    """Render conversations with the template of a tokenizer in a process with limits."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str) or not template.strip():
        raise RagenError("the tokenizer has no chat template; save one with it")
    tokens = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    _check_rendering(json.dumps({"template": template, "chats": _CHATS, "tokens": tokens}))


@lru_cache(64)
def _check_rendering(given: str) -> None:
    limits = str(_MEMORY), str(SECONDS), _DATE.isoformat(), str(_LIMITED)
    command = [sys.executable, "-P", template_check.__file__, *limits]
    try:
        checked = subprocess.run(command, input=given.encode(), capture_output=True, timeout=_WAIT)
    except subprocess.TimeoutExpired:
        checked = None
    if checked is None or checked.returncode < 0:  # the system has ended it
        raise RagenError(f"the model's chat template does not end within {SECONDS} s; use another one")
    if checked.returncode == _LIMITED:
        raise RagenError(
            "the model's chat template needs too much memory or too long a range; use another one"
        )
    if checked.returncode:
        why = checked.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise RagenError(f"the model's chat template cannot be checked: {why}")
