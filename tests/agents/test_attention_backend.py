"""Which of PyTorch's attention kernels models compute with."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from ragen_agents.policies import Sampling, make_policy  # noqa: E402
from ragen_agents.starpo.update.models import load_model  # noqa: E402


def play(model):
    return make_policy(model, Sampling())


@pytest.mark.parametrize("load", [load_model, play])
def test_models_do_not_attend_with_cudnn(load, tiny):
    """Whose gradients are not numbers for some rows with padding; an H100 would prefer it."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    load(str(tiny))
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
