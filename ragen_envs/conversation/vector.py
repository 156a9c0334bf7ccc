"""Many conversations of one game at once."""

from collections.abc import Sequence
from typing import Any

from ragen_envs.conversation.end_reason import ConversationEnd
from ragen_envs.conversation.wrapper import ConversationWrapper, Message, TurnResult
from ragen_envs.game.arguments import read_count
from ragen_envs.game.base import read_integer
from ragen_envs.game.errors import RagenError


class ConversationVector:
    """N conversations of one game with the same settings, stepped in batches.

    Each is a ``ConversationWrapper`` and may be used as one. An episode that has ended stays as it is
    until its conversation is reset. Omitting ``ids`` selects all conversations.

    Args:
        conversations: At least one.

    Raises:
        RagenError: There is none.
    """

    def __init__(self, conversations: Sequence[ConversationWrapper]) -> None:
        if not conversations:
            raise RagenError("there are 0 conversations, but there must be at least 1")
        self.conversations = tuple(conversations)

    def __len__(self) -> int:
        return len(self.conversations)

    def reset(
        self,
        ids: Sequence[int] | None = None,
        *,
        seeds: Sequence[int | None] | None = None,
        split: str | None = None,
        indices: Sequence[int] | None = None,
        noises: Sequence[int] | None = None,
    ) -> None:
        """Start episodes; each list has one item for each of the ids.

        Args:
            ids: Conversations to reset, from 0.
            seeds: Seeds of fresh levels; None continues the conversation's own levels.
            split: Split of all levels; if left out, each conversation stays in its own.
            indices: Indices of frozen instances, instead of fresh levels.
            noises: Numbers of the noise draws, 0 if left out.

        Raises:
            RagenError: An id does not exist, a list has the wrong length, seeds and indices were both given,
                or the game rejects an argument.
        """
        if seeds is not None and indices is not None:
            raise RagenError(
                "seeds and indices were both given, but a frozen instance has no seed; for other random "
                "events on the same levels give noises"
            )
        chosen = self._choose(ids)
        columns = {"seeds": seeds, "indices": indices, "noises": noises}
        for name, values in columns.items():
            _check_length(name, values, len(chosen))
        numbers: list[int | None] = [None] * len(chosen)
        if seeds is not None:
            numbers = [None if seed is None else read_integer("seed", seed) for seed in seeds]
        for k, conversation in enumerate(chosen):
            options: dict[str, Any] = {} if split is None else {"split": split}
            if indices is not None:
                options["index"] = indices[k]
            if noises is not None:
                options["noise"] = noises[k]
            conversation.reset(seed=numbers[k], options=options)

    def play(
        self,
        replies: Sequence[str],
        ids: Sequence[int] | None = None,
        truncated: Sequence[bool] | None = None,
    ) -> list[TurnResult | Exception]:
        """Play one reply in each of the conversations and return the results.

        If a game raises, its exception takes the place of its result, and the others are played.

        Args:
            replies: One text for each of the ids.
            ids: Different conversations whose episodes are running, from 0.
            truncated: Whether the model was cut off by its token limit; False by default.

        Raises:
            RagenError: An id does not exist, is repeated or has no running episode, a list has
                the wrong length, or a reply is not a string. Nothing is played in this case.
        """
        chosen = self._choose(ids)
        if len(set(map(id, chosen))) < len(chosen):
            raise RagenError(f"ids is {ids!r}, but must not name a conversation twice")
        _check_length("replies", replies, len(chosen))
        _check_length("truncated", truncated, len(chosen))
        for conversation, reply in zip(chosen, replies, strict=True):
            conversation.check(reply)
        cuts = [False] * len(chosen) if truncated is None else truncated
        return [
            _play(conversation, reply, cut)
            for conversation, reply, cut in zip(chosen, replies, cuts, strict=True)
        ]

    def messages(self, ids: Sequence[int] | None = None) -> list[list[Message]]:
        """Return the chats to send to a model now."""
        return [conversation.messages for conversation in self._choose(ids)]

    @property
    def end_reasons(self) -> list[ConversationEnd | None]:
        """Why each episode ended, or None if it has not ended."""
        return [conversation.end for conversation in self.conversations]

    @property
    def running(self) -> list[int]:
        """Ids of the conversations whose episode has not ended."""
        return [i for i, end in enumerate(self.end_reasons) if end is None]

    def _choose(self, ids: Sequence[int] | None) -> Sequence[ConversationWrapper]:
        if ids is None:
            return self.conversations
        _check_list("ids", ids)
        return [
            self.conversations[read_count("id", i, 0, len(self.conversations) - 1)] for i in ids
        ]


def _play(conversation: ConversationWrapper, reply: str, cut: bool) -> TurnResult | Exception:
    try:
        return conversation.play(reply, cut)
    except Exception as error:
        return error


def _check_length(name: str, values: Sequence[Any] | None, count: int) -> None:
    if values is None:
        return
    _check_list(name, values)
    if len(values) != count:
        raise RagenError(f"{name} has {len(values)} items, but there are {count} conversations")


def _check_list(name: str, values: Any) -> None:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise RagenError(
            f"{name} is {values!r:.80}, but must be a list with one item for each conversation"
        )
