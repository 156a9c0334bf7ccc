"""Low-rank adapters: one frozen base that policy, critic and reference share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from ragen_envs.errors import RagenError, install_hint

POLICY: Final = "default"
"""Name of the policy's adapter."""
CRITIC: Final = "critic"
"""Name of the critic's."""


def with_adapters(model: Any, rank: int, alpha: float, seed: int) -> Any:
    """Return a model whose linear layers have LoRA adapters in float32, which alone are trained."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise RagenError(f"adapters need peft; {install_hint('train')}") from None
    torch.manual_seed(seed)
    adapters = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, adapters, adapter_name=POLICY)


def has_adapters(model: Any) -> bool:
    """Return whether a model is one of `with_adapters`."""
    return hasattr(model, "peft_config")


def add_critic_adapter(policy: Any) -> None:
    """Add a second adapter to a model with adapters, which starts as a copy of the first."""
    policy.add_adapter(CRITIC, policy.peft_config[POLICY])
    named = dict(policy.named_parameters())
    for name, parameter in named.items():
        if is_of_critic(name):
            parameter.data.copy_(named[name.replace(f".{CRITIC}.", f".{POLICY}.")])
            parameter.requires_grad_(True)


def is_of_critic(name: str) -> bool:
    """Return whether a parameter of this name is part of the critic's adapter."""
    return f".{CRITIC}." in name and ".lora_" in name


@contextmanager
def adapter(policy: Any, name: str | None) -> Iterator[None]:
    """Have a model with adapters compute with one of them, or with none, for the length of a block.

    What is trained stays trained: peft would freeze every adapter that is not in use.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [part for part in policy.modules() if isinstance(part, BaseTunerLayer)]
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    before = None if layers[0].disable_adapters else layers[0].active_adapters

    def use(names: list[str] | None) -> None:
        for layer in layers:
            layer.enable_adapters(names is not None)
            if names is not None:
                layer.set_adapter(names)
        for parameter in trained:
            parameter.requires_grad_(True)

    use(None if name is None else [name])
    try:
        yield
    finally:
        use(before)
