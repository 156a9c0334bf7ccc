"""The device that a model computes on: its arithmetic, and errors when its memory is used up."""

import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import nn

_LOG: Final = logging.getLogger("ragen.engines")
_SIGNS: Final = (
    "DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "'out of memory'",
)  # fmt: skip
"""Signs in messages of errors that have no class of their own: of the processor's memory, and of CUDA's where
it is not PyTorch's allocator that lacks it, but CUDA itself, cuBLAS or NCCL ("Cuda failure 2 'out of
memory'")."""


def avoid_cudnn_attention() -> None:
    """Disable cuDNN's attention kernels in the whole process.

    cuDNN is the default on an H100 from torch 2.11 on. Its gradients are NaN for some lengths of rows under a
    mask (https://github.com/pytorch/pytorch/issues/196678), and it builds a plan for every new shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def has_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16, without which it is far slower."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if supported is None or not supported():
        return False
    # Of x86, oneDNN says so with AVX-512 alone, where products take four times as long as in float32.
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    own = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bool(not is_x86 or own)


def warn_of_slow_bfloat16(field: str, device: torch.device) -> None:
    """Warn if a run in bfloat16 would be slow on its device."""
    if device.type == "cpu" and not has_bfloat16():
        _LOG.warning(
            "%s is bfloat16, for which this processor has no instructions: it computes many times slower "
            "than in float32; set %s=float32", field, field,
        )  # fmt: skip


@contextmanager
def computing_in(precision: torch.dtype | None, model: nn.Module) -> Iterator[None]:
    """Compute without gradients, under autocast as the trainer does; casts of weights last until the end."""
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


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device or the processor has no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)
