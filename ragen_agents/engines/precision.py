"""The arithmetic of engines and trainers."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def avoid_cudnn_attention() -> None:
    """Have PyTorch attend by its other kernels, in the whole process.

    cuDNN is the default on an H100 from torch 2.11 on. Its gradients are NaN for some lengths of rows under a
    mask (https://github.com/pytorch/pytorch/issues/196678), and it builds a plan for every new shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def computing_in(precision: torch.dtype | None, model: nn.Module) -> Iterator[None]:
    """Compute without gradients, under autocast as the trainer does; casts of weights last until the end.

    Args:
        precision: None computes in that of the weights.
        model: The model that is passed through in the context.
    """
    if precision is None:
        with torch.inference_mode():
            yield
        return
    # Autocast keeps no cast of a weight that needs no gradient, and would cast those under adapters at
    # every step.
    frozen = [w for w in model.parameters() if w.is_floating_point() and not w.requires_grad]
    for weight in frozen:
        weight.requires_grad_(True)
    try:
        device = next(model.parameters()).device
        # In inference mode autocast would keep no casts at all.
        with torch.autocast(device.type, precision), torch.no_grad():
            yield
    finally:
        for weight in frozen:
            weight.requires_grad_(False)
