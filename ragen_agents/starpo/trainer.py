"""The training loop: collect, filter, learn, write down, evaluate, save."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from ragen_agents.engines.base import EngineError
from ragen_agents.engines.decoding import end_tokens
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo import checkpoint
from ragen_agents.starpo.batch import TrainBatch
from ragen_agents.starpo.checkpoint import Progress
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.engine_setup import make_engine
from ragen_agents.starpo.filters import keep_groups
from ragen_agents.starpo.journal import Journal, read_metrics
from ragen_agents.starpo.learner import Learner, Prepared, is_split
from ragen_agents.starpo.metrics import group_returns, rollout_metrics
from ragen_agents.starpo.models import ActorCritic, load_policy
from ragen_agents.starpo.monitor import EchoTrapMonitor, Sign
from ragen_agents.starpo.mutual_information import prompt_information
from ragen_agents.starpo.rewards import TurnReward
from ragen_envs.conversation import ConversationWrapper, make_conversation
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.seeding import advance, below, new_stream
from ragen_envs.splits import VALIDATION

CHECKPOINTS: Final = "checkpoints"
BEST: Final = "best"
_EMPTY_LIMIT: Final = 10
"""Iterations in a row with nothing to learn from, after which a run stops."""

Report = Callable[[int, dict[str, Any]], None]


class DivergedError(RagenError):
    """Gradients were not finite several times in a row."""


class NothingKeptError(RagenError):
    """There was nothing to learn from in too many iterations in a row; the weights did not change in them."""


class BrokenGamesError(RagenError):
    """Every game broke in too many iterations in a row."""


class Trainer:
    """Trains a model in a run directory; the same directory again goes on where it stopped.

    Args:
        config: The run's.
        folder: The run directory, which holds the config already.
        report: Called with each iteration's number and metrics.
        warn: Called with each line that a person should see.

    Raises:
        RagenError: The model or the game cannot be used together.
    """

    def __init__(
        self, config: TrainConfig, folder: Path, report: Report, warn: Callable[[str], None]
    ) -> None:
        self.config, self.folder = config, folder
        self._report, self._warn = report, warn
        precision = "bf16" if config.update.precision == "bfloat16" else "no"
        self.accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
        world = self.accelerator.num_processes
        if config.rollout.groups % world:
            raise RagenError(
                f"rollout.groups is {config.rollout.groups}, but must be a multiple of the {world} processes"
            )
        # What is split goes to its device in parts, so that no device has to hold all of it.
        apart = is_split(config, self.accelerator)
        device = torch.device("cpu") if apart else self.accelerator.device
        policy, self.tokenizer = load_policy(config, device)
        self.codec = ChatCodec(self.tokenizer, end_tokens(policy.generation_config, self.tokenizer))
        self.learner = Learner(config, policy, self._reference(policy), self.accelerator)
        self._context = int(getattr(policy.config, "max_position_embeddings", 1 << 30))
        self._check_context()
        self.engine = make_engine(
            config, self.learner.whole_policy(), self.codec, world, folder, warn
        )
        self.collector = self._collector(config.rollout.temperature, f"rollout {config.seed}")
        self.evaluator = self._collector(config.evaluation.temperature, f"evaluation {config.seed}")
        self.monitor = EchoTrapMonitor(config.monitor)
        self.progress = Progress()
        self._stopping = False
        self._seconds: dict[str, float] = {}

    def run(self) -> None:
        """Train until the config's last iteration.

        Raises:
            DivergedError: Gradients were not finite several times in a row; the state is saved.
            EngineError: The engine cannot go on; the state is saved.
            NothingKeptError: There was nothing to learn from too often; the state is saved.
            BrokenGamesError: Every game broke too often; the state is saved.
        """
        try:
            self._resume()
            with Journal(self.folder, self.progress, self.accelerator.is_main_process) as journal:
                try:
                    self._run(journal)
                except (EngineError, NothingKeptError, BrokenGamesError):
                    self._save_due(journal, now=True)
                    raise
        finally:
            self.engine.close()

    def _run(self, journal: Journal) -> None:
        if self.progress.collapsed:
            self._warn("the monitor has stopped this run; another --out begins a new one")
            return
        if self.progress.pending is not None:
            if self._finish(journal, self.progress.pending):
                return
        else:
            self._sync()
            if self.config.evaluation.every and not self.progress.metrics_size:
                self._save_best(journal, self._evaluate(journal, 0))
            if self._rolls_back and not self.progress.iteration:
                self._save_due(journal, now=True)
        while self.progress.iteration < self.config.iterations:
            if self._iterate(journal):
                return
            if self._all_stop():
                self._save_due(journal, now=True)
                return

    def close(self) -> None:
        """Part from the other processes; one that exits without it may abort, its last message still held.

        The threads of gloo let go of tensors, for which they need an interpreter that is not yet at its end.
        """
        self.accelerator.end_training()

    def stop(self) -> None:
        """Let ``run`` save its state and return after the present iteration."""
        self._stopping = True

    def _all_stop(self) -> bool:
        """Return whether any process was told to stop; they save together, so they must agree."""
        if self.accelerator.num_processes == 1:
            return self._stopping
        return any(gather_object([self._stopping]))

    def _iterate(self, journal: Journal) -> bool:
        """Do one iteration; returns whether the monitor ends the run."""
        iteration = self.progress.iteration
        self._seconds = {}
        started = time.perf_counter()
        prepared, metrics = self._collect(journal, iteration)
        if prepared is not None:
            with self._timed("update"):
                metrics |= prepared.metrics
                metrics |= self.learner.update(prepared, iteration)
        metrics |= self._spent(started)
        self.progress = replace(self.progress, iteration=iteration + 1, pending=metrics)
        return self._finish(journal, metrics)

    def _finish(self, journal: Journal, before: dict[str, Any]) -> bool:
        """Hand out the weights that an iteration made, score them, and write all down.

        Until then its metrics are pending: if the engine fails, they are saved, and a run that goes on
        begins here. Returns whether the monitor ends the run.
        """
        every, done = self.config.evaluation.every, self.progress.iteration
        self._seconds = {}
        started = time.perf_counter()
        self._sync()
        metrics = dict(before)
        if every and (done % every == 0 or done == self.config.iterations):
            metrics |= self._evaluate(journal, done)
        metrics |= self._spent(started)
        metrics["seconds/total"] += before["seconds/total"]
        signs = self.monitor.observe(metrics)
        metrics["warnings"] = [sign.text for sign in signs]
        journal.metrics(done, metrics)
        self.progress = replace(self.progress, pending=None)
        self._report(done, metrics)
        for sign in signs:
            self._warn(f"iteration {done}: {sign.text}")
        self._save_best(journal, metrics)
        ends, went_back = self._act({sign.sign for sign in signs})
        self._save_due(journal, now=ends or went_back or self.learner.diverged)
        if self.learner.diverged:
            raise DivergedError(
                f"the gradient was not finite in {self.learner.bad_steps} optimizer steps in a row; the "
                f"state is saved in '{self.folder / CHECKPOINTS}'; lower update.learning_rate"
            )
        return ends

    def _collect(self, journal: Journal, iteration: int) -> tuple[Prepared | None, dict[str, Any]]:
        """Collect, filter and score trajectories; returns nothing to learn from if none are kept."""
        config = self.config
        with self._timed("rollout"):
            trajectories = self._gathered(self.collector, self._groups(iteration), iteration)
        self._seconds["games"] = self.collector.clock.games
        metrics: dict[str, Any] = rollout_metrics(trajectories)
        information = config.monitor.information_every
        if information and iteration % information == 0:
            with self._timed("information"):
                metrics |= prompt_information(self.learner, trajectories, self.codec.pad)
        returns = group_returns(trajectories, game_only=not config.reward.in_filter)
        kept = keep_groups(
            returns,
            config.filter.kind,
            config.filter.keep,
            new_stream("filter", str(config.seed), iteration),
        )
        learnable = [
            t for t in trajectories if t.group in set(kept) and t.end != "error" and t.written
        ]
        metrics["kept_groups"] = float(len(kept))
        self._count_empty(bool(learnable), trajectories)
        if iteration % config.save_every == 0:
            for trajectory in trajectories[: config.rollout.members : 4][:4]:
                journal.sample(iteration + 1, "train", trajectory)
        if not learnable:
            return None, metrics
        with self._timed("scores"):
            return self.learner.prepare(TrainBatch.of(learnable, self.codec.pad)), metrics

    def _count_empty(self, learnable: bool, trajectories: list[Trajectory]) -> None:
        """Stop a run that has had nothing to learn from for too long, unless all is learned."""
        solved = all(t.success for t in trajectories)
        empty = 0 if learnable or solved else self.progress.empty + 1
        self.progress = replace(self.progress, empty=empty)
        if empty < _EMPTY_LIMIT:
            return
        error = _nothing_learnable(trajectories, self.config.filter.kind, empty)
        if isinstance(error, BrokenGamesError):
            self.progress = replace(self.progress, empty=0)  # games can be mended meanwhile
        raise error

    def _groups(self, iteration: int) -> list[GroupSpec]:
        config = self.config
        specs = []
        for group in range(config.rollout.groups):
            number = iteration * config.rollout.groups + group
            stream = new_stream(f"levels {config.seed}", config.game, number)
            if config.levels:
                pick = below(advance(stream), config.levels)
                stream = new_stream(f"level {config.seed}", config.game, pick)
            specs.append(GroupSpec(group, config.rollout.members, {"seed": stream}))
        return specs

    def _gathered(
        self, collector: Collector, specs: list[GroupSpec], iteration: int
    ) -> list[Trajectory]:
        """Collect this process's share of the groups, and return all processes' in their order."""
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        mine = collector.collect(specs[rank::world], iteration)
        every: list[Trajectory] = gather_object(mine) if world > 1 else mine
        return sorted(every, key=lambda t: (t.group, t.member))

    def _sync(self) -> None:
        with self._timed("sync"):
            self.engine.sync(self.learner.whole_policy(), self.progress.iteration)

    def _evaluate(self, journal: Journal, done: int) -> dict[str, float]:
        """Score the policy on the first validation instances."""
        with self._timed("evaluation"):
            specs = [
                GroupSpec(i, 1, {"split": VALIDATION, "index": i})
                for i in range(self.config.evaluation.episodes)
            ]
            trajectories = self._gathered(self.evaluator, specs, 0)
        found = rollout_metrics(trajectories)
        names = ("success", "return", "valid", "effective", "reply_tokens")
        metrics = {f"validation/{name}": found[name] for name in names}
        for trajectory in trajectories[:4]:
            journal.sample(done, "validation", trajectory)
        if done == 0:
            journal.metrics(0, metrics)
            self._report(0, metrics)
        return metrics

    def _save_best(self, journal: Journal, metrics: dict[str, Any]) -> None:
        """Save the weights if they were scored, and better than any before."""
        score, best = metrics.get("validation/success"), self.progress.best
        if score is not None and (best is None or score > best):
            self.progress = replace(self.progress, best=score)
            self._write(journal, self.folder / BEST)

    def _save_due(self, journal: Journal, now: bool) -> None:
        """Save a checkpoint if it is time for one, or if it has to be now."""
        done, folder = self.progress.iteration, self.folder / CHECKPOINTS
        regular = done % self.config.save_every == 0
        if now or regular or done == self.config.iterations:
            # Only regular ones: where an interrupted run stopped must not decide where it goes back to.
            if (
                regular
                and self.progress.pending is None
                and self._rolls_back
                and self.monitor.healthy
            ):
                self.progress = replace(self.progress, healthy=done)
            self._write(journal, checkpoint.path_of(folder, done))
            if self.accelerator.is_main_process:
                checkpoint.prune(folder, self.config.keep, self.progress.healthy)

    def _write(self, journal: Journal, folder: Path) -> None:
        if self.accelerator.is_main_process:
            metrics_size, samples_size = journal.sizes
            self.progress = replace(
                self.progress, metrics_size=metrics_size, samples_size=samples_size
            )
            folder.parent.mkdir(exist_ok=True)
        checkpoint.save(folder, self.learner, self.tokenizer, self.progress)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> None:
        found = checkpoint.latest(self.folder / CHECKPOINTS)
        if found is None:
            return
        self.progress = checkpoint.load(found, self.learner)
        written = self.progress.iteration - (self.progress.pending is not None)
        for line in read_metrics(self.folder)[: written + 1]:
            if (self.progress.rolled_back or 0) < line["iteration"] <= written:
                self.monitor.observe(line)

    def _act(self, signs: set[Sign]) -> tuple[bool, bool]:
        """Do what the config asks for at a collapse.

        Returns:
            Whether the run ends, and whether it went back to the last healthy weights. If it did, the
            monitor begins anew, so that it can see the next collapse.
        """
        action, at = self.config.monitor.action, self.progress
        if "collapse" not in signs or action == "warn":
            return False, False
        if self._rolls_back and at.rolled_back is None and at.healthy is not None:
            back = checkpoint.path_of(self.folder / CHECKPOINTS, at.healthy)
            checkpoint.load(back, self.learner)
            self.progress = replace(at, rolled_back=at.iteration)
            self.monitor = EchoTrapMonitor(self.config.monitor)
            self._sync()
            self._warn(f"went back to the weights of iteration {at.healthy}")
            return False, True
        self._warn("stopped because success has collapsed")
        self.progress = replace(at, collapsed=True)
        return True, False

    @property
    def _rolls_back(self) -> bool:
        return self.config.monitor.action == "rollback"

    def _reference(self, policy: Any) -> Any | None:
        """Return a frozen copy of the initial policy if a divergence from it is charged."""
        if self.config.loss.kl == "none" or self.config.loss.kl_coefficient == 0:
            return None
        import copy

        frozen = ActorCritic(copy.deepcopy(policy), None, self.config.rollout.temperature)
        return frozen.requires_grad_(False).eval()

    def _collector(self, temperature: float, draws: str) -> Collector:
        config = self.config
        return Collector(
            self.engine, self.codec, self._make_env, self._context, config.rollout.max_tokens,
            temperature, draws, TurnReward(config.reward),
        )  # fmt: skip

    def _make_env(self) -> ConversationWrapper:
        try:
            defaults = gym.spec(self.config.game).kwargs
        except gym.error.Error as error:
            raise RagenError(
                f"game is '{self.config.game}', which is unknown; `ragen games` lists them"
            ) from error
        return make_conversation(**{**defaults, **self.config.env_kwargs})

    def _check_context(self) -> None:
        """Check that the first prompt and one reply fit the model, and that the instances exist."""
        env, evaluation = self._make_env(), self.config.evaluation
        if evaluation.every:
            try:
                env.reset(options={"split": VALIDATION, "index": evaluation.episodes - 1})
            except InstanceError as error:
                raise RagenError(
                    f"evaluation.episodes is {evaluation.episodes}, but {error}; evaluation.every=0 trains "
                    "without evaluating"
                ) from error
        env.reset(seed=0)
        needed = len(self.codec.start(env.messages)) + self.config.rollout.max_tokens
        if needed > self._context:
            raise RagenError(
                f"the model reads {self._context} tokens, but the game's first prompt and a reply of "
                f"rollout.max_tokens={self.config.rollout.max_tokens} take {needed}"
            )

    def _spent(self, started: float) -> dict[str, float]:
        seconds = {f"seconds/{name}": value for name, value in self._seconds.items()}
        return {**seconds, "seconds/total": time.perf_counter() - started}

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - started


def _nothing_learnable(trajectories: list[Trajectory], kind: str, iterations: int) -> RagenError:
    """Return the error of a run that has had nothing to learn from, with what kept it from learning."""
    lasting = f"in {iterations} iterations in a row"
    broken = [t.error for t in trajectories if t.error is not None]
    if len(broken) == len(trajectories):
        return BrokenGamesError(f"every game broke {lasting}: {broken[0]}")
    if not any(t.written for t in trajectories):
        return NothingKeptError(
            f"no prompt fitted the model's context {lasting}, so nothing was written"
        )
    return NothingKeptError(
        f"the filter '{kind}' kept nothing {lasting}: the members of each group all have the same return"
    )
