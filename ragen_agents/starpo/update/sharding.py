"""Weights that are split between processes (FSDP): each holds its part, and that of gradients and optimizers.

The parts of a layer come together when it is passed, so all processes must make the same passes.
"""

import copy
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ragen_envs.errors import RagenError


def split(models: nn.Module, layers: set[str], accelerator: Accelerator) -> None:
    """Split the parameters of a module between all processes, in place, and move it to their devices."""
    parts = [module for module in models.modules() if type(module).__name__ in layers]
    if not parts:
        raise RagenError("fsdp is true, but the model does not declare its layers")
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    for module in [*reversed(parts), models]:
        fully_shard(module, mesh=mesh)


def release_gathered(models: nn.Module) -> None:
    """Free what a pass without gradients has put together; does nothing where nothing is split.

    Until then the outermost weights are temporary tensors, and a change to them would be lost.
    """
    if isinstance(models, FSDPModule):
        models.reshard()


class WholeCopy:
    """A copy of a model that is split, with all its weights, for what processes do each by itself."""

    def __init__(self, model: Any, device: torch.device | None) -> None:
        self._model = None if device is None else copy.deepcopy(model).to(device)

    def refreshed_from(self, parts: nn.Module) -> Any:
        """Return the copy with the split model's present weights; all processes call this together."""
        ours = {} if self._model is None else dict(self._model.named_parameters())
        with torch.no_grad():
            for name, part in parts.named_parameters():
                if part.requires_grad:
                    complete = whole(part)
                    if ours:
                        ours[name].copy_(complete)
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
