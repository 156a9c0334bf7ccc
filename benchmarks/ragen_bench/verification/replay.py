"""Replay recorded episodes and matches from their replies and recompute every field."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ragen_agents.pictures import picture_hash
from ragen_agents.policies import CONTROLS, Request
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.rollout import Episode, MatchRecord, TurnRecord, sampling_seed
from ragen_agents.rollout.episode_runner import References, make_env
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, seat_seed
from ragen_bench.config.run_config import BaseConfig, MatchConfig, RunConfig
from ragen_bench.config.suites import task_spec
from ragen_bench.evaluation.match_player import match_spec
from ragen_bench.runs.records import replay_spec
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import ConversationEnd, ConversationWrapper, EndReason, TurnResult
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
    instance = episode.instance
    yield Check(None, "suite_version", episode.suite_version, SUITE_VERSION)
    yield Check(None, "env_id", episode.env_id, task.env)
    spec = task_spec(config.suite, episode.task, instance.index or 0)
    yield Check(None, "env_kwargs", episode.env_kwargs, spec.env_kwargs)
    yield Check(None, "instance.split", instance.split, spec.split)
    yield Check(None, "instance.seed", instance.seed, None)
    yield Check(None, "instance.noise", instance.noise, episode.attempt)
    yield Check(None, "sampling_seed", episode.sampling_seed, config.suite.seed)


def token_checks(config: BaseConfig, agent: str, turns: Sequence[TurnRecord]) -> Iterator[Check]:
    """Yield checks of how many tokens an agent's replies have, where this suite has counted them.

    Only for the config of a run: in an entry a Python agent, which counts its own, has another name.
    """
    if not _counts_here(config, agent):
        return
    limit = config.suite.sampling.max_tokens
    for number, turn in enumerate(turns, start=1):
        tokens = turn.reply_tokens
        if tokens is not None:
            yield Check(number, "reply_tokens", tokens, min(max(tokens, 0), limit))


def _counts_here(config: BaseConfig, agent: str) -> bool:
    """Return whether the tokens of an agent were counted by this suite, not reported by a server."""
    entry = next(entry for entry in config.agents if entry.name == agent)
    return entry.endpoint is None and not entry.live and not is_python_agent(agent)


def replay(episode: Episode) -> Iterator[Check]:
    """Yield a check of every field that the game decides, in the order of play.

    Look at the first check that fails: the game may have diverged after it. The
    episode's config must have been checked before.
    """
    instance, spec = episode.instance, replay_spec(episode)
    env = make_env(spec)
    for name, value in vars(env.unwrapped.instance).items():  # type: ignore[attr-defined]
        yield Check(None, f"instance.{name}", getattr(instance, name), value)
    yield Check(None, "system", episode.system, env.system)
    examples = tuple((example.user, example.reply) for example in env.examples)
    yield Check(None, "examples", episode.examples, examples)
    for name, value in References.of(env)._asdict().items():
        yield Check(None, name, getattr(episode, name), value)
    total: list[float] = []
    for number, turn in enumerate(episode.turns):
        if env.end is not None:
            yield Check(None, "turns", len(episode.turns), number)
        if episode.agent in CONTROLS:
            seed = sampling_seed(episode.sampling_seed, spec, number)
            request = Request(env.messages, seed, env)
            yield from control_checks(number + 1, turn, episode.agent, request)
        yield from _turn(number + 1, turn, env, total)
    yield from _outcome(episode, env, total)
    if episode.agent in CONTROLS and episode.end.is_failure:
        count = len(episode.turns)
        request = Request(env.messages, sampling_seed(episode.sampling_seed, spec, count), env)
        what = next_of_control(episode.agent, request, env.play)
        yield Check(count + 1, "reply", str(episode.end), what)


def control_checks(number: int, turn: TurnRecord, agent: str, request: Request) -> Iterator[Check]:
    """Yield checks of the reply itself: those of controls can be recomputed."""
    (reply,) = CONTROLS[agent]().act([request])
    yield Check(number, "reply", turn.reply, reply.text)
    for name in ("cut_off", "prompt_tokens", "reply_tokens", "tokens_estimated", "reasoning"):
        yield Check(number, name, getattr(turn, name), getattr(reply, name))


def next_of_control(agent: str, request: Request, play: Callable[[str], object]) -> str:
    """Return a control's reply where its record says that it failed, or "error" if it does fail."""
    try:
        (reply,) = CONTROLS[agent]().act([request])
        play(reply.text)
    except Exception:  # whatever a game raises ended the episode when it was played
        return str(EndReason.ERROR)
    return reply.text


def _turn(number: int, turn: TurnRecord, env: ConversationWrapper, total: list[float]) -> Iterator[Check]:
    yield Check(number, "user", turn.user, env.user)
    picture = picture_hash(env.pictures[-1]) if env.pictures else None
    yield Check(number, "picture", turn.picture, picture)
    result = env.play(turn.reply, truncated=turn.cut_off)
    total.append(result.reward)
    yield from result_checks(number, turn, result, env.names)


def result_checks(number: int, turn: TurnRecord, result: TurnResult, names: Sequence[str]) -> Iterator[Check]:
    """Yield checks of what a reply did."""
    actions = action_texts(names, result.parsed.actions)
    yield Check(number, "defects", turn.defects, tuple(str(d) for d in result.parsed.defects))
    soft = tuple(str(d) for d in result.parsed.soft_defects)
    yield Check(number, "soft_defects", turn.soft_defects, soft)
    yield Check(number, "actions", turn.actions, actions)
    yield Check(number, "executed", turn.executed, action_texts(names, result.executed))
    yield Check(number, "effective", turn.effective, result.effective)
    yield Check(number, "rewards", turn.rewards, result.rewards)
    yield Check(number, "penalty", turn.penalty, result.penalty)


def _outcome(episode: Episode, env: ConversationWrapper, total: list[float]) -> Iterator[Check]:
    cut_short = episode.end.is_failure and env.end is None
    yield Check(None, "end", episode.end, episode.end if cut_short else env.end)
    yield Check(None, "error", episode.error is not None, episode.end == EndReason.ERROR)
    yield Check(None, "success", episode.success, bool(env.success) and not cut_short)
    yield Check(None, "has_success", episode.has_success, env.success is not None)
    yield Check(None, "episode_return", episode.episode_return, sum(total))
    yield Check(None, "closing", episode.closing, "" if cut_short else env.user)


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
        """End of the game for each seat, as its last turn has it."""
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
        for number, (seat, record) in enumerate(zip(self.table.seats, self.match.seats, strict=True)):
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
            for check in result_checks(turn + 1, recorded, result, names):
                yield _of_seat(number, check)

    def _outcome(self, number: int) -> Iterator[Check]:
        record, seat, end = (self.match.seats[number], self.table.seats[number], self._ends.get(number))
        cut_short = record.end.is_failure and end is None
        yield Check(None, "end", record.end, record.end if cut_short else end)
        yield Check(None, "error", record.error is not None, record.end == EndReason.ERROR)
        yield Check(None, "success", record.success, seat.success and not cut_short)
        yield Check(None, "episode_return", record.episode_return, self._returns[number])
        yield Check(None, "closing", record.closing, "" if cut_short else seat.user)
