"""Play many conversations of one game at once."""

from collections.abc import Sequence
from typing import Any

from ragen_envs.conversation.protocol import ConversationEnd, Message, TurnResult
from ragen_envs.conversation.wrapper import ConversationWrapper


class ConversationVector:
    """N conversations of one game with the same settings, stepped in batches.

    Each is a ``ConversationWrapper`` and may be used as one. An episode that has ended stays as it is
    until its conversation is reset. Omitting ``ids`` selects all conversations.
    """

    def __init__(self, conversations: Sequence[ConversationWrapper]) -> None:
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
            RagenError: The game rejects an argument.
            ValueError: A list has the wrong length. Nothing is reset in this case.
        """
        chosen = self._choose(ids)
        columns = {"index": indices, "noise": noises}
        rows: list[dict[str, Any]] = [{} if split is None else {"split": split} for _ in chosen]
        for name, values in columns.items():
            if values is not None:
                for options, value in zip(rows, values, strict=True):
                    options[name] = value
        seeding = [None] * len(chosen) if seeds is None else seeds
        for conversation, seed, options in [*zip(chosen, seeding, rows, strict=True)]:
            conversation.reset(seed=None if seed is None else int(seed), options=options)

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
            RagenError: An episode is not running, or a reply is not a string. Nothing is played in
                this case.
            ValueError: A list has the wrong length. Nothing is played in this case.
        """
        chosen = self._choose(ids)
        cuts = [False] * len(chosen) if truncated is None else truncated
        turns = [*zip(chosen, replies, cuts, strict=True)]
        for conversation, reply, _ in turns:
            conversation.check(reply)
        return [_play(*turn) for turn in turns]

    def messages(self, ids: Sequence[int] | None = None) -> list[list[Message]]:
        """Return the chats to send to a model now."""
        return [conversation.messages for conversation in self._choose(ids)]

    @property
    def end_reasons(self) -> list[ConversationEnd | None]:
        """End of each episode, or None if it goes on."""
        return [conversation.end for conversation in self.conversations]

    @property
    def running(self) -> list[int]:
        """Ids of the conversations whose episode has not ended."""
        return [i for i, end in enumerate(self.end_reasons) if end is None]

    def _choose(self, ids: Sequence[int] | None) -> Sequence[ConversationWrapper]:
        return self.conversations if ids is None else [self.conversations[i] for i in ids]


def _play(conversation: ConversationWrapper, reply: str, cut: bool) -> TurnResult | Exception:
    try:
        return conversation.play(reply, cut)
    except Exception as error:
        return error
