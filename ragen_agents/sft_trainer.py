"""The supervised loss, at the cost of what is learned and of what rows do not share."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Trainer

from ragen_agents.rollout.trajectory import CONTEXT, Row
from ragen_agents.starpo.update.output_head import chunked_logprobs
from ragen_agents.starpo.update.passes import states_before, trunk_of

IGNORED: Final = -100
"""Label of a token that is not learned."""


class ImitationTrainer(Trainer):
    """transformers' trainer with logits of the labelled tokens alone, and one pass over a common beginning.

    The games' prompts share their rules, which are most of a short conversation, and a reply is a few of its
    tokens. The loss is the mean over the labelled tokens of an optimizer step, however it is cut into passes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Else each pass would count alike, however many labels it has.
        self.model_accepts_loss_kwargs = True

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the loss of one pass."""
        assert not return_outputs, "it has no outputs beside the loss"
        ids, labels = inputs["input_ids"], inputs["labels"]
        learned = torch.nn.functional.pad(labels[:, 1:] != IGNORED, (1, 0))
        policy = self.accelerator.unwrap_model(model)
        # The trainer would set the precision in the model's forward method, which is not called.
        with self.accelerator.autocast():
            start = common_beginning(ids, labels)
            states = states_before(trunk_of(policy), ids, inputs["attention_mask"], learned, start)
            logprobs, _ = chunked_logprobs(policy, states, labels[learned], 1.0)
        items = learned.sum() if num_items_in_batch is None else num_items_in_batch
        return -logprobs.sum() / items


def labelled(row: Row) -> dict[str, list[int]]:
    """Return the token ids of a row and their labels."""
    pairs = zip(row.ids, row.turn_ids, strict=True)
    labels = [IGNORED if turn == CONTEXT else token for token, turn in pairs]
    return {"input_ids": row.ids, "labels": labels}


def labelled_all(rows: Sequence[Row]) -> list[dict[str, list[int]]]:
    """Return the token ids of rows and their labels: all but what every row begins with."""
    columns = zip(*(row.ids for row in rows), strict=False)
    equal = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    shared = min(equal, *(row.prompt for row in rows))  # replies are learned even if all are equal
    return [{"input_ids": row.ids, "labels": [IGNORED] * shared + row.ids[shared:]} for row in rows]


def common_beginning(ids: Tensor, labels: Tensor) -> int:
    """Count the first columns of (B, T) ids that are equal in all rows, up to the first label; at least 1."""
    apart = (ids != ids[:1]).any(0) | (labels != IGNORED).any(0)
    return max(1, int(torch.cat([apart, apart.new_ones(1)]).int().argmax()))


def padded(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
    """Return rows side by side, padded on the right, so that what they begin with stays in place."""
    columns = {"input_ids": 0, "labels": IGNORED, "attention_mask": False}
    filled = [{**row, "attention_mask": [True] * len(row["input_ids"])} for row in rows]
    return {
        name: pad_sequence(
            [torch.tensor(row[name]) for row in filled], batch_first=True, padding_value=padding
        )
        for name, padding in columns.items()
    }
