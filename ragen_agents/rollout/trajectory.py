"""Trajectories: an episode in tokens, built only by appending."""

from dataclasses import dataclass, field

from ragen_envs.conversation import EndReason

CONTEXT = -1
"""Turn id of the tokens that the model did not write."""


@dataclass
class TrajectoryTurn:
    """What one reply was and did."""

    reply: str
    rewards: dict[str, float]
    """Parts of the turn's reward by name: the game's, the format penalty, and others if asked for."""
    valid: bool
    """Whether the reply has no defect."""
    effective: bool
    """Whether some action changed the state."""
    actions: int
    """How many actions ran."""
    cut_off: bool
    """Whether the token limit ended the reply."""

    @property
    def reward(self) -> float:
        """Sum of the parts."""
        return sum(self.rewards.values())


@dataclass
class Trajectory:
    """One episode as the trainer sees it.

    The lists ``ids``, ``logprobs``, ``turn_ids`` and ``versions`` have one item a token.
    """

    group: int
    """Which initial state of the iteration."""
    member: int
    """Which of the group's episodes."""
    ids: list[int]
    """The first prompt, and all that was appended."""
    logprobs: list[float] = field(default_factory=list)
    """The engine's log-probability of each sampled token, in nats; 0 for context."""
    turn_ids: list[int] = field(default_factory=list)
    """Turn of each sampled token, from 0; ``CONTEXT`` for all others."""
    versions: list[int] = field(default_factory=list)
    """Version of the weights that wrote each sampled token; ``CONTEXT`` for all others."""
    turns: list[TrajectoryTurn] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    """The conversation, for people."""
    replies: int = 0
    """How many replies were appended."""
    end: EndReason | None = None
    """Why it ended; None until then."""
    success: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        missing = len(self.ids) - len(self.turn_ids)
        self.logprobs += [0.0] * missing
        self.turn_ids += [CONTEXT] * missing
        self.versions += [CONTEXT] * missing

    @property
    def episode_return(self) -> float:
        """Sum of the turns' rewards."""
        return sum(turn.reward for turn in self.turns)

    @property
    def written(self) -> int:
        """How many tokens the model wrote."""
        return sum(turn != CONTEXT for turn in self.turn_ids)

    def append_context(self, ids: list[int]) -> None:
        """Append tokens that the model reads."""
        self._append(ids, [0.0] * len(ids), CONTEXT, CONTEXT)

    def append_reply(self, ids: list[int], logprobs: list[float], version: int) -> None:
        """Append the tokens of the next turn's reply."""
        self._append(ids, logprobs, self.replies, version)
        self.replies += 1

    def _append(self, ids: list[int], logprobs: list[float], turn: int, version: int) -> None:
        self.ids += ids
        self.logprobs += logprobs
        self.turn_ids += [turn] * len(ids)
        self.versions += [version] * len(ids)
