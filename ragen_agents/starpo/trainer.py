"""The training loop: collect, filter, learn, log, evaluate, save."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from ragen_agents.engines.base import Engine, EngineError
from ragen_agents.engines.device import is_out_of_memory
from ragen_agents.model_files.folders import own_context
from ragen_agents.rollout.chat import ChatCodec, stop_token_ids
from ragen_agents.rollout.collect import Collector, RewardFunction
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.run_files.records import read_metrics
from ragen_agents.starpo.callbacks import Callback
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.ignored_settings import setting_warnings
from ragen_agents.starpo.memory.planning import fitted_to_device
from ragen_agents.starpo.parts.rewards import TurnReward, as_reward
from ragen_agents.starpo.processes import from_all, together
from ragen_agents.starpo.rollout_step import (
    Played,
    evaluate,
    filter_groups,
    group_numbers,
    learnable,
    play_iteration,
)
from ragen_agents.starpo.run.diagnostics import measure_information, probe_gradients
from ragen_agents.starpo.run.errors import (
    EMPTY_LIMIT,
    BrokenGamesError,
    MemoryRanOutError,
    OutOfMemoryError,
    TrainingFailedError,
    advice,
    empty_error,
    reported,
)
from ragen_agents.starpo.run.journal import Journal
from ragen_agents.starpo.run.metrics import Phases, rollout_metrics
from ragen_agents.starpo.run.run_directory import default_run_dir, open_run_dir, own_parts, with_weights
from ragen_agents.starpo.run.run_state import RunState
from ragen_agents.starpo.setup import (
    check_fits,
    engine_context,
    env_factory,
    frozen_reference,
    make_accelerator,
    make_engine,
)
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner, is_split
from ragen_agents.starpo.update.loss import Prepared
from ragen_agents.starpo.update.models import load_policy
from ragen_envs.errors import RagenError
from ragen_envs.levels.seeding import new_stream

_log: Final = logging.getLogger("ragen.starpo")
MOST_MISMATCH: Final = 1.0
"""Difference of a token's log-probabilities, in nats, above which a run warns."""
SCORED_EVERY: Final = 10
"""Iterations between two that score rollouts again, which shows whether the engine still agrees."""


class Trainer:
    """Trains a model on a game in a run directory; a second run with the same directory resumes the first.

    ``run`` does all of it; ``collect``, ``select``, ``learner`` and ``engine`` are parts for a loop of your
    own (examples/custom_loop.py).

    To resume a run, pass the same reward, engine and env: nothing checks that they are the same.

    Example::

        from ragen_agents.starpo import PRESETS, SCALES, Trainer, TrainConfig, merged

        settings = merged(SCALES["laptop"], PRESETS["starpo-s"], {"game": "ragen/BanditText-v0"})
        Trainer(TrainConfig(**settings), run_dir="runs/bandit").run()

    Args:
        config: The settings; every key is explained in docs/settings.md.
        run_dir: The run directory, made if it is missing; by default one below ``runs/`` whose name
            depends on the settings and the parts passed. It holds config.yaml, environment.json,
            metrics.jsonl, samples.jsonl, checkpoints and the best model.
        reward: What a turn is rewarded with, instead of the parts that ``config.reward`` weighs: a
            `RewardFunction`, or a function of the reply and the `TurnResult` that returns a number or
            named parts.
        callbacks: Hooks into the run, called in this order.
        engine: What generates the rollouts, instead of the one that ``config.engine`` names. It must sample
            with the weights that ``sync`` receives, and the caller must close it. Its log-probabilities
            correct for the difference from the trainer's, and never replace them.
        env: Makes a new conversation, or a new game with a text face, at each call, instead of
            ``config.game``, which is then only a label. It is called once for each episode that is
            played at the same time.

    Raises:
        RagenError: The model, the game and the settings do not fit together.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_dir: str | Path | None = None,
        *,
        reward: RewardFunction | Callable[..., Any] | None = None,
        callbacks: Sequence[Callback] = (),
        engine: Engine | None = None,
        env: Callable[[], Any] | None = None,
    ) -> None:
        self.config = config = with_weights(config)
        self._own_parts = own_parts(config, reward=reward, engine=engine, env=env)
        default = default_run_dir(config, self._own_parts)
        self.run_dir = default if run_dir is None else Path(run_dir)
        self.callbacks = tuple(callbacks)
        self._reward = TurnReward(config.reward) if reward is None else as_reward(reward)
        self.accelerator = make_accelerator(config)
        processes = self.accelerator.num_processes
        if engine is None and config.engine == "vllm" and processes > 1:
            raise RagenError(
                f"engine is vllm, which runs with one process of the trainer, not {processes}; use "
                "vllm-server"
            )
        self._make_env = env_factory(config, env)
        self.config = config = fitted_to_device(
            config, self._make_env, self.accelerator, own_engine=engine is not None
        )
        # What is sharded goes to its device in parts, so that no device has to hold all of it.
        apart = is_split(config, self.accelerator)
        device = torch.device("cpu") if apart else self.accelerator.device
        with reported(config, "loading"):
            policy, self.tokenizer = load_policy(config, device)
            reference = frozen_reference(config, policy, self.accelerator.device)
            self.learner = Learner(
                config, policy, reference, self.accelerator,
                only_writes=engine is None and config.engine == "vllm-server",
            )  # fmt: skip
        self.codec = ChatCodec(self.tokenizer, stop_token_ids(policy.generation_config, self.tokenizer))
        self._own_context = own_context(policy.config)
        self._context = self._own_context
        if engine is None:
            self._context = engine_context(config, self._make_env, self.codec, self._own_context)
        check_fits(config, self._make_env, self.codec, self._context)
        self._owns_engine = engine is None
        self._trusts_rollout = engine is None and not apart and config.trusts_rollout_scores
        self.engine = engine if engine is not None else make_engine(
            config, self.learner, self.codec, self.accelerator, self.run_dir, context=self._context,
            reserved=self.learner.state_to_come,
        )  # fmt: skip
        self.collector = self._collector(config.rollout.temperature, f"rollout {config.seed}")
        self._evaluation_collector = self._collector(
            config.evaluation.temperature, f"evaluation {config.seed}"
        )
        on_save = partial(self._call, "on_save")
        self.state = RunState(config, self.run_dir, self.learner, self.tokenizer, on_save)
        self._phases = Phases()
        self._stopping = self._has_run = self._has_ended = self._has_warned = False
        for text in setting_warnings(config):
            self._warn(text)

    @property
    def is_main_process(self) -> bool:
        """Whether this is the process that writes and reports; always true of a single one."""
        return bool(self.accelerator.is_main_process)

    def run(self) -> None:
        """Train until the config's last iteration.

        Raises:
            TrainingFailedError: Gradients were not finite, or there was nothing to learn from, too often; the
            state is saved.
            EngineError: The engine cannot go on; the state is saved.
            BrokenGamesError: Every game broke too often; the state is saved.
            OutOfMemoryError: Memory ran out; the state is saved unless some steps of the update were done, or
            the weights are sharded.
        """
        if self._has_run:
            raise RagenError("this trainer has run already; make another one to resume its run")
        self._has_run = True
        with ExitStack() as resources:
            resources.callback(self._close_engine)
            # In the main process; if that fails, all processes stop.
            opened = open_run_dir(self.run_dir, self.config, self._own_parts)
            enter = partial(resources.enter_context, opened if self.is_main_process else nullcontext())
            together(enter, self.accelerator)
            with reported(self.config, "resuming"):
                self.state.resume()
            journal = resources.enter_context(
                Journal(self.run_dir, self.state.progress, self.is_main_process)
            )
            self.state.settle(journal)
            try:
                self._run(journal)
            except (EngineError, TrainingFailedError, BrokenGamesError):
                self.state.save_settled(journal)
                raise
            except KeyboardInterrupt:
                if self.accelerator.num_processes == 1:  # others may not have been interrupted
                    self.state.save_settled(journal)
                raise
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                alone = self.accelerator.num_processes == 1
                all_know = alone or isinstance(error, MemoryRanOutError)
            else:
                self._has_ended = True
                return
            # Not in the handler, where the frames of the error still hold what did not fit.
            raise OutOfMemoryError(self._out_of_memory(journal, all_know))

    def collect(self, iteration: int) -> Played:
        """Play the groups of an iteration, counted from 0, with the weights that the engine has."""
        return play_iteration(self.config, iteration, self.collector, self.accelerator)

    def select(self, candidates: Sequence[Trajectory], iteration: int) -> TrainBatch | None:
        """Return the trajectories that the filter keeps, as a batch, or None if there are none."""
        chosen = learnable(candidates, filter_groups(self.config, candidates, iteration))
        return TrainBatch.of(chosen, self.codec.pad) if chosen else None

    def _out_of_memory(self, journal: Journal, all_know: bool) -> str:
        """Save what can be saved after memory ran out, and return the message.

        Processes that do not know of it would not come to a checkpoint that all write together.
        """
        phase = self._phases.running
        self.learner.forget_gradients()
        torch.cuda.empty_cache()
        try:
            saved = all_know and self.state.save_settled(journal)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            saved = False
        kept = "the state is saved" if saved else "the last checkpoint is kept"
        return f"out of memory in {phase or 'saving'}, {kept}; {advice(self.config, phase)}"

    def stop(self) -> None:
        """Make ``run`` save its state and return after the current iteration."""
        self._stopping = True

    def close(self) -> None:
        """Close the engine and leave the process group; needed without ``run``, and with torchrun.

        A process that exits while the threads of gloo hold a message may abort. After an error the group is
        kept: NCCL leaves it only when all processes do, and others may still wait for this one's part.
        """
        self._close_engine()
        if self._has_ended or not self._has_run:
            self.accelerator.end_training()

    def _close_engine(self) -> None:
        if self._owns_engine:
            self._owns_engine = False
            self.engine.close()

    def _warn(self, text: str) -> None:
        if self.is_main_process:
            _log.warning("%s", text)

    def _run(self, journal: Journal) -> None:
        self._call("on_train_begin")
        ended = self._begin(journal)
        while not ended and self.state.progress.iteration < self.config.iterations:
            ended = self._iterate(journal)
            if not ended and any(from_all(self._stopping, self.accelerator)):
                self.state.save_due(journal, now=True)
                break
        lines = read_metrics(self.run_dir) if self.is_main_process else []
        shares = [(line.get("skipped_steps", 0.0), line.get("optimizer_steps", 0.0)) for line in lines]
        if skipped := sum(round(share * steps) for share, steps in shares):
            self._warn(
                f"optimizer steps skipped in this run, because a gradient was not finite: {skipped}; "
                "lower update.learning_rate in a new run"
            )
        self._call("on_train_end")

    def _begin(self, journal: Journal) -> bool:
        """Prepare the next iteration; returns whether the run has ended already."""
        progress = self.state.progress
        if progress.collapsed:
            self._warn("the monitor has stopped this run; another run directory begins a new one")
            return True
        if progress.pending is not None:
            return self._finish(journal, progress.pending)
        if (done := progress.iteration) >= self.config.iterations:
            has = f"'{self.run_dir}' already has {done} iteration{'s' * (done != 1)}"
            self._warn(f"{has}; nothing to train. More iterations extend the run")
        self._sync()
        if self.config.evaluation.every and not progress.metrics_size:
            initial = self._evaluate(journal, 0)
            self.state.monitor.begin(initial)
            self.state.save_best(journal, initial)
            self.state.settle(journal)
        if self.state.rolls_back and not progress.iteration:
            self.state.save_due(journal, now=True)
        return False

    def _iterate(self, journal: Journal) -> bool:
        """Do one iteration; returns whether the monitor ends the run."""
        iteration = self.state.progress.iteration
        self._phases.restart()
        prepared, metrics = self._collect(journal, iteration)
        if prepared is not None:
            with self._phases.timed("update"):
                metrics |= prepared.metrics
                metrics |= self.learner.update(prepared, iteration)
        metrics |= self._phases.metrics()
        self.state.update(iteration=iteration + 1, pending=metrics)
        self.state.settle(journal)
        return self._finish(journal, metrics)

    def _finish(self, journal: Journal, before: dict[str, Any]) -> bool:
        """Sync the new weights to the engine, evaluate them, and log the metrics of the iteration.

        Until then its metrics are pending: if the engine fails, they are saved, and a resumed run starts
        here. Returns whether the monitor ends the run.
        """
        done, every = self.state.progress.iteration, self.config.evaluation.every
        self._phases.restart()
        self._sync()
        metrics = dict(before)
        if every and (done % every == 0 or done == self.config.iterations):
            metrics |= self._evaluate(journal, done)
        metrics |= self._phases.metrics()
        metrics["seconds/total"] += before["seconds/total"]
        signs = self.state.monitor.observe(metrics)
        metrics["warnings"] = list(signs.values())
        self._call("on_iteration_end", done, metrics)
        journal.metrics(done, metrics)
        self.state.update(pending=None)
        for text in signs.values():
            self._warn(f"iteration {done}: {text}")
        self.state.save_best(journal, metrics)
        action = self.state.act_on(signs)
        self.state.settle(journal)
        if action == "rolled back":
            self._warn(f"rolled back to the weights of iteration {self.state.progress.healthy}")
            self._sync()
        elif action == "stopped":
            self._warn("stopped because success has collapsed")
        self.state.save_due(journal, now=action != "none" or self.learner.diverged)
        if self.learner.diverged:
            raise TrainingFailedError(
                f"the gradient was not finite in {self.learner.bad_steps} optimizer steps in a row; the "
                f"state is saved in '{self.state.checkpoints}'; lower update.learning_rate in a new run"
            )
        return action == "stopped"

    def _collect(self, journal: Journal, iteration: int) -> tuple[Prepared | None, dict[str, Any]]:
        """Collect, filter and score trajectories; returns nothing to learn from if none are kept."""
        config = self.config
        with self._phases.timed("rollout"):
            trajectories, candidates, game_seconds = self.collect(iteration)
        self._phases.seconds["games"] += game_seconds
        self._call("on_rollout_end", iteration + 1, tuple(trajectories))
        metrics: dict[str, Any] = rollout_metrics(trajectories)
        if metrics.get("end/overflow") and self._context < self._own_context:
            self._warn(
                f"iteration {iteration + 1}: {metrics['end/overflow']:.0%} of the episodes ended because "
                f"they needed more than vLLM's {self._context} tokens; raise vllm.max_model_len"
            )
        metrics |= self._diagnose(iteration, trajectories, candidates)
        kept = filter_groups(config, candidates, iteration)
        metrics["kept_groups"] = float(len(kept))
        metrics["played_groups"] = float(len(group_numbers(trajectories)))
        chosen = learnable(candidates, kept)
        self._count_empty(journal, bool(chosen), trajectories)
        if iteration % config.save_every == 0:
            for trajectory in trajectories[: config.rollout.group_size : 4][:4]:
                journal.sample(iteration + 1, "train", trajectory)
        if not chosen:
            metrics |= {"grad_norm": 0.0, **self._entropy(trajectories)}
            return None, metrics
        with self._phases.timed("scores"):
            batch = TrainBatch.of(chosen, self.codec.pad)
            trusted = self._trusts_rollout and iteration % SCORED_EVERY != 0
            prepared = self.learner.prepare(batch, trust_rollout=trusted)
        self._check_mismatch(prepared.metrics)
        return prepared, metrics

    def _entropy(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Return the entropy of rollouts that nothing is learned from, if the model wrote any."""
        played = learnable(trajectories, group_numbers(trajectories))
        if not played:
            return {}
        batch = TrainBatch.of(played, self.codec.pad)
        entropies = batch.rollout_entropies
        if not entropies.isfinite().all():
            entropies = self.learner.score(batch, "policy").entropies
        return {"entropy": float(entropies[batch.mask].mean())}

    def _check_mismatch(self, metrics: Mapping[str, float]) -> None:
        """Warn, once, if the engine cannot have sampled from the policy that is trained."""
        if metrics.get("mismatch_max", 0.0) > MOST_MISMATCH and not self._has_warned:
            self._has_warned = True
            self._warn(
                f"log-probabilities of engine and trainer differ by up to {metrics['mismatch_max']:.1f} "
                f"nats, on average by {metrics['mismatch_mean']:.2g}, and loss.tis_cap scales gradients by "
                "this ratio; an engine that does not know them must return None"
            )

    def _diagnose(
        self, iteration: int, trajectories: list[Trajectory], candidates: list[Trajectory]
    ) -> dict[str, float]:
        """Return the measurements that are due in an iteration and change nothing in it."""
        config, monitor = self.config, self.config.monitor
        metrics: dict[str, float] = {}
        if monitor.information_every and iteration % monitor.information_every == 0:
            with self._phases.timed("information"):
                metrics |= measure_information(
                    self.learner, trajectories, self.codec, monitor.information_prompts,
                    new_stream("information", str(config.seed), iteration), self._own_context,
                )  # fmt: skip
        if monitor.gradients_every and iteration % monitor.gradients_every == 0:
            with self._phases.timed("gradients"):
                metrics |= probe_gradients(config, self.learner, candidates, self.codec.pad)
        return metrics

    def _count_empty(self, journal: Journal, any_chosen: bool, trajectories: list[Trajectory]) -> None:
        """Stop a run that has had nothing to learn from for too long, unless all is learned."""
        solved = all(t.success for t in trajectories)
        empty = 0 if any_chosen or solved else self.state.progress.empty + 1
        self.state.update(empty=empty)
        if empty < EMPTY_LIMIT:
            return
        error = empty_error(trajectories, self.config.filter.kind, empty)
        if isinstance(error, BrokenGamesError):
            self.state.update(empty=0)  # the games can be repaired meanwhile
        self.state.settle(journal)
        raise error

    def _evaluate(self, journal: Journal, done: int) -> dict[str, float]:
        with self._phases.timed("evaluation"):
            episodes = self.config.evaluation.episodes
            metrics, trajectories = evaluate(episodes, self._evaluation_collector, self.accelerator)
        for trajectory in trajectories[:4]:
            journal.sample(done, "validation", trajectory)
        self._call("on_evaluate", done, metrics)
        if done == 0:
            journal.metrics(0, metrics)
        return metrics

    def _sync(self) -> None:
        version = self.state.progress.iteration
        with self._phases.timed("sync"):
            self.engine.sync(self.learner.whole_policy(), version)

    def _collector(self, temperature: float, draws: str) -> Collector:
        return Collector(
            self.engine, self.codec, self._make_env, self._context, self.config.rollout.max_tokens,
            temperature, draws, self._reward,
        )  # fmt: skip

    def _call(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, *arguments)
