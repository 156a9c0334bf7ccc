"""The policy, its critic, and the passes that give log-probabilities, entropies and values."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from ragen_agents.engines.device import avoid_cudnn_attention
from ragen_agents.engines.weights import PROBE_LENGTH, TOLERANCE, logprobs_of, probe
from ragen_agents.model_files.folders import check_model_folder, load_weights
from ragen_agents.model_files.source import model_source
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.update.adapters import (
    CRITIC,
    POLICY,
    adapter,
    add_critic_adapter,
    has_adapters,
    is_of_critic,
    with_adapters,
)
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.output_head import chunked_logprobs
from ragen_agents.starpo.update.passes import states_before, trunk_of
from ragen_envs.errors import RagenError, first_line


@dataclass(frozen=True)
class Scores:
    """Scores of trajectories, (B, T) each; entries outside the mask are 0."""

    logprobs: Tensor
    """Tempered log-probability of each token, in nats."""
    entropies: Tensor
    """Entropy of the distribution that each token was drawn from, in nats."""
    values: Tensor
    """Value of the state before each token; 0 without a critic."""


Part = Literal["all", "policy", "critic", "initial"]
"""Parts that a pass scores: policy and critic, one of them, or the base of a policy with adapters."""


class ActorCritic(nn.Module):
    """Policy and critic in one module, which FSDP can split.

    Args:
        policy: A causal language model. If it has adapters, a separate critic is a second adapter of it.
        critic: "separate", "shared" or None.
        temperature: That of the rollouts.
        float32_head: Whether logits are computed in float32 also under autocast.
    """

    def __init__(
        self, policy: Any, critic: str | None, temperature: float, float32_head: bool = False
    ) -> None:
        super().__init__()
        self.policy = policy
        self.temperature, self.float32_head = temperature, float32_head
        self.trunk: nn.Module | None = None
        self.value_head: nn.Linear | None = None
        self._apart = critic == "separate"
        if self._apart and has_adapters(policy):
            add_critic_adapter(policy)
        elif self._apart:
            self.trunk = copy.deepcopy(trunk_of(policy))
        if critic is not None:
            self.value_head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def passes(self) -> tuple[Part, ...]:
        """The parts that are passed one after the other, so that only one graph exists at a time."""
        return ("policy", "critic") if self._apart else ("all",)

    def forward(self, ids: Tensor, real: Tensor, mask: Tensor, start: int, part: Part = "all") -> Scores:
        """Score rows of tokens.

        Args:
            ids: (B, T) token ids.
            real: (B, T) bool, False for padding.
            mask: (B, T) bool, action tokens.
            start: Column at which the first prompts end; the prompt of a group is processed once.
            part: The part to score; the scores of all others are 0.
        """
        logprobs = entropies = values = torch.zeros(ids.shape, device=ids.device)
        states = None
        if part != "critic":
            with self.using(part):
                states = states_before(trunk_of(self.policy), ids, real, mask, start)
            scores = chunked_logprobs(self.policy, states, ids[mask], self.temperature, self.float32_head)
            logprobs, entropies = (_placed(mask, each) for each in scores)
        if self.value_head is not None and part in ("all", "critic"):
            if self._apart or states is None:
                with self.using("critic"):
                    trunk = trunk_of(self.policy) if self.trunk is None else self.trunk
                    states = states_before(trunk, ids, real, mask, start)
            # In float32, also where autocast rounds all else.
            with torch.autocast(states.device.type, enabled=False):
                values = _placed(mask, self.value_head(states.float())[:, 0])
        return Scores(logprobs, entropies, values)

    @contextmanager
    def using(self, part: Part) -> Iterator[None]:
        """Compute with the adapter of a part, if there are any.

        A backward pass that recomputes layers must run in the same block as their forward pass.
        """
        if not has_adapters(self.policy):
            yield
            return
        name = CRITIC if part == "critic" and self._apart else POLICY
        with adapter(self.policy, None if part == "initial" else name):
            yield

    def policy_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the policy's optimizer."""
        return list(self.named_policy().values())

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the critic's optimizer."""
        return list(self.named_critic().values())

    def named_policy(self) -> dict[str, nn.Parameter]:
        """Return the parameters of the policy's optimizer by their names below the policy."""
        named = self.policy.named_parameters()
        return {n: p for n, p in named if p.requires_grad and not is_of_critic(n)}

    def named_critic(self) -> dict[str, nn.Parameter]:
        """Return the parameters of the critic's optimizer, named as if its trunk were a separate model."""
        named: dict[str, nn.Parameter] = {}
        if self.trunk is not None:
            named = {f"trunk.{n}": p for n, p in self.trunk.named_parameters() if p.requires_grad}
        elif self._apart:
            for name, parameter in trunk_of(self.policy).named_parameters():
                if is_of_critic(name):
                    named[f"trunk.{name.replace(f'.{CRITIC}.', f'.{POLICY}.')}"] = parameter
        if self.value_head is not None:
            named |= {f"value_head.{n}": p for n, p in self.value_head.named_parameters()}
        return named


def score_trajectories(
    models: nn.Module,
    batch: TrainBatch,
    trajectories: Sequence[int],
    device: torch.device,
    part: Part = "all",
) -> Scores:
    """Return the scores of some trajectories of a batch.

    Returns:
        Scores of (n, the columns that the trajectories fill).
    """
    read = batch.passed(trajectories, device)
    scores: Scores = models(read.ids, read.attention_mask, read.mask, read.start, part)
    # From rows to trajectories, which have the same action tokens in the same order.
    mask = batch.mask[list(trajectories), batch.columns(trajectories)].to(device)
    parts = (scores.logprobs, scores.entropies, scores.values)
    return Scores(*(_placed(mask, part[read.mask]) for part in parts))


def load_policy(config: TrainConfig, device: torch.device) -> tuple[Any, Any]:
    """Return the model, with adapters if asked for, and its tokenizer.

    It is in float32. If only adapters are trained and ``update.precision`` is bfloat16, all other weights
    are in bfloat16.

    Raises:
        RagenError: The model could not be loaded, or changes its logits in a way that is not supported.
    """
    precision = "float32" if config.lora is None else config.update.precision
    model, tokenizer = load_model(config.model, getattr(torch, precision))
    model.to(device)
    _check_scores(model, config.model, TOLERANCE[precision])
    if config.lora is not None:
        model = with_adapters(model, config.lora.rank, config.lora.alpha, config.seed)
    return model, tokenizer


def load_model(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Return a causal language model in evaluation mode, and its tokenizer."""
    avoid_cudnn_attention()
    source = model_source(name)
    check_model_folder(Path(source))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        model = load_weights(source, dtype)
    except Exception as error:  # of files that may come from strangers
        raise RagenError(f"model is '{name}', which could not be loaded: {first_line(error)}") from error
    return model.eval(), tokenizer


@torch.no_grad()
def _check_scores(model: Any, name: str, tolerance: float) -> None:
    """Check that log-probabilities are the model's own, for models differ in what they do to logits."""
    ids = torch.tensor([probe(model)], device=model.device)
    is_real = torch.ones_like(ids, dtype=torch.bool)
    is_action = is_real.clone()
    is_action[0, 0] = False
    scores = ActorCritic(model, None, temperature=1.0)(ids, is_real, is_action, PROBE_LENGTH // 2)
    ours = scores.logprobs[0, 1:]
    gap = float((ours - logprobs_of(model, ids)).abs().mean())
    if not gap <= tolerance:
        raise RagenError(
            f"model is '{name}', whose log-probabilities the trainer would get wrong by {gap:.3g} nats a "
            f"token: {type(model).__name__} changes its logits or cache in a way that is not supported"
        )


def _placed(mask: Tensor, items: Tensor) -> Tensor:
    return torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, items.float())
