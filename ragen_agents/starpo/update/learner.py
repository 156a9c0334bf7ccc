"""One update: from the trajectories that were kept to changed weights."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ragen_agents.starpo.config import TrainConfig, Update
from ragen_agents.starpo.math.losses import Term
from ragen_agents.starpo.parts.aggregations import BatchTotals
from ragen_agents.starpo.processes import together
from ragen_agents.starpo.update.batch import TrainBatch, micro_batches, mini_batches, shared_micro_batches
from ragen_agents.starpo.update.loss import (
    LossInput,
    Prepared,
    batch_totals,
    critic_loss,
    loss_terms,
    policy_loss,
    prepare,
)
from ragen_agents.starpo.update.models import ActorCritic, Part, Scores, score_trajectories
from ragen_agents.starpo.update.passes import recompute_layers
from ragen_agents.starpo.update.sharding import WholeCopy, release_gathered, split, whole
from ragen_envs.levels.seeding import new_stream

T = TypeVar("T")
MOST_BAD_STEPS = 3
"""Consecutive optimizer steps with a non-finite gradient after which a run stops."""


class Learner:
    """Holds the models and their optimizers.

    All processes of a distributed run hold the same batch and each computes its share of every
    mini-batch, so that the result does not depend on how many there are, up to the order of sums.

    The policy learns; with ``config.fsdp`` it need not be on its device yet. The reference is the initial
    policy, frozen; None if no divergence from it is applied, or if it is the policy without its adapters.
    ``only_writes``: ``whole_policy`` is only used by the first process, to save it.
    """

    def __init__(
        self, config: TrainConfig, policy: Any, reference: Any | None, accelerator: Accelerator,
        only_writes: bool = False,
    ) -> None:  # fmt: skip
        self.config = config
        self.accelerator = accelerator
        kind = config.critic.kind if config.has_critic else None
        torch.manual_seed(config.seed)
        on_cuda = accelerator.device.type == "cuda"
        self.models = ActorCritic(policy, kind, config.rollout.temperature, config.has_float32_head(on_cuda))
        self.models.eval()  # dropout off; nothing else differs
        self.reference = reference
        self._copy: WholeCopy | None = None
        if is_split(config, accelerator):
            device = accelerator.device
            if only_writes:
                device = torch.device("cpu") if accelerator.is_main_process else None
            self._copy = WholeCopy(policy, device)
            layers = set(policy._no_split_modules or ())
            for models in filter(None, (self.models, self.reference)):
                split(models, layers, accelerator)
        self.models.to(accelerator.device)
        if config.update.recomputes:
            recompute_layers(self.models)
        update = config.update
        self.optimizer = make_optimizer(self.models.policy_parameters(), update.learning_rate, update)
        self.optimizers = {"optimizer": self.optimizer}
        """The optimizer of the policy, and that of the critic if there is one."""
        if kind is not None:
            weights, rate = self.models.critic_parameters(), update.critic_learning_rate
            self.optimizers["critic_optimizer"] = make_optimizer(weights, rate, update)
        self.critic_optimizer = self.optimizers.get("critic_optimizer")
        self.moved = False
        """Whether a step has been tried since this was last set to False."""
        self.bad_steps = 0
        """Steps skipped in a row because a gradient was not finite."""

    @property
    def state_to_come(self) -> int:
        """Bytes of optimizer state that will be allocated for parameters that were not updated yet."""
        return sum(
            2 * parameter.numel() * parameter.element_size()
            for optimizer in self.optimizers.values()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter not in optimizer.state
        )

    def whole_policy(self) -> Any:
        """Return the policy with its present weights; all processes call this together.

        If the weights are sharded, it is a copy, which the next call updates. If it is only saved, the copy
        is in the first process's host memory, and None in the others.
        """
        policy = self.models.policy
        return policy if self._copy is None else self._copy.refreshed_from(policy)

    def prepare(self, batch: TrainBatch, trust_rollout: bool = False) -> Prepared:
        """Score a batch under the present models and turn its rewards into advantages."""
        reference = None
        if self.reference is not None:
            reference = self._score_all(self.reference, batch, "policy").logprobs
        elif self.config.charges_divergence:
            reference = self._score_all(self.models, batch, "initial").logprobs
        scores = self._rollout_scores(batch) if trust_rollout else None
        return prepare(self.config, batch, scores or self.score(batch), reference, is_scored=scores is None)

    def _rollout_scores(self, batch: TrainBatch) -> Scores | None:
        """Return scores with what the engine said of the policy, or None where it did not say all."""
        entropies = batch.rollout_entropies
        if not entropies.isfinite().all():
            return None
        has_critic = "critic" in self.models.passes
        values = self.score(batch, "critic").values if has_critic else torch.zeros_like(entropies)
        return Scores(batch.rollout_logprobs, entropies, values)

    def score(self, batch: TrainBatch, part: Part = "all") -> Scores:
        """Return the scores of a batch under the current models, or one of them."""
        return self._score_all(self.models, batch, part)

    def update(self, prepared: Prepared, iteration: int) -> dict[str, float]:
        """Take the optimizer steps of one iteration and return the means of their metrics.

        A step whose gradient is not finite is skipped and counted; see ``diverged``.
        """
        parts = self.mini_batches(prepared, iteration)
        steps = []
        for k, rows in enumerate(parts):
            rate = self._set_rates(iteration + k / len(parts))
            steps.append({**self._step(prepared, rows, iteration), "learning_rate": rate})
        names = {name for metrics in steps for name in metrics}
        means = {name: fmean(m[name] for m in steps if name in m) for name in names}
        return {**means, "optimizer_steps": float(len(parts))}

    def mini_batches(self, prepared: Prepared, iteration: int) -> list[list[int]]:
        """Return the trajectories of each optimizer step of an iteration."""
        config = self.config
        count = len(prepared.batch.trajectories)
        full = count if config.update.steps == "as-published" else config.episodes
        steps = -(-full // config.update.mini_batch_size)
        order = new_stream("optimizer batches", str(config.seed), iteration)
        return mini_batches(count, steps, config.update.epochs, order)

    def losses(
        self, prepared: Prepared, rows: list[int], iteration: int
    ) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Yield the loss of each micro-batch of a mini-batch, and its share of the metrics.

        The gradient of the mini-batch is the sum over micro-batches; call ``backward`` before the next one.
        """
        counts = batch_totals(self.config, prepared.inputs, rows)
        for shared, weight in self._shares(prepared.batch, rows):
            for part in self.models.passes:
                with self.models.using(part):
                    loss, metrics = self._loss(prepared, shared, counts, iteration, part)
                    share = min(weight, 1.0)
                    yield loss * weight, {k: v.detach() * share for k, v in metrics.items()}

    def gradient_norm(self, prepared: Prepared, rows: list[int], term: Term) -> float | None:
        """Return the norm of the gradient of one term of the policy's loss, unweighted; nothing is learned.

        Returns:
            None if the loss has no such term.
        """
        if not self._passed(partial(self._differentiate_term, prepared, rows, term)):
            return None
        weights = self.models.policy_parameters()
        self._sum_gradients(weights)
        norm = _clip(weights, float("inf"))
        self.forget_gradients()
        return norm

    def _differentiate_term(self, prepared: Prepared, rows: list[int], term: Term) -> bool:
        """Add this process's share to the gradients; returns whether the loss has such a term."""
        counts = batch_totals(self.config, prepared.inputs, rows)
        for shared, weight in self._shares(prepared.batch, rows):
            with self.models.using("policy"):
                scores, inputs = self._scored(prepared, shared, "policy")
                value = getattr(loss_terms(self.config, scores, inputs, counts), term)
                if value is None:
                    return False
                (value * weight).backward()
        return True

    @property
    def diverged(self) -> bool:
        """Whether too many gradients in a row were not finite."""
        return self.bad_steps >= MOST_BAD_STEPS

    def _step(self, prepared: Prepared, rows: list[int], iteration: int) -> dict[str, float]:
        totals = self._passed(partial(self._differentiate, prepared, rows, iteration))
        summed = self._summed(torch.stack(list(totals.values()))).tolist()
        norms = self._apply(iteration)
        if not norms:
            return {"skipped_steps": 1.0}
        return {**dict(zip(totals, summed, strict=True)), **norms, "skipped_steps": 0.0}

    def _differentiate(self, prepared: Prepared, rows: list[int], iteration: int) -> dict[str, Tensor]:
        """Add this process's share to the gradients, and return its share of the metrics."""
        totals: dict[str, Tensor] = {}
        for loss, metrics in self.losses(prepared, rows, iteration):
            loss.backward()
            for name, value in metrics.items():
                totals[name] = totals.get(name, value.new_zeros(())) + value
        return totals

    def _passed(self, passes: Callable[[], T]) -> T:
        """Run this process's passes; if memory runs out in any process, all stop.

        Where the weights are split, the others wait in the pass that failed, and cannot be told.
        """
        return passes() if self._copy is not None else together(passes, self.accelerator)

    def _shares(self, batch: TrainBatch, rows: Sequence[int]) -> Iterator[tuple[list[int], float]]:
        """Yield this process's passes, each with the factor of its loss.

        A pass beyond its share weighs nothing. Every process makes one at least, since all have the same
        metrics; where the weights are split it makes as many as the others. There gradients are averaged
        over processes, so the factor is their number.
        """
        budget = self.config.update.micro_batch_tokens
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        if world == 1:
            parts = micro_batches(batch.sizes, rows, budget)
        else:
            parts = shared_micro_batches(batch.sizes, rows, budget, world)
        splits = self._copy is not None
        for k in range(-(-len(parts) // world)):
            mine = k * world + rank
            if mine < len(parts):
                yield parts[mine], float(world) if splits else 1.0
            elif splits or k == 0:
                yield parts[-1], 0.0

    def _loss(
        self, prepared: Prepared, rows: list[int], counts: BatchTotals, iteration: int, part: Part
    ) -> tuple[Tensor, dict[str, Tensor]]:
        config = self.config
        scores, inputs = self._scored(prepared, rows, part)
        if part == "critic":
            critic = critic_loss(config, scores, inputs, counts)
            return critic, {"value_loss": critic}
        loss, metrics = policy_loss(config, scores, inputs, counts)
        if iteration < config.update.critic_warmup:
            loss = loss * 0.0
        if part == "all" and self.critic_optimizer is not None:
            critic = critic_loss(config, scores, inputs, counts)
            loss = loss + critic * config.critic.vf_coef
            metrics["value_loss"] = critic
        return loss, metrics

    def _autocast(self) -> torch.autocast:
        """Compute in the run's precision; accelerate's is one for all runs of a Python process.

        Where weights are split, each pass casts them for itself. With one cast for both, the backward pass of
        the prompts, a graph of its own, would end before the gradient of what follows has come through the
        cast, and FSDP would reduce the gradients without it.
        """
        device, rounds = self.accelerator.device.type, self.config.update.precision == "bfloat16"
        return torch.autocast(device, torch.bfloat16, enabled=rounds, cache_enabled=self._copy is None)

    def _scored(self, prepared: Prepared, rows: list[int], part: Part) -> tuple[Scores, LossInput]:
        device, batch = self.accelerator.device, prepared.batch
        with self._autocast():
            scores = score_trajectories(self.models, batch, rows, device, part)
        return scores, prepared.inputs.part(rows, batch.columns(rows), device)

    def _sum_gradients(self, weights: list[nn.Parameter]) -> None:
        """Add up the gradients of all processes; where the weights are split, the passes have done it."""
        if self.accelerator.num_processes == 1 or self._copy is not None:
            return
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            torch.distributed.all_reduce(weight.grad)

    def _set_rates(self, done: float) -> float:
        """Set the learning rates of the step after so many iterations and return the policy's."""
        update = self.config.update
        factor = rate_factor(update, self.config.iterations, done)
        rates = {"optimizer": update.learning_rate, "critic_optimizer": update.critic_learning_rate}
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[name] * factor
        return update.learning_rate * factor

    def _apply(self, iteration: int) -> dict[str, float]:
        """Clip, and step both optimizers; returns no norms where one is not finite and nothing was done."""
        self.moved = True
        weights = {"grad_norm": self.models.policy_parameters()}
        if self.critic_optimizer is not None:
            weights["critic_grad_norm"] = self.models.critic_parameters()
        norms = {}
        for name, changed in weights.items():
            self._sum_gradients(changed)
            norms[name] = _clip(changed, self.config.update.max_grad_norm)
        finite = all(norm < float("inf") for norm in norms.values())  # False for NaN
        if finite:
            self.bad_steps = 0
            if self.state_to_come:
                # Moments that were put among free activations would keep these from being released to vLLM.
                torch.cuda.empty_cache()
            if iteration >= self.config.update.critic_warmup:
                self.optimizer.step()
            if self.critic_optimizer is not None:
                self.critic_optimizer.step()
        else:
            self.bad_steps += 1
        self.forget_gradients()
        return norms if finite else {}

    def forget_gradients(self) -> None:
        """Free the gradients that a failed update left."""
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()

    @torch.no_grad()
    def _score_all(self, models: ActorCritic, batch: TrainBatch, part: Part) -> Scores:
        """Score every trajectory, each process its share, and put the parts together."""
        scores = self._passed(partial(self._score_share, models, batch, part))
        release_gathered(models)
        return Scores(*(self._summed(each).cpu() for each in scores))

    def _score_share(self, models: ActorCritic, batch: TrainBatch, part: Part) -> list[Tensor]:
        """Return this process's share of the scores: log-probabilities, entropies and values, else 0."""
        device = self.accelerator.device
        columns = [torch.zeros(batch.turn_ids.shape, device=device) for _ in range(3)]
        for rows, weight in self._shares(batch, range(len(batch.trajectories))):
            with self._autocast():
                scores = score_trajectories(models, batch, rows, device, part)
            if weight == 0:
                continue
            for target, value in zip(
                columns, (scores.logprobs, scores.entropies, scores.values), strict=True
            ):
                target[rows, batch.columns(rows)] = value
        return columns

    def _summed(self, share: Tensor) -> Tensor:
        """Return the sum of all processes' shares; all call this together."""
        total: Tensor = self.accelerator.reduce(share, "sum")
        return total


def is_split(config: TrainConfig, accelerator: Accelerator) -> bool:
    """Return whether the processes of a run share its weights out."""
    return config.fsdp and accelerator.num_processes > 1


def _clip(parameters: list[Any], limit: float) -> float:
    return float(whole(torch.nn.utils.clip_grad_norm_(parameters, limit)))


def make_optimizer(weights: list[nn.Parameter], learning_rate: float, settings: Update) -> torch.optim.AdamW:
    """Return an optimizer; weight decay spares what has fewer than two dimensions: biases and norms."""
    # One group without decay, as the state is saved by the number of a weight in all groups.
    groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": 0.0}]
    if settings.weight_decay:
        decayed = [weight for weight in weights if weight.ndim >= 2]
        spared = [weight for weight in weights if weight.ndim < 2]
        groups = [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": spared, "weight_decay": 0.0},
        ]
    fused = weights[0].is_cuda  # one kernel in place of several, without temporary tensors
    return torch.optim.AdamW(groups, lr=learning_rate, betas=settings.betas, fused=fused or None)


def rate_factor(settings: Update, iterations: int, done: float) -> float:
    """Return the factor of the learning rates of an optimizer step, in [0, 1].

    The formulas are those of ``transformers.get_scheduler``, with iterations in place of steps: those before
    the step, a fraction within one, so that each of its steps has its own.
    """
    if done < settings.warmup_iterations:
        return done / settings.warmup_iterations
    if settings.lr_scheduler_type == "constant":
        return 1.0
    progress = (done - settings.warmup_iterations) / (iterations - settings.warmup_iterations)
    if settings.lr_scheduler_type == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress))
