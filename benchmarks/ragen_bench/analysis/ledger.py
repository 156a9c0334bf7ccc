"""Compute the ledger of an episode: the cost of each turn, by the exact oracle, and the share of chance.

With V the largest probability of success that any agent has from a state under what is left of turns and
actions, and Q what is left of it in expectation once a turn has committed to its actions,

    regret = V before the turn - Q >= 0,    luck = V after the turn - Q,

so that success - V at the start = the sum of luck - the sum of regret, exactly, in every episode.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from ragen_agents.rollout import Episode
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.runs.records import replay_spec
from ragen_envs.conversation import ConversationWrapper, EndReason
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.oracle import ANY_LENGTH, Budget
from ragen_envs.game.text import action_texts

__all__ = ["Blunder", "Decision", "Ledger", "NoLedgerError", "ledger"]

_ROUNDING: Final = 1e-12
"""Values that differ by less are equal: they are sums of products of probabilities."""

_LONG: Final = 1000
"""Steps within which a game with chance can be won, if at all."""


class NoLedgerError(RagenError):
    """The ledger of an episode cannot be computed exactly; the message says why, after "because"."""


class Blunder(StrEnum):
    """The way in which a turn lost an episode that could still be solved."""

    DEADLOCK = "deadlock"
    """No number of actions can win from where it led."""
    OVERRUN = "overrun"
    """Too few turns and actions are left."""


@dataclass(frozen=True)
class Decision:
    """One turn."""

    value: float
    """V before it, in [0, 1]."""
    committed: float
    """Q: what is left of V, in expectation over the game's chance, given the actions it committed to."""
    after: float
    """V after it; 1 or 0 where the episode ended."""
    plan: tuple[str, ...]
    """The oracle's actions."""
    blunder: Blunder | None
    """Set if the turn lost the episode: V was above 0, and Q is 0."""

    @property
    def regret(self) -> float:
        """Chance of success that the turn lost: >= 0, and 0 for the oracle's."""
        return self.value - self.committed

    @property
    def luck(self) -> float:
        """Success by chance: 0 on average, and always 0 if success does not depend on chance."""
        return self.after - self.committed


@dataclass(frozen=True)
class Ledger:
    """All turns of an episode."""

    episode: Episode
    decisions: tuple[Decision, ...]

    @property
    def start(self) -> float:
        """V before the first turn."""
        return self.decisions[0].value

    @cached_property
    def regret(self) -> float:
        """Sum over the turns."""
        return sum(decision.regret for decision in self.decisions)

    @cached_property
    def luck(self) -> float:
        """Sum over the turns."""
        return sum(decision.luck for decision in self.decisions)

    @property
    def corrected(self) -> float:
        """Luck-corrected success: its expectation is that of success, and it varies less."""
        return self.episode.success - self.luck

    @property
    def lost_at(self) -> int | None:
        """Number of the turn, from 0, whose blunder lost the episode; None if there was none."""
        turns = (t for t, decision in enumerate(self.decisions) if decision.blunder)
        return next(turns, None)

    @property
    def worst(self) -> int:
        """Number of the turn, from 0, with the largest regret; of equal ones the first."""
        return max(range(len(self.decisions)), key=lambda turn: (self.decisions[turn].regret, -turn))

    @property
    def wasted_tokens(self) -> int | None:
        """Tokens of the replies after the episode was lost by a blunder; None where they were not counted."""
        lost = self.lost_at
        later = () if lost is None else self.episode.turns[lost + 1 :]
        counts = [turn.reply_tokens for turn in later]
        return None if None in counts else sum(count for count in counts if count is not None)


def ledger(episode: Episode) -> Ledger:
    """Play an episode again and return its ledger.

    Args:
        episode: A record that did not end in an error.

    Raises:
        NoLedgerError: It ended in an error or before the first reply; or
            its game does not compute values, or not under its limits.
        RagenError: Replaying the replies differs from the record; ``ragen verify`` says where.
    """
    if episode.end is EndReason.OVERFLOW:
        raise NoLedgerError("they exceeded the model's context")
    if episode.end is EndReason.ERROR:
        raise NoLedgerError("they ended in an error")
    if not episode.turns:
        raise NoLedgerError("they ended before the first reply")
    env = make_env(replay_spec(episode))
    try:
        return Ledger(episode, tuple(_decisions(episode, env)))
    except SolverLimitError as error:
        raise NoLedgerError(f"their exact values are not computed: {error}") from error


def _decisions(episode: Episode, env: ConversationWrapper) -> list[Decision]:
    decisions = []
    for number, turn in enumerate(episode.turns, start=1):
        advice = env.oracle()
        committed = env.turn_value(turn.reply, turn.cut_off)
        if committed is None:
            raise NoLedgerError(
                f"{episode.env_id} does not compute the value of a turn: a game without chance sets "
                "deterministic = True, another defines turn_value; see docs/add-a-game.md"
            )
        result = env.play(turn.reply, turn.cut_off)
        if action_texts(env.names, result.executed) != turn.executed:
            raise RagenError(
                f"{episode.key}, turn {number}: the replayed reply differs from the record; see ragen verify"
            )
        after = float(bool(env.success)) if result.end is not None else env.oracle().value
        blunder = _blunder(env) if committed <= _ROUNDING < advice.value else None
        plan = action_texts(env.names, advice.actions)
        decisions.append(Decision(advice.value, committed, after, plan, blunder))
    return decisions


def _blunder(env: ConversationWrapper) -> Blunder:
    game: Any = env.unwrapped
    one_turn = Budget(ANY_LENGTH, 1, ANY_LENGTH)
    unlimited = one_turn if game.deterministic else Budget.closed_loop(_LONG)
    return Blunder.OVERRUN if game.oracle(unlimited).value > 0 else Blunder.DEADLOCK
