"""Gradients of the trainer's passes against those of a plain float64 model."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from gpu_check.findings import Findings, stage_parser
from gpu_check.variants import BFLOAT16, Variant
from gpu_check.workload import (
    PAPER,
    TINY,
    TINY_LENGTHS,
    made_up,
    model_config,
    random_model,
)
from ragen_agents.engines.device import avoid_cudnn_attention
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.memory.training_memory import Conversations
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.models import ActorCritic, score_trajectories
from ragen_agents.starpo.update.passes import recompute_layers

LIMITS: Final = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest relative error of a gradient. Rounding to bfloat16 makes a few percent in four layers."""
TURNS: Final = 3


def main() -> None:
    """Compare and write the findings; fail where an error is beyond its limit or not finite."""
    args = stage_parser(__doc__ or "").parse_args()
    avoid_cudnn_attention()
    findings, wrong = Findings(args.json), []
    check = Check(args.tiny)
    for variant in (Variant("float32", {"update": {"precision": "float32"}}), *BFLOAT16):
        row = check.compare(variant)
        findings.add(variant.name, row)
        limit = LIMITS[variant.settings["update"]["precision"]]
        if not row["gradient_error"] <= limit:  # also for NaN
            wrong.append(variant.name)
    if wrong:
        findings.add("wrong", f"gradients beyond their limit: {', '.join(wrong)}")
        raise SystemExit(1)


class Check:
    """Compares variants with the same reference.

    Args:
        tiny: Whether sizes are those of a rehearsal.
    """

    def __init__(self, tiny: bool) -> None:
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        config = model_config(TINY) if tiny else model_config(PAPER, num_hidden_layers=4)
        self._config = config
        lengths = TINY_LENGTHS if tiny else Conversations(160, 700)
        self._trajectories = made_up(2, 3, lengths, TURNS, config.vocab_size)
        written = sum(t.written for t in self._trajectories)
        drawn = torch.randn(written, generator=torch.Generator().manual_seed(1))
        self._weights = (drawn / written).to(self._device)
        self._logprobs, self._gradient = self._reference()

    def _reference(self) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and gradient by transformers alone, row by row, in float64."""
        model = random_model(self._config, self._device).double()
        found = [_logprobs(model, t, self._device) for t in self._trajectories]
        logprobs = torch.cat(found)
        (logprobs * self._weights.double()).sum().backward()
        return logprobs.detach(), _flat(model.parameters())

    def compare(self, variant: Variant) -> dict[str, float]:
        """Return relative errors of the gradient, and the gap of log-probabilities in nats."""
        update = variant.settings["update"]
        model = random_model(self._config, self._device)
        models = ActorCritic(model, None, 1.0, update.get("float32_head", False)).eval()
        if update.get("gradient_checkpointing"):
            recompute_layers(models)
        batch = TrainBatch.of(self._trajectories, pad=0)
        rows = range(len(self._trajectories))
        in_bfloat16 = update["precision"] == "bfloat16"
        with (
            variant.arithmetic(),
            models.using("policy"),
            torch.autocast(self._device.type, torch.bfloat16, enabled=in_bfloat16),
        ):
            scores = score_trajectories(models, batch, rows, self._device, "policy")
            logprobs = scores.logprobs[batch.mask.to(self._device)]
            (logprobs * self._weights).sum().backward()
        gap = (logprobs.detach().double() - self._logprobs).abs()
        gradient = _flat(model.parameters())
        head = model.get_output_embeddings().weight.numel()
        return {
            "gradient_error": _relative(gradient, self._gradient),
            "head_gradient_error": _relative(gradient[:head], self._gradient[:head]),
            "logprob_gap_mean": float(gap.mean()),
            "logprob_gap_max": float(gap.max()),
        }


def _logprobs(model: Any, trajectory: Trajectory, device: torch.device) -> Tensor:
    """Return the log-probabilities of the tokens that a trajectory's model wrote, in float64."""
    ids = torch.tensor([trajectory.ids], device=device)
    logs = model(ids).logits[0, :-1].log_softmax(-1)
    written = torch.tensor([turn >= 0 for turn in trajectory.turn_ids[1:]], device=device)
    chosen: Tensor = logs.gather(1, ids[0, 1:, None])[:, 0][written]
    return chosen


def _flat(parameters: Sequence[Any] | Any) -> Tensor:
    """Return all gradients in one vector, the embedding's, which is also the head's, first."""
    return torch.cat([p.grad.double().flatten() for p in parameters])


def _relative(found: Tensor, reference: Tensor) -> float:
    return float((found - reference).norm() / reference.norm())


if __name__ == "__main__":
    main()
