"""How it shows that memory has run out."""

from typing import Final

import torch

_SIGNS: Final = (
    "DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "'out of memory'",
)  # fmt: skip
"""In messages of errors that have no class of their own: of the processor's memory, and of CUDA's where it is
not PyTorch's allocator that lacks it, but CUDA itself, cuBLAS or NCCL ("Cuda failure 2 'out of memory'")."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that a device or the processor has no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)
