"""Verify a run: replay every episode and match from its replies, and recompute every field."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ragen_agents.pictures import picture_hash
from ragen_agents.policies import CONTROLS, Request
from ragen_agents.rollout import Episode, MatchRecord, SeatRecord, TurnRecord, sampling_seed
from ragen_agents.rollout.episode_runner import References, make_env
from ragen_agents.rollout.match_runner import MatchSpec, make_match_env, seat_seed
from ragen_bench.config.run_config import (
    AnyConfig,
    EditedFileError,
    MatchConfig,
    RunConfig,
    Units,
    load_config,
)
from ragen_bench.config.suites import check_suite, task_spec
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.match_player import count_seats, match_spec
from ragen_bench.evaluation.ray_cluster import RayCluster, check_placement
from ragen_bench.runs.checksums import check_lines, read_checksums
from ragen_bench.runs.directory import EPISODES, check_keys, read_episodes
from ragen_bench.runs.environments import check_environment
from ragen_bench.runs.picture_files import PICTURES, kept_hash
from ragen_bench.runs.records import Record, WrongEpisodeError, replay_spec
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import ConversationEnd, EndReason, TurnResult
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts

if TYPE_CHECKING:
    from ragen_envs.multi_agent.conversation import MultiAgentConversation

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
    task, spec = config.suite.tasks[match.task], match_spec(config.suite, match.key)
    expected = {
        "suite_version": SUITE_VERSION,
        "env_id": task.env,
        "env_kwargs": task.settings,
        "instance.split": spec.split,
        "sampling_seed": config.suite.seed,
    }
    yield from _fields(match, expected)
    table = make_match_env(spec.env_id, spec.env_kwargs)
    table.reset(seed=spec.level, options={"split": spec.split})
    yield Check(None, "seats", len(match.seats), table.game.players)
    yield from _of_instance(match, table.game.instance)
    for number, seat in enumerate(match.seats):
        yield from _of_seat(number, _fields(seat, {"system": table.seats[number].system}))
    ends: dict[int, ConversationEnd | None] = {}
    returns = [0.0] * len(match.seats)
    for turn in range(max(len(seat.turns) for seat in match.seats)):
        for number in range(len(match.seats)):
            yield from _of_seat(number, _before(table, match, spec, number, turn))
        for number, result in _round(table, match, turn):
            ends[number] = result.end
            returns[number] += result.reward
            recorded, names = match.seats[number].turns[turn], table.seats[number].names
            yield from _of_seat(number, result_checks(turn + 1, recorded, result, names))
    for number, (seat, played) in enumerate(zip(match.seats, table.seats, strict=True)):
        outcome = _outcome(seat, ends.get(number), played.success, returns[number], played.user)
        yield from _of_seat(number, outcome)


def _of_seat(number: int, checks: Iterable[Check]) -> Iterator[Check]:
    for check in checks:
        yield check._replace(field=f"player_{number}.{check.field}")


def _before(
    table: "MultiAgentConversation", match: MatchRecord, spec: MatchSpec, number: int, turn: int
) -> Iterator[Check]:
    """Yield checks of whether a seat acts in a round, its prompt, and its reply if it is a control's."""
    seat, record = table.seats[number], match.seats[number]
    count = len(record.turns)
    if turn >= count:
        if seat.end is None and not record.end.is_failure:
            yield Check(None, "turns", count, turn + 1)
        return
    if seat.end is not None:
        yield Check(None, "turns", count, turn)
    yield from _fields(record.turns[turn], {"user": seat.user, "picture": None}, turn + 1)
    if record.agent in CONTROLS:
        request = Request(seat.messages, seat_seed(match.sampling_seed, spec, number, turn), seat)
        yield from control_checks(turn + 1, record.turns[turn], record.agent, request)


def _round(table: "MultiAgentConversation", match: MatchRecord, turn: int) -> list[tuple[int, TurnResult]]:
    """Play a round, in which failed seats stay silent, and return what each reply did, by seat."""
    agents = table.possible_agents
    spoken = {n: seat.turns[turn] for n, seat in enumerate(match.seats) if turn < len(seat.turns)}
    replies = dict.fromkeys(table.agents, "") | {agents[n]: said.reply for n, said in spoken.items()}
    results = table.play(replies, {agents[n]: said.cut_off for n, said in spoken.items()})
    # One that had left the game has no result, as the check of its turns says.
    return [(n, results[agents[n]]) for n in spoken if agents[n] in results]


_CHUNK: Final = 128
"""Records that one call replays on a cluster."""


class MismatchError(Exception):
    """The first mismatch in a run."""


class Verified(NamedTuple):
    """The coverage of a verification."""

    episodes: int
    turns: int
    missing: int
    """Episodes of the config that are missing."""
    torn: bool
    """Whether an incomplete last line was skipped."""
    hashed: bool
    """Whether there were checksums."""
    unhashed: int
    """Episodes at the end that the checksums do not cover, as an interruption leaves them."""
    units: Units = "episodes"
    """Records of the run, which the counts are of."""


Replay = Callable[[str, Sequence[Record[Any]], AnyConfig], Iterator[str | None]]
"""Replays records; yields the first difference of each, or None."""


def replay_here(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> Iterator[str | None]:
    """Replay records in this process."""
    return (mismatch(what, record, config) for record in records)


def replay_on_ray(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> Iterator[str | None]:
    """Replay records on the cluster at ``RAY_ADDRESS``, or on the CPUs of this machine.

    Raises:
        RagenError: There is no such cluster, or it lost the same records too often.
    """
    chunks = (records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK))
    calls = ((what, list(chunk), config) for chunk in chunks)
    return chain.from_iterable(RayCluster(1, 0).map(_mismatches, calls))


def _mismatches(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> list[str | None]:
    return [mismatch(what, record, config) for record in records]


def replayer(backend: str) -> Replay:
    """Return the function that replays records on a backend, "local" or "ray"."""
    check_placement(backend, None)
    return replay_on_ray if backend == "ray" else replay_here


def verify_run(folder: Path, track: Track = iter, replay_all: Replay = replay_here) -> Verified:
    """Replay every episode of a run.

    Raises:
        MismatchError: Something differs; the message names file, line, episode, turn and field.
        RagenError: The run cannot be read.
    """
    path = folder / EPISODES
    # The run may continue meanwhile: hashes read before need episodes, and episodes hashes read after.
    before = read_checksums(folder)
    try:
        config = load_config(folder)
        read = read_episodes(folder, config)
        check_environment(folder)
        check_keys(folder, read, config)
    except (WrongEpisodeError, EditedFileError) as error:
        raise MismatchError(str(error)) from error
    checksums = read_checksums(folder)
    if isinstance(config, MatchConfig):  # refuse games, settings and levels that do not exist
        count_seats(config.suite, ())
    else:
        check_suite(config.suite)
    replayed = replay_all(str(path), read.records, config)
    for record in track(read.records):
        if (differs := next(replayed)) is not None:
            raise MismatchError(differs)
        _verify_pictures(path, record)
    try:
        for written in (before or [], (checksums or [])[: len(read.records)]):
            check_lines(folder, read.records, written)
    except EditedFileError as error:
        raise MismatchError(str(error)) from error
    bare = 0 if checksums is None else max(0, len(read.records) - len(checksums))
    turns = sum(len(episode.turns) for episode in read.episodes)
    missing = len(config.keys) - len(read.records)
    hashed = checksums is not None
    return Verified(len(read.records), turns, missing, read.torn, hashed, bare, config.units)


def mismatch(what: str, record: Record[Any], config: AnyConfig) -> str | None:
    """Replay one episode of a run, whose key must be one of the config's, and return what differs first."""
    wrong = next((check for check in _checks(config, record) if not check.holds), None)
    if wrong is None:
        return None
    turn = "" if wrong.turn is None else f", turn {wrong.turn}"
    text = (
        f"{what} line {record.line}: {record.episode.key}{turn}, {wrong.field}: "
        f"recorded {_short(wrong.recorded)}, recomputed {_short(wrong.recomputed)}"
    )
    first, second = ([str(check.recomputed) for check in _checks(config, record)] for _ in range(2))
    if first == second:
        return text
    return (
        f"{text}; two more replays of it differ from each other, so the environment is not "
        "deterministic under a seed and its runs cannot be verified"
    )


def _checks(config: AnyConfig, record: Record[Any]) -> Iterator[Check]:
    try:
        if isinstance(config, MatchConfig):
            yield from match_checks(config, record.episode)
        else:
            yield from chain(config_checks(config, record.episode), replay(record.episode))
    except RagenError as error:
        yield Check(None, "replay", "was played", f"{error}")
    # Only the current suite version is replayed, and its records are of the current schema.
    schema = type(record.episode).model_fields["schema_version"].default
    yield Check(None, "schema_version", record.episode.schema_version, schema)


def _verify_pictures(path: Path, record: Record[Any]) -> None:
    """Check that the files hold the pictures that the agent saw; controls and seats see none."""
    if isinstance(record.episode, MatchRecord) or record.episode.agent in CONTROLS:
        return
    for number, turn in enumerate(record.episode.turns, start=1):
        if turn.picture is None:
            continue
        stored = kept_hash(path.parent, turn.picture)
        if stored != turn.picture:
            raise MismatchError(
                f"{path} line {record.line}: {record.episode.key}, turn {number}, the file "
                f"{PICTURES}/{turn.picture}.png: recorded {turn.picture[:12]}, found {stored[:80]}"
            )


def _short(value: object) -> str:
    """Return a value for a message; ``repr`` escapes what a terminal would obey."""
    text = repr(str(value) if isinstance(value, StrEnum) else value)
    return text if len(text) <= 300 else f"{text[:297]}..."
