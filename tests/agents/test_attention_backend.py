"""Which of PyTorch's attention kernels a run computes with."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.setup import make_accelerator  # noqa: E402


def test_a_run_does_not_attend_with_cudnn():
    """Whose gradients are not numbers for some rows with padding; an H100 would prefer it."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    make_accelerator(TrainConfig(game="ragen/BanditText-v0"))
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
