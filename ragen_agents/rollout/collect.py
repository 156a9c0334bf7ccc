"""Collect trajectories: groups of episodes played against an engine, token in, token out."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ragen_agents.engines.base import Completion, Engine, EngineError, TokenRequest
from ragen_agents.rollout.chat import ChatCodec, begun, extend
from ragen_agents.rollout.claims import CheckedThought
from ragen_agents.rollout.episode import describe_error
from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_envs.conversation import ConversationWrapper, EndReason, TurnResult, whole_turn
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.game.claims import ClaimingFace
from ragen_envs.levels.seeding import new_stream


@runtime_checkable
class RewardFunction(Protocol):
    """Computes the parts of a turn's reward. What a turn earns is their sum; each part is logged."""

    def before(self, env: ConversationWrapper) -> Any:
        """Return what `parts` needs of the state before a reply."""

    def parts(self, before: Any, reply: str, result: TurnResult) -> dict[str, float]:
        """Return the weighted parts, given the result of `before`, the reply and its result."""


@dataclass(frozen=True)
class GroupSpec:
    """An initial state and the number of episodes from it."""

    group: int
    """Number in the iteration."""
    size: int
    options: dict[str, Any] = field(hash=False)
    """Keywords of ``reset``: a seed, or a frozen instance, and the first noise number of the group's."""
    opening: tuple[list[int], ...] = field(default=(), hash=False)
    """Token ids of the replies with which every member begins; the model writes those after them. Their
    log-probabilities are recorded as 0."""


@dataclass
class Collector:
    """Plays groups of episodes."""

    engine: Engine
    codec: ChatCodec
    make_env: Callable[[], ConversationWrapper]
    """Called once for each episode of the largest collection."""
    context: int
    """Length of the model's context in tokens."""
    max_tokens: int
    temperature: float
    seed_purpose: str
    """The sampling seeds derive from it and from iteration, group, member and turn."""
    reward: RewardFunction
    game_seconds: float = 0.0
    """Seconds that games and bookkeeping took in the last collection."""
    _envs: list[ConversationWrapper] = field(default_factory=list)

    def collect(self, specs: Sequence[GroupSpec], iteration: int) -> list[Trajectory]:
        """Play all groups to their ends, in the order of groups and members.

        Members share the level and draw independent noise. A reply is played as soon as the engine has it,
        without waiting for others. An error of a game ends its episode and is recorded; an error of the
        engine is raised.

        Raises:
            EngineError: The engine failed.
            RagenError: What the engine or the reward returned cannot be used.
            InstanceError: An instance that a group asks for does not exist.
        """
        self.game_seconds, started = 0.0, time.perf_counter()
        members = [(spec, member) for spec in specs for member in range(spec.size)]
        if not members:  # the share of a process can be empty
            return []
        while len(self._envs) < len(members):
            env = self.make_env()
            if any(env.unwrapped is held.unwrapped for held in self._envs):
                raise RagenError(
                    f"{env} was made twice: episodes are played at the same time, so each needs a new env"
                )
            self._envs.append(env)
        trajectories = []
        for key, (spec, member) in enumerate(members):
            # The first iteration's first member meets the level's own chance, as the harness does.
            noise = iteration * spec.size + member
            trajectories.append(self._begin(self._envs[key], spec, member, noise))
        self._open(trajectories, [spec.opening for spec, _ in members])
        for key, trajectory in enumerate(trajectories):
            if trajectory.end is None:
                self._ask(key, trajectory, iteration)
        self.game_seconds += time.perf_counter() - started
        self._play(trajectories, iteration)
        self.engine.release()
        return trajectories

    def _begin(self, env: ConversationWrapper, spec: GroupSpec, member: int, noise: int) -> Trajectory:
        try:
            options = {**spec.options, "noise": spec.options.get("noise", 0) + noise}
            seed = options.pop("seed", None)
            env.reset(seed=seed, options=options)
            return begun(self.codec, env, spec.group, member)
        except InstanceError:  # the caller asks for what does not exist
            raise
        except Exception as error:
            failed = Trajectory(spec.group, member, [])
            failed.end, failed.error = EndReason.ERROR, describe_error(error)
            return failed

    def _open(self, trajectories: list[Trajectory], openings: Sequence[tuple[list[int], ...]]) -> None:
        """Play the replies with which the trajectories begin."""
        for turn in range(max(map(len, openings), default=0)):
            replies = [
                self._given(key, opening[turn])
                for key, opening in enumerate(openings)
                if turn < len(opening) and trajectories[key].end is None
            ]
            self._receive(trajectories, replies)

    def _given(self, key: int, ids: list[int]) -> Completion:
        """Return a reply that the model did not just write."""
        closed = bool(ids) and ids[-1] in self.codec.stop_token_ids
        return Completion(key, ids, [0.0] * len(ids), "stop" if closed else "length", self.engine.version)

    def _play(self, trajectories: list[Trajectory], iteration: int) -> None:
        while any(trajectory.end is None for trajectory in trajectories):
            completions = self.engine.poll()
            polled = time.perf_counter()
            if not completions:
                raise EngineError("the engine returned no reply although requests are queued")
            waiting = {key for key, one in enumerate(trajectories) if one.end is None}
            _check(completions, waiting)
            self._receive(trajectories, completions)
            for completion in completions:
                if trajectories[completion.key].end is None:
                    self._ask(completion.key, trajectories[completion.key], iteration)
            self.game_seconds += time.perf_counter() - polled

    def _ask(self, key: int, trajectory: Trajectory, iteration: int) -> None:
        shown = trajectory.shown
        if len(shown) + self.max_tokens > self.context:
            trajectory.end = EndReason.OVERFLOW
            return
        what = f"{trajectory.group} {trajectory.member} {len(trajectory.turns)}"
        seed = new_stream(self.seed_purpose, what, iteration)
        request = TokenRequest(key, shown, seed, self.temperature)
        self.engine.submit([request])

    def _receive(self, trajectories: Sequence[Trajectory], completions: Sequence[Completion]) -> None:
        for completion in completions:
            self._receive_one(trajectories[completion.key], self._envs[completion.key], completion)

    def _receive_one(self, trajectory: Trajectory, env: ConversationWrapper, completion: Completion) -> None:
        """Play a reply in the game of its trajectory."""
        reply, cut_off = self.codec.text(completion.ids), completion.finish == "length"
        trajectory.append_reply(completion.ids, completion.logprobs, completion.entropies)
        turn = whole_turn(reply, env.settings.prefix)
        trajectory.messages.append({"role": "assistant", "content": turn})
        before, messages = self.reward.before(env), env.messages
        state, budget = env.state_text(), env.budget
        try:
            claims = env.claims(reply, cut_off)
            result = env.play(reply, cut_off)._replace(claims=claims)
        except Exception as error:  # a game that breaks ends its episode, not the run
            trajectory.end, trajectory.error = EndReason.ERROR, describe_error(error)
            return
        is_checked = isinstance(env.face, ClaimingFace)
        trajectory.turns.append(
            TrajectoryTurn(
                reply=reply, rewards=_checked_parts(self.reward.parts(before, reply, result)),
                valid=result.parsed.is_valid, effective=any(result.effective),
                actions=len(result.executed), cut_off=cut_off, state=state, budget=budget,
                thought=CheckedThought(result.claims, result.parsed.actions) if is_checked else None,
            )
        )  # fmt: skip
        trajectory.end = result.end
        trajectory.success = bool(env.success)
        trajectory.messages.append({"role": "user", "content": env.user})
        if result.end is None:
            closed = bool(completion.ids) and completion.ids[-1] in self.codec.stop_token_ids
            extend(trajectory, self.codec, env, messages, reply, closed)


def _check(completions: Sequence[Completion], waiting: set[int]) -> None:
    """Check that an engine, perhaps the user's, returned what it was asked for."""
    for one in completions:
        if one.key not in waiting:
            raise RagenError(f"the engine returned a completion for the key {one.key}, which is not open")
        waiting.remove(one.key)
        tokens = f"the engine returned {len(one.ids)} tokens for the key {one.key}"
        logprobs = one.logprobs
        if logprobs is not None and (len(logprobs) != len(one.ids) or not all(map(math.isfinite, logprobs))):
            raise RagenError(
                f"{tokens}, but not as many finite log-probabilities; if training has diverged, lower "
                "update.learning_rate"
            )
        if one.entropies is not None and len(one.entropies) != len(one.ids):
            raise RagenError(f"{tokens}, but {len(one.entropies)} entropies")


def _checked_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a reward, perhaps the user's, or raise `RagenError` if one is not finite."""
    for name, value in parts.items():
        try:
            is_finite = math.isfinite(value)
        except TypeError:
            is_finite = False
        if not is_finite:
            raise RagenError(
                f"the reward returned {value!r:.80} for '{name}', but must return finite numbers"
            )
    return {name: float(value) for name, value in parts.items()}
