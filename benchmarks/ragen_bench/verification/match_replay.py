"""Replay a recorded match from its replies and recompute every field."""

import copy
from collections.abc import Iterator
from functools import partial

from ragen_agents.policies import CONTROLS, Request
from ragen_agents.rollout import MatchRecord
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, seat_seed
from ragen_bench.config.run_config import MatchConfig
from ragen_bench.match.match_player import match_spec
from ragen_bench.verification.episode_replay import (
    Check,
    control_checks,
    next_of_control,
    result_checks,
    token_checks,
)
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import ConversationEnd, EndReason


def match_checks(config: MatchConfig, match: MatchRecord) -> Iterator[Check]:
    """Yield a check of every field of a match, in the order of play; its key must be the config's.

    Look at the first check that fails: the game may have diverged after it.
    """
    task, instance = config.suite.tasks[match.task], match.instance
    yield Check(None, "suite_version", match.suite_version, SUITE_VERSION)
    yield Check(None, "env_id", match.env_id, task.env)
    yield Check(None, "env_kwargs", match.env_kwargs, task.settings)
    yield Check(None, "instance.split", instance.split, config.suite.split)
    yield Check(None, "sampling_seed", match.sampling_seed, config.suite.seed)
    for number, seat in enumerate(match.seats):
        for check in token_checks(config, seat.agent, seat.turns):
            yield _of_seat(number, check)
    yield from _Replay(match, match_spec(config.suite, match.key)).checks()


def _of_seat(number: int, check: Check) -> Check:
    return check._replace(field=f"player_{number}.{check.field}")


class _Replay:
    """A match being replayed."""

    def __init__(self, match: MatchRecord, spec: MatchSpec) -> None:
        self.match, self.spec = match, spec
        self.table = make_match_env(spec.env_id, spec.env_kwargs)
        self.table.reset(seed=spec.level, options={"split": spec.split})
        self._ends: dict[int, ConversationEnd | None] = {}
        """Why each seat left the game, as its last turn has it."""
        self._returns = [0.0] * len(match.seats)

    def checks(self) -> Iterator[Check]:
        match, table = self.match, self.table
        yield Check(None, "seats", len(match.seats), table.game.players)
        for name, value in vars(table.game.instance).items():
            yield Check(None, f"instance.{name}", getattr(match.instance, name), value)
        for number, seat in enumerate(match.seats):
            yield _of_seat(number, Check(None, "system", seat.system, table.seats[number].system))
        turns = max(len(seat.turns) for seat in match.seats)
        for turn in range(turns):
            yield from self._failures(turn)
            yield from self._before(turn)
            yield from self._round(turn)
        for number in range(len(match.seats)):
            for check in self._outcome(number):
                yield _of_seat(number, check)
        yield from self._failures(turns)

    def _before(self, turn: int) -> Iterator[Check]:
        """Yield checks of who acts in a round, the prompt of each, and the replies of controls."""
        for number, (seat, record) in enumerate(
            zip(self.table.seats, self.match.seats, strict=True)
        ):
            count = len(record.turns)
            if turn >= count:
                if seat.end is None and not record.end.is_failure:
                    yield _of_seat(number, Check(None, "turns", count, turn + 1))
                continue
            if seat.end is not None:
                yield _of_seat(number, Check(None, "turns", count, turn))
            recorded = record.turns[turn]
            yield _of_seat(number, Check(turn + 1, "user", recorded.user, seat.user))
            yield _of_seat(number, Check(turn + 1, "picture", recorded.picture, None))
            if record.agent in CONTROLS:
                request = self._request(number, turn)
                for check in control_checks(turn + 1, recorded, record.agent, request):
                    yield _of_seat(number, check)

    def _request(self, number: int, turn: int) -> Request:
        seat = self.table.seats[number]
        seed = seat_seed(self.match.sampling_seed, self.spec, number, turn)
        return Request(seat.messages, seed, seat)

    def _failures(self, turn: int) -> Iterator[Check]:
        """Yield checks that the controls whose records fail in a round do fail in it."""
        for number in self._asked(turn):
            record = self.match.seats[number]
            if record.agent in CONTROLS and record.end.is_failure and len(record.turns) == turn:
                play = partial(self._play_unrecorded, turn, record.error)
                what = next_of_control(record.agent, self._request(number, turn), play)
                yield _of_seat(number, Check(turn + 1, "reply", str(record.end), what))

    def _asked(self, turn: int) -> list[int]:
        """Return the seats that are asked for a reply in a round."""
        pairs = enumerate(zip(self.table.seats, self.match.seats, strict=True))
        return [n for n, (seat, record) in pairs if seat.end is None and len(record.turns) >= turn]

    def _play_unrecorded(self, turn: int, error: str | None, _reply: str) -> None:
        """Play a round of which no turn was recorded, as where the game breaks; raises what the game does."""
        asked = [(number, self.match.seats[number]) for number in self._asked(turn)]
        if any(len(record.turns) > turn for _, record in asked):
            return
        spoken = {number: record.agent for number, record in asked if record.error == error}
        if not CONTROLS.keys() >= set(spoken.values()):
            raise RuntimeError(error)  # what another agent said is not recorded, so nobody can tell
        replies = dict.fromkeys(self.table.agents, "")
        for number, agent in spoken.items():
            (reply,) = CONTROLS[agent]().act([self._request(number, turn)])
            replies[self.table.possible_agents[number]] = reply.text
        copy.deepcopy(self.table).play(replies, {})

    def _round(self, turn: int) -> Iterator[Check]:
        """Play a round, in which failed seats stay silent, and yield checks of what it did."""
        agents = self.table.possible_agents
        spoken = {
            number: seat.turns[turn]
            for number, seat in enumerate(self.match.seats)
            if turn < len(seat.turns)
        }
        replies = dict.fromkeys(self.table.agents, "")
        replies |= {agents[number]: recorded.reply for number, recorded in spoken.items()}
        cut_off = {agents[number]: recorded.cut_off for number, recorded in spoken.items()}
        results = self.table.play(replies, cut_off)
        for number, recorded in spoken.items():
            result, names = results[agents[number]], self.table.seats[number].names
            self._ends[number] = result.end
            self._returns[number] += result.reward
            for check in result_checks(turn + 1, recorded, result, names):
                yield _of_seat(number, check)

    def _outcome(self, number: int) -> Iterator[Check]:
        record, seat, end = (
            self.match.seats[number],
            self.table.seats[number],
            self._ends.get(number),
        )
        cut_short = record.end.is_failure and end is None
        yield Check(None, "end", record.end, record.end if cut_short else end)
        yield Check(None, "error", record.error is not None, record.end == EndReason.ERROR)
        yield Check(None, "success", record.success, seat.success and not cut_short)
        yield Check(None, "episode_return", record.episode_return, self._returns[number])
        yield Check(None, "closing", record.closing, "" if cut_short else seat.user)
