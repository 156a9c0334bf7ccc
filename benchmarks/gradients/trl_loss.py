"""TRL's GRPO through the same bench: its trainer's own loss, on the table's log-probabilities."""

import tempfile
from typing import Any, Final

import torch
from datasets import Dataset
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from gradients.batches import Batch
from gradients.trainers import rows_of

_LONGEST: Final = 4


class TrlLoss:
    """TRL's loss of a type, with its own normalisation of rewards by group.

    Args:
        loss_type: "grpo", "dapo", "bnpo" or "dr_grpo"; see `trl.GRPOConfig`.
        scale_rewards: "group" or "none".
    """

    def __init__(self, loss_type: str, scale_rewards: str = "group") -> None:
        self.scale_rewards = scale_rewards
        self._trainer = _trainer(loss_type)
        self._logprobs: Tensor | None = None
        self._trainer._get_per_token_logps_and_entropies = self._table

    def __call__(self, batch: Batch) -> Tensor:
        """Return the direction of ascent that the batch gives, (D,)."""
        rows = rows_of(batch, range(len(batch)), _LONGEST)
        returns = rows.rewards.sum(1)
        advantages = torch.zeros_like(returns)
        for group in rows.groups.unique():
            inside = returns[rows.groups == group]
            # As in GRPOTrainer._generate_and_score_completions.
            spread = inside.std() + 1e-4 if self.scale_rewards == "group" else 1.0
            advantages[rows.groups == group] = (inside - inside.mean()) / spread
        ids = torch.zeros(rows.mask.shape, dtype=torch.int64)
        inputs = {
            "prompt_ids": ids[:, :1], "prompt_mask": torch.ones_like(ids[:, :1]),
            "completion_ids": ids, "completion_mask": rows.mask.long(), "advantages": advantages,
            "num_items_in_batch": rows.mask.sum(),
        }  # fmt: skip

        def loss(logprobs: Tensor) -> Tensor:
            self._logprobs = logprobs
            found: Tensor = self._trainer._compute_loss(self._trainer.model, inputs)
            return found

        return rows.ascent(loss)

    def _table(self, *_: Any, **__: Any) -> tuple[Tensor | None, Tensor, None]:
        assert self._logprobs is not None
        return self._logprobs, torch.zeros_like(self._logprobs.detach()), None


def _trainer(loss_type: str) -> Any:
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
        )
    )  # fmt: skip
    folder = tempfile.mkdtemp()
    settings = GRPOConfig(
        output_dir=folder, loss_type=loss_type, max_completion_length=_LONGEST, use_cpu=True,
        report_to=[], bf16=False, per_device_train_batch_size=2, num_generations=2, beta=0.0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model, reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        args=settings, train_dataset=Dataset.from_dict({"prompt": ["a"] * 4}),
        processing_class=_tokenizer(),
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def _tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = {"a": 0, "<pad>": 1, "<eos>": 2}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="a")), pad_token="<pad>",
        eos_token="<eos>",
    )  # fmt: skip
