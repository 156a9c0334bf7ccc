"""Play episodes with a policy, in lock-step: every open episode of a batch gets its turn together."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from ragen_agents.policies.base import Policy, Reply, Request
from ragen_agents.rollout.episode import End, Episode, InstanceRecord, TurnRecord
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import (
    ConversationVector,
    ConversationWrapper,
    TurnResult,
    make_conversation_vector,
)
from ragen_envs.errors import RagenError
from ragen_envs.seeding import new_stream


@dataclass(frozen=True)
class EpisodeSpec:
    """What is to be played."""

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
    """Return the seed of a reply's draws, in [0, 2^63); it depends on nothing but its arguments."""
    what = f"{spec.env_id} {spec.split} {spec.noise} {spec.attempt} {turn}"
    return new_stream(f"policy {run_seed}", what, spec.index)


def make_env(spec: EpisodeSpec) -> ConversationWrapper:
    """Make the conversation that a spec names and load its instance."""
    return _make_vector([spec]).conversations[0]


def _make_vector(specs: Sequence[EpisodeSpec]) -> ConversationVector:
    """Make the conversations of specs that differ in their instances only, and load these."""
    env_id = specs[0].env_id
    try:
        defaults = gym.spec(env_id).kwargs
    except gym.error.Error as error:
        raise RagenError(f"unknown game '{env_id}'; `ragen games` lists them") from error
    vector = make_conversation_vector(num=len(specs), **{**defaults, **specs[0].env_kwargs})
    vector.reset(
        split=specs[0].split,
        indices=[spec.index for spec in specs],
        noises=[spec.noise for spec in specs],
    )
    return vector


class _Game:
    """One episode while it is played."""

    def __init__(
        self, spec: EpisodeSpec, run_seed: int, vector: ConversationVector, i: int
    ) -> None:
        self.spec = spec
        self.run_seed = run_seed
        self.vector = vector
        self.id = i
        self.env = vector.conversations[i]
        self.turns: list[TurnRecord] = []
        self.end: End | None = None
        self.error: str | None = None
        advice = self.env.oracle()
        self.optimum = (advice.value, advice.expected_return)

    def request(self) -> Request:
        seed = sampling_seed(self.run_seed, self.spec, len(self.turns))
        return Request(self.env.messages, seed, self.env)

    def record(self, user: str, reply: Reply, result: TurnResult, seconds: float) -> None:
        names = self.env.names
        self.turns.append(
            TurnRecord(
                user=user,
                reply=reply.text,
                cut_off=reply.cut_off,
                prompt_tokens=reply.prompt_tokens,
                reply_tokens=reply.reply_tokens,
                actions=tuple(names[a] for a in result.parsed.actions),
                executed=tuple(names[a] for a in result.executed),
                effective=result.effective,
                defects=tuple(str(d) for d in result.parsed.defects),
                rewards=result.rewards,
                penalty=result.penalty,
                seconds=seconds,
            )
        )
        self.end = result.end

    def fail(self, error: Exception) -> None:
        self.end = "error"
        self.error = f"{type(error).__name__}: {error}"[:2000]

    def episode(self, agent: str) -> Episode:
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
            turns=tuple(self.turns),
            closing=self.env.user if self.env.end is not None else "",
            success=self.env.success and self.end not in ("error", "overflow"),
            episode_return=sum(turn.reward for turn in self.turns),
            optimal_success=self.optimum[0],
            optimal_return=self.optimum[1],
            end=self.end,
            error=self.error,
        )


def _open(specs: Sequence[EpisodeSpec], run_seed: int) -> list[_Game]:
    """Begin the episodes, those of one game and the same settings as one vector."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for i, spec in enumerate(specs):
        alike.setdefault((spec.env_id, spec.split, repr(spec.env_kwargs)), []).append(i)
    games: dict[int, _Game] = {}
    for members in alike.values():
        vector = _make_vector([specs[i] for i in members])
        games |= {i: _Game(specs[i], run_seed, vector, k) for k, i in enumerate(members)}
    return [games[i] for i in range(len(specs))]


def _answer(batch: Sequence[_Game], replies: Sequence[Reply], seconds: float) -> None:
    """Play the replies, each vector's together, and record what they did."""
    together: dict[ConversationVector, list[tuple[_Game, Reply]]] = {}
    for game, reply in zip(batch, replies, strict=True):
        if reply.overflow:
            game.end = "overflow"
        else:
            together.setdefault(game.vector, []).append((game, reply))
    for vector, answered in together.items():
        users = [game.env.user for game, _ in answered]
        results = vector.play(
            [reply.text for _, reply in answered],
            [game.id for game, _ in answered],
            [reply.cut_off for _, reply in answered],
        )
        for user, (game, reply), result in zip(users, answered, results, strict=True):
            game.record(user, reply, result, seconds)


def play_batch(specs: Sequence[EpisodeSpec], policy: Policy, run_seed: int) -> list[Episode]:
    """Play the episodes to their ends and return their records, in the order of the specs.

    A policy that raises ends the open episodes of its batch as errors, which are records too. Errors
    in the specs themselves (an unknown game or instance) are raised.
    """
    games = _open(specs, run_seed)
    while waiting := [game for game in games if game.end is None]:
        batch = waiting[: policy.batch_size]
        started = time.perf_counter()
        try:
            replies = policy.act([game.request() for game in batch])
        except RagenError:
            raise
        except Exception as error:
            for game in batch:
                game.fail(error)
            continue
        _answer(batch, replies, (time.perf_counter() - started) / len(batch))
    return [game.episode(policy.name) for game in games]
