"""What policies may see of a conversation: a single player's, or that of a seat among several."""

from typing import Protocol

import numpy as np

from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.game.oracle import Action, Advice, Budget


class Conversation(Protocol):
    """A conversation that waits for a reply."""

    names: tuple[str, ...]
    """Names of the actions, or the forms of actions that are words."""
    settings: ConversationSettings

    @property
    def in_words(self) -> bool:
        """Whether actions are words instead of names from a fixed list."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat that ends with the message to reply to."""

    @property
    def budget(self) -> Budget:
        """Turns and actions that are left."""

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[Action, ...]:
        """Return random actions for a turn."""

    def oracle(self) -> Advice:
        """Return the optimum under the remaining budget."""
