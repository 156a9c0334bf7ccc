"""The arithmetic of an engine that computes with the weights that are trained."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def computing_in(precision: torch.dtype | None, model: nn.Module) -> Iterator[None]:
    """Compute under autocast as the trainer does; the casts of the weights are kept until the context ends.

    Args:
        precision: None computes in that of the weights.
        model: The model that is passed through in the context, without gradient.
    """
    if precision is None:
        yield
        return
    # Autocast keeps no cast of a weight that needs no gradient, and would cast those under adapters at
    # every step.
    frozen = [weight for weight in model.parameters() if not weight.requires_grad]
    for weight in frozen:
        weight.requires_grad_(True)
    try:
        device = next(model.parameters()).device
        with torch.autocast(device.type, precision):
            yield
    finally:
        for weight in frozen:
            weight.requires_grad_(False)
