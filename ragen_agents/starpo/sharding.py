"""Weights that are split between processes (FSDP): each holds its part, and that of gradients and optimizers.

The parts of a layer come together when it is passed, so all processes must make the same passes.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def split(models: nn.Module, layers: set[str]) -> None:
    """Split the parameters of a module between all processes, in place.

    Args:
        models: Called by all processes alike from now on; its parameters become distributed tensors.
        layers: Class names of the submodules that come together on their own.
    """
    for module in models.modules():
        if type(module).__name__ in layers:
            fully_shard(module)
    fully_shard(models)


class WholeCopy:
    """A copy of a model that has been split, with all its weights, for what processes do each by itself.

    Args:
        model: Before it is split.
    """

    def __init__(self, model: Any) -> None:
        self._model = copy.deepcopy(model)

    def of(self, parts: nn.Module) -> Any:
        """Return the copy with the present weights of the split model; all processes call this together."""
        with torch.no_grad():
            ours, theirs = self._model.named_parameters(), parts.named_parameters()
            for (name, parameter), (same, part) in zip(ours, theirs, strict=True):
                assert name == same
                if parameter.requires_grad:
                    parameter.copy_(whole(part))
        return self._model


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor that may be split; all processes call this together."""
    if isinstance(tensor, DTensor):
        complete: Tensor = tensor.full_tensor()
        return complete
    return tensor


def part_like(tensor: Tensor, target: Tensor) -> Tensor:
    """Return a tensor on the target's device, split like it.

    Raises:
        ValueError: It has another shape.
    """
    if tensor.shape != target.shape:
        raise ValueError(f"{tuple(tensor.shape)} values for a weight of {tuple(target.shape)}")
    if isinstance(target, DTensor):
        return distribute_tensor(
            tensor.to(target.device), target.device_mesh, target.placements, src_data_rank=None
        )
    return tensor.to(target.device)
