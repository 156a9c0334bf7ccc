"""The policy, its critic, and the passes that give log-probabilities, entropies and values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import DynamicCache
from transformers.utils import logging as transformers_logging

from ragen_agents.engines.weights import PROBE_LENGTH, TOLERANCE, logprobs_of, probe
from ragen_agents.model_source import model_source
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_envs.errors import RagenError, first_line, install_hint

_CHUNK = 2048
"""Action tokens whose logits exist at the same time."""


@dataclass(frozen=True)
class Scores:
    """What the models say of trajectories, (B, T) each; entries outside the mask are 0."""

    logprobs: Tensor
    """Of each token, tempered, in nats."""
    entropies: Tensor
    """Of the distribution that each token was drawn from, in nats."""
    values: Tensor
    """Of the state before each token; 0 without a critic."""

    def laid_out(self, mask: Tensor, other: Tensor) -> "Scores":
        """Return the scores under another mask of the same action tokens.

        Args:
            mask: (R, T) bool, of the scores.
            other: (B, S) bool, with as many action tokens, in the same order row by row.
        """
        parts = (self.logprobs, self.entropies, self.values)
        return Scores(*(_placed(other, part[mask]) for part in parts))


class ActorCritic(nn.Module):
    """Policy and critic in one module, so that one wrapper of a distributed run holds both.

    Args:
        policy: A causal language model.
        critic: "separate", "shared" or None.
        temperature: That of the rollouts.
    """

    def __init__(self, policy: Any, critic: str | None, temperature: float) -> None:
        super().__init__()
        self.policy = policy
        self.temperature = temperature
        self.trunk: nn.Module | None = _copied_trunk(policy) if critic == "separate" else None
        self.value_head: nn.Linear | None = None
        if critic is not None:
            self.value_head = nn.Linear(policy.config.hidden_size, 1)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    def forward(self, ids: Tensor, real: Tensor, mask: Tensor, start: int) -> Scores:
        """Score rows of tokens.

        Args:
            ids: (B, T) token ids.
            real: (B, T) bool, which are no padding.
            mask: (B, T) bool, action tokens.
            start: Column at which the first prompts end; those of a group are read once.
        """
        hidden = hidden_states(trunk_of(self.policy), ids, real, start)
        before = mask[:, 1:]
        logprobs, entropies = chunked_logprobs(
            self.policy, hidden[:, :-1][before], ids[:, 1:][before], self.temperature
        )
        values = torch.zeros(ids.shape, device=ids.device)
        if self.value_head is not None:
            seen = hidden if self.trunk is None else hidden_states(self.trunk, ids, real, start)
            values = _placed(mask, self._valued(seen[:, :-1][before]))
        return Scores(_placed(mask, logprobs), _placed(mask, entropies), values)

    def _valued(self, states: Tensor) -> Tensor:
        """Return the values of states, in float32 also where autocast rounds all else."""
        assert self.value_head is not None
        with torch.autocast(states.device.type, enabled=False):
            values: Tensor = self.value_head(states.float())[:, 0]
        return values

    def policy_parameters(self) -> list[nn.Parameter]:
        """Return what the policy's optimizer changes."""
        return [p for p in self.policy.parameters() if p.requires_grad]

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return what the critic's optimizer changes."""
        modules = [module for module in (self.trunk, self.value_head) if module is not None]
        return [p for module in modules for p in module.parameters() if p.requires_grad]


def score_trajectories(
    models: nn.Module, batch: TrainBatch, trajectories: Sequence[int], device: torch.device
) -> Scores:
    """Return what the models say of some trajectories of a batch.

    Args:
        models: An `ActorCritic`, or what wraps it.
        batch: Has them.
        trajectories: Which, n of them; all their rows are passed together.
        device: Of the models.

    Returns:
        Scores of (n, the columns that the trajectories fill).
    """
    read = batch.passed(trajectories, device)
    scores: Scores = models(read.ids, read.attention_mask, read.mask, read.start)
    mask = batch.mask[list(trajectories), batch.columns(trajectories)]
    return scores.laid_out(read.mask, mask.to(device))


def chunked_logprobs(
    policy: Any, hidden: Tensor, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of targets and entropies, (n,) each, without logits of all n at once.

    Args:
        policy: The model whose output head it is.
        hidden: (n, d), the states that predict the targets.
        targets: (n,) token ids.
        temperature: Logits are divided by it.
    """

    def part(states: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        logs = torch.log_softmax(_logits(policy, states) / temperature, dim=-1)
        return logs.gather(1, wanted[:, None])[:, 0], -(logs.exp() * logs).sum(-1)

    if len(targets) <= _CHUNK:
        return part(hidden, targets)
    pairs = [
        checkpoint(part, states, wanted, use_reentrant=False)
        for states, wanted in zip(hidden.split(_CHUNK), targets.split(_CHUNK), strict=True)
    ]
    return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])


def _logits(policy: Any, states: Tensor) -> Tensor:
    """Return what a model's own pass makes of its last hidden states: (n, vocabulary), float32."""
    head, config = policy.get_output_embeddings(), policy.config.get_text_config()
    logits = nn.functional.linear(states, head.weight, head.bias).float()
    if scale := getattr(config, "logits_scaling", None):  # Granite
        logits = logits / scale
    if scale := getattr(config, "logit_scale", None):  # Cohere
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):  # Gemma 2
        logits = cap * torch.tanh(logits / cap)
    return logits


def load_policy(config: TrainConfig, device: torch.device) -> tuple[Any, Any]:
    """Return the model, in float32 and with adapters if asked for, and its tokenizer.

    Raises:
        RagenError: There is no such model, or its log-probabilities are none that can be trained here.
    """
    model, tokenizer = load_model(config.model)
    model.to(device)
    _check_scores(model, config.model)
    if config.lora is not None:
        model = with_adapters(model, config.lora.rank, config.lora.alpha, config.seed)
    return model, tokenizer


def load_model(name: str) -> tuple[Any, Any]:
    """Return a causal language model in float32, in evaluation mode, and its tokenizer.

    Args:
        name: "starter", "smollm2", a model folder, a GGUF file, or "hf:NAME".

    Raises:
        RagenError: There is no such model.
    """
    transformers_logging.disable_progress_bar()
    source = model_source(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32, trust_remote_code=False
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise RagenError(
            f"model is '{name}', which could not be loaded: {first_line(error)}"
        ) from error
    return model.eval(), tokenizer


@torch.no_grad()
def _check_scores(model: Any, name: str) -> None:
    """Check that log-probabilities are the model's own, for models differ in what they do to logits."""
    ids = torch.tensor([probe(model)], device=model.device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[0, 0] = False
    ours = ActorCritic(model, None, 1.0)(ids, mask | True, mask, PROBE_LENGTH // 2).logprobs[0, 1:]
    gap = float((ours - logprobs_of(model, ids)).abs().mean())
    if not gap <= TOLERANCE["float32"]:
        raise RagenError(
            f"model is '{name}', whose log-probabilities the trainer would get wrong by {gap:.3g} nats a "
            f"token: {type(model).__name__} does something to its logits or cache that is not known here"
        )


def with_adapters(model: Any, rank: int, alpha: float, seed: int) -> Any:
    """Return a model whose linear layers have LoRA adapters, which alone are trained.

    Raises:
        RagenError: peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise RagenError(f"adapters need peft; {install_hint('train')}") from None
    torch.manual_seed(seed)
    adapters = LoraConfig(
        r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, adapters)


def _placed(mask: Tensor, items: Tensor) -> Tensor:
    return torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, items.float())


def trunk_of(policy: Any) -> Any:
    """Return the part of a model below its output head, adapters included."""
    model = policy.get_base_model() if hasattr(policy, "get_base_model") else policy
    return getattr(model, model.base_model_prefix)


def _copied_trunk(policy: Any) -> nn.Module:
    import copy

    # A copy learns what the policy learns: all weights, or its adapters.
    trunk: nn.Module = copy.deepcopy(trunk_of(policy))
    return trunk


def hidden_states(trunk: Any, ids: Tensor, real: Tensor, start: int) -> Tensor:
    """Return the last hidden states of rows; what they begin with is read and differentiated once.

    Args:
        trunk: The model below its output head.
        ids: (B, T) token ids.
        real: (B, T) bool, which are no padding.
        start: Columns of the beginning. Rows that are equal there share one pass over it.

    Returns:
        (B, T, d).
    """
    prompts, copies = ids[:, :start].unique(dim=0, return_inverse=True)
    first = torch.empty(len(prompts), dtype=torch.int64, device=ids.device)
    first[copies] = torch.arange(len(ids), device=ids.device)
    read = real[first, :start]
    cache = DynamicCache()
    before = _read(trunk, prompts, read, read, cache).index_select(0, copies)
    if start == ids.shape[1]:
        return before
    layers: list[Any] = cache.layers
    for layer in layers:
        # batch_select_indices would index, whose gradient takes far longer than that of index_select.
        layer.keys = layer.keys.index_select(0, copies)
        layer.values = layer.values.index_select(0, copies)
    after = _read(trunk, ids[:, start:], real, real[:, start:], cache)
    return torch.cat([before, after], dim=1)


def _read(trunk: Any, ids: Tensor, attention: Tensor, real: Tensor, cache: DynamicCache) -> Tensor:
    places = attention.long().cumsum(1)[:, -real.shape[1] :] - 1
    output: Tensor = trunk(
        input_ids=ids, attention_mask=attention.long(), position_ids=places.clamp(min=0),
        past_key_values=cache, use_cache=True,
    ).last_hidden_state  # fmt: skip
    return output
