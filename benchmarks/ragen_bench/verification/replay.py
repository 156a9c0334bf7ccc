"""Replay recorded episodes and matches from their replies and recompute every field."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ragen_agents.pictures import picture_hash
from ragen_agents.policies import CONTROLS, Request
from ragen_agents.rollout import Episode, MatchRecord, SeatRecord, TurnRecord, sampling_seed
from ragen_agents.rollout.episode_runner import References, make_env
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, seat_seed
from ragen_bench.config.run_config import MatchConfig, RunConfig
from ragen_bench.config.suites import task_spec
from ragen_bench.evaluation.match_player import match_spec
from ragen_bench.runs.records import replay_spec
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import ConversationEnd, EndReason, TurnResult
from ragen_envs.game.text import action_texts

_ROUNDING: Final = 1e-12
"""Processors add the products of a matrix in orders of their own, so the last digits of a sum may differ."""


class Check(NamedTuple):
    """One field as it was recorded and as it must be."""

    turn: int | None
    """Number of the turn from 1, or None for what belongs to the whole episode."""
    field: str
    recorded: Any
    recomputed: Any

    @property
    def holds(self) -> bool:
        """Whether both are equal; of probabilities, but for what another processor may round otherwise."""
        if isinstance(self.recorded, float) and isinstance(self.recomputed, float):
            return math.isclose(self.recorded, self.recomputed, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        return bool(self.recorded == self.recomputed)


def config_checks(config: RunConfig, episode: Episode) -> Iterator[Check]:
    """Yield checks of an episode against the run's config; its key must be one of the config's."""
    task = config.suite.tasks[episode.task]
    spec = task_spec(config.suite, episode.task, episode.instance.index or 0)
    expected = {
        "suite_version": SUITE_VERSION,
        "env_id": task.env,
        "env_kwargs": spec.env_kwargs,
        "instance.split": spec.split,
        "instance.seed": None,
        "instance.noise": episode.attempt,
        "sampling_seed": config.suite.seed,
    }
    yield from _fields(episode, expected)


def _fields(record: object, recomputed: Mapping[str, Any], turn: int | None = None) -> Iterator[Check]:
    """Yield checks of fields of a record, by name."""
    for name, value in recomputed.items():
        yield Check(turn, name, attrgetter(name)(record), value)


def replay(episode: Episode) -> Iterator[Check]:
    """Yield a check of every field that the game decides, in the order of play.

    Look at the first check that fails: the game may have diverged after it. The
    episode's config must have been checked before.
    """
    spec = replay_spec(episode)
    env = make_env(spec)
    yield from _of_instance(episode, env.unwrapped.instance)  # type: ignore[attr-defined]
    examples = tuple((example.user, example.reply) for example in env.examples)
    yield from _fields(episode, {"system": env.system, "examples": examples})
    yield from _fields(episode, References.of(env)._asdict())
    total: list[float] = []
    for number, turn in enumerate(episode.turns):
        if env.end is not None:
            yield Check(None, "turns", len(episode.turns), number)
        if episode.agent in CONTROLS:
            seed = sampling_seed(episode.sampling_seed, spec, number)
            request = Request(env.messages, seed, env)
            yield from control_checks(number + 1, turn, episode.agent, request)
        picture = picture_hash(env.pictures[-1]) if env.pictures else None
        yield from _fields(turn, {"user": env.user, "picture": picture}, number + 1)
        result = env.play(turn.reply, truncated=turn.cut_off)
        total.append(result.reward)
        yield from result_checks(number + 1, turn, result, env.names)
    yield from _outcome(episode, env.end, bool(env.success), sum(total), env.user)
    yield Check(None, "has_success", episode.has_success, env.success is not None)
    if episode.agent in CONTROLS and episode.end.is_failure:
        count = len(episode.turns)
        request = Request(env.messages, sampling_seed(episode.sampling_seed, spec, count), env)
        what = next_of_control(episode.agent, request, env.play)
        yield Check(count + 1, "reply", str(episode.end), what)


def _of_instance(record: Episode | MatchRecord, instance: object) -> Iterator[Check]:
    yield from _fields(record, {f"instance.{name}": value for name, value in vars(instance).items()})


def control_checks(number: int, turn: TurnRecord, agent: str, request: Request) -> Iterator[Check]:
    """Yield checks of the reply itself: those of controls can be recomputed."""
    (reply,) = CONTROLS[agent]().act([request])
    names = ("cut_off", "prompt_tokens", "reply_tokens", "tokens_estimated", "reasoning")
    yield from _fields(turn, {"reply": reply.text, **{name: getattr(reply, name) for name in names}}, number)


def next_of_control(agent: str, request: Request, play: Callable[[str], object]) -> str:
    """Return a control's reply where its record says that it failed, or "error" if it does fail."""
    try:
        (reply,) = CONTROLS[agent]().act([request])
        play(reply.text)
    except Exception:  # whatever a game raises ended the episode when it was played
        return str(EndReason.ERROR)
    return reply.text


def result_checks(number: int, turn: TurnRecord, result: TurnResult, names: Sequence[str]) -> Iterator[Check]:
    """Yield checks of what a reply did."""
    recomputed = {
        "defects": tuple(map(str, result.parsed.defects)),
        "soft_defects": tuple(map(str, result.parsed.soft_defects)),
        "actions": action_texts(names, result.parsed.actions),
        "executed": action_texts(names, result.executed),
        "effective": result.effective,
        "rewards": result.rewards,
        "penalty": result.penalty,
    }
    yield from _fields(turn, recomputed, number)


def _outcome(
    record: Episode | SeatRecord, end: ConversationEnd | None, success: bool, total: float, closing: str
) -> Iterator[Check]:
    cut_short = record.end.is_failure and end is None
    yield Check(None, "end", record.end, record.end if cut_short else end)
    yield Check(None, "error", record.error is not None, record.end == EndReason.ERROR)
    yield Check(None, "success", record.success, success and not cut_short)
    yield from _fields(record, {"episode_return": total, "closing": "" if cut_short else closing})


def match_checks(config: MatchConfig, match: MatchRecord) -> Iterator[Check]:
    """Yield a check of every field of a match, in the order of play; its key must be the config's.

    Look at the first check that fails: the game may have diverged after it.
    """
    task = config.suite.tasks[match.task]
    expected = {
        "suite_version": SUITE_VERSION,
        "env_id": task.env,
        "env_kwargs": task.settings,
        "instance.split": config.suite.split,
        "sampling_seed": config.suite.seed,
    }
    yield from _fields(match, expected)
    yield from _Replay(match, match_spec(config.suite, match.key)).checks()


def _of_seat(number: int, checks: Iterable[Check]) -> Iterator[Check]:
    for check in checks:
        yield check._replace(field=f"player_{number}.{check.field}")


class _Replay:
    """A match being replayed."""

    def __init__(self, match: MatchRecord, spec: MatchSpec) -> None:
        self.match, self.spec = match, spec
        self.table = make_match_env(spec.env_id, spec.env_kwargs)
        self.table.reset(seed=spec.level, options={"split": spec.split})
        self._ends: dict[int, ConversationEnd | None] = {}
        """End of the game for each seat, as its last turn has it."""
        self._returns = [0.0] * len(match.seats)

    def checks(self) -> Iterator[Check]:
        match, table = self.match, self.table
        yield Check(None, "seats", len(match.seats), table.game.players)
        yield from _of_instance(match, table.game.instance)
        for number, seat in enumerate(match.seats):
            yield from _of_seat(number, _fields(seat, {"system": table.seats[number].system}))
        turns = max(len(seat.turns) for seat in match.seats)
        for turn in range(turns):
            yield from self._failures(turn)
            yield from self._before(turn)
            yield from self._round(turn)
        for number in range(len(match.seats)):
            played, record = table.seats[number], match.seats[number]
            end, total = self._ends.get(number), self._returns[number]
            yield from _of_seat(number, _outcome(record, end, played.success, total, played.user))
        yield from self._failures(turns)

    def _before(self, turn: int) -> Iterator[Check]:
        """Yield checks of who acts in a round, the prompt of each, and the replies of controls."""
        for number, (seat, record) in enumerate(zip(self.table.seats, self.match.seats, strict=True)):
            count = len(record.turns)
            if turn >= count:
                if seat.end is None and not record.end.is_failure:
                    yield from _of_seat(number, [Check(None, "turns", count, turn + 1)])
                continue
            if seat.end is not None:
                yield from _of_seat(number, [Check(None, "turns", count, turn)])
            recorded = record.turns[turn]
            shown = {"user": seat.user, "picture": None}
            yield from _of_seat(number, _fields(recorded, shown, turn + 1))
            if record.agent in CONTROLS:
                request = self._request(number, turn)
                yield from _of_seat(number, control_checks(turn + 1, recorded, record.agent, request))

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
                yield from _of_seat(number, [Check(turn + 1, "reply", str(record.end), what)])

    def _asked(self, turn: int) -> list[int]:
        """Return the seats that are asked for a reply in a round."""
        pairs = enumerate(zip(self.table.seats, self.match.seats, strict=True))
        return [n for n, (seat, record) in pairs if seat.end is None and len(record.turns) >= turn]

    def _play_unrecorded(self, turn: int, error: str | None, _reply: str) -> None:
        """Play a round of which no turn was recorded, as where the game breaks; raises what the game does."""
        requested = [(number, self.match.seats[number]) for number in self._asked(turn)]
        if any(len(record.turns) > turn for _, record in requested):
            return
        spoken = {number: record.agent for number, record in requested if record.error == error}
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
            number: seat.turns[turn] for number, seat in enumerate(self.match.seats) if turn < len(seat.turns)
        }
        replies = dict.fromkeys(self.table.agents, "")
        replies |= {agents[number]: recorded.reply for number, recorded in spoken.items()}
        cut_off = {agents[number]: recorded.cut_off for number, recorded in spoken.items()}
        results = self.table.play(replies, cut_off)
        for number, recorded in spoken.items():
            if agents[number] not in results:  # it had left the game, as the check of its turns says
                continue
            result, names = results[agents[number]], self.table.seats[number].names
            self._ends[number] = result.end
            self._returns[number] += result.reward
            yield from _of_seat(number, result_checks(turn + 1, recorded, result, names))
