"""One episode while it is played, and its record, which is the same however it is played."""

import math
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ragen_agents.policies.base import Reply, Request
from ragen_agents.rollout.episode import Episode, InstanceRecord, TurnRecord, describe_error, record_turn
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import ConversationWrapper, EndReason, make
from ragen_envs.conversation.game_errors import incomplete, named_errors
from ragen_envs.errors import SolverLimitError
from ragen_envs.levels.seeding import new_stream

_ONE: Final = 1 + 1e-9  # sums of rounded probabilities
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class EpisodeSpec:
    """A game, its settings and an instance to play."""

    task: str
    """Row of the suite."""
    env_id: str
    """Id of a conversation env."""
    index: int
    """Index of the frozen instance."""
    split: str = "test"
    noise: int = 0
    """Number of the instance's noise draw."""
    attempt: int = 0
    """Number of the try, which changes the policy's draws and nothing else."""
    env_kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    """Keywords for the env, over those of its id."""


def sampling_seed(run_seed: int, spec: EpisodeSpec, turn: int) -> int:
    """Return the sampling seed of a reply, in [0, 2^63); it depends on the arguments only."""
    what = f"{spec.env_id} {spec.split} {spec.noise} {spec.attempt} {turn}"
    return new_stream(f"policy {run_seed}", what, spec.index)


def make_env(spec: EpisodeSpec) -> ConversationWrapper:
    """Make the conversation of a spec and load its instance."""
    env = make(spec.env_id, **spec.env_kwargs)
    with named_errors(env.unwrapped):
        env.reset(options={"split": spec.split, "index": spec.index, "noise": spec.noise})
    return env


class References(NamedTuple):
    """Exact numbers of a level under the whole budget, against which an episode is measured."""

    optimal_success: float | None = None
    optimal_return: float | None = None
    random_success: float | None = None
    random_return: float | None = None

    @classmethod
    def of(cls, env: ConversationWrapper) -> "References":
        """Return those of a conversation that has not begun; None where the game does not compute one."""
        game = env.unwrapped
        with named_errors(game):
            if not isinstance(level := getattr(game, "level", ""), str):
                raise incomplete(game, f"level is {level!r:.80}, but must be a text")
            if getattr(game, "success", False):
                raise incomplete(game, "success is true before the first action")
            references = cls(**_optimum(env))
            if (chance := env.random_baseline()) is not None:
                references = references._replace(
                    random_success=chance.success, random_return=chance.expected_return
                )
            for name, number in references._asdict().items():
                if number is None:
                    continue
                if not math.isfinite(number):
                    raise incomplete(game, f"{name} is {number}, but must be a finite number")
                if "success" in name and not 0 <= number <= _ONE:
                    raise incomplete(game, f"{name} is {number}, but must be a probability")
            best, random = references.optimal_success, references.random_success
            if best is not None and random is not None and random > best + _ROUNDING:
                raise incomplete(
                    game, f"random_success is {random}, but must not exceed optimal_success, {best}"
                )
        return references


def _optimum(env: ConversationWrapper) -> dict[str, float]:
    """Return the fields of the optimum, or none where the exact search gives up."""
    try:
        advice, paid = env.oracle(), env.max_return()
    except SolverLimitError:
        return {}
    if advice.actions and advice.expected_return > paid + _ROUNDING * max(1.0, abs(paid)):
        raise incomplete(
            env.unwrapped,
            f"max_return is {paid}, but must not be below the oracle's expected_return, "
            f"{advice.expected_return}",
        )
    return {"optimal_success": advice.value, "optimal_return": paid}


class Answer(NamedTuple):
    """The reply of a policy, or the error instead."""

    reply: Reply | Exception
    seconds: float


class EpisodeRunner:
    """One episode: the request that waits for a reply, the replies so far, the record at the end."""

    def __init__(self, spec: EpisodeSpec, run_seed: int) -> None:
        self.spec = spec
        self.run_seed = run_seed
        self.env = make_env(spec)
        self.turns: list[TurnRecord] = []
        self.end: EndReason | None = None
        self.error: str | None = None
        self._references = References.of(self.env)

    def request(self) -> Request:
        """Return the request that waits for a reply."""
        seed = sampling_seed(self.run_seed, self.spec, len(self.turns))
        env = self.env
        return Request(env.messages, seed, env, tuple(env.pictures), env.settings.prefix)

    def play(self, answer: Answer) -> None:
        """Play a reply and record what it did; an error of policy or game ends the episode instead."""
        reply, seconds = answer
        if isinstance(reply, Exception):
            self._fail(reply)
        elif reply.overflow:
            self.end = EndReason.OVERFLOW
        else:
            user, pictures = self.env.user, self.env.pictures
            try:
                result = self.env.play(reply.text, reply.cut_off)
            except Exception as error:
                self._fail(error)
            else:
                self.turns.append(record_turn(user, pictures, reply, result, self.env.names, seconds))
                self.end = result.end

    def _fail(self, error: Exception) -> None:
        self.end, self.error = EndReason.ERROR, describe_error(error)

    def record(self, agent: str) -> Episode:
        """Return the record of the episode, which must have ended."""
        assert self.end is not None
        instance = self.env.unwrapped.instance  # type: ignore[attr-defined]
        return Episode(
            suite_version=SUITE_VERSION,
            task=self.spec.task,
            env_id=self.spec.env_id,
            env_kwargs=dict(self.spec.env_kwargs),
            instance=InstanceRecord(**vars(instance)),
            agent=agent,
            attempt=self.spec.attempt,
            sampling_seed=self.run_seed,
            system=self.env.system,
            examples=tuple((example.user, example.reply) for example in self.env.examples),
            turns=tuple(self.turns),
            closing="" if self.end.is_failure else self.env.user,
            success=bool(self.env.success) and not self.end.is_failure,
            has_success=self.env.success is not None,
            episode_return=sum(turn.reward for turn in self.turns),
            **self._references._asdict(),
            end=self.end,
            error=self.error,
        )
