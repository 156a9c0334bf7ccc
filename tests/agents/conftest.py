import pytest


@pytest.fixture
def impatient(monkeypatch):
    from ragen_agents.policies.endpoint import policy

    monkeypatch.setattr(policy, "FIRST_DELAY", 0.001)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    from endpoint_server import EndpointServer

    with EndpointServer() as made:
        yield made


@pytest.fixture
def policy(tiny):
    """What is trained: other weights than the folder's, with which an engine begins."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny, dtype="float32").eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.2)
    return model


@pytest.fixture
def plain(tiny):
    """Settings of a run of one iteration, without evaluation and filter."""
    return {
        "iterations": 1, "evaluation": {"every": 0}, "filter": {"kind": "none"}, "model": str(tiny),
    }  # fmt: skip


@pytest.fixture
def own_registries(monkeypatch):
    """What a test registers is forgotten after it."""
    from ragen_agents.starpo import AGGREGATIONS, ESTIMATORS, FILTERS, POLICY_LOSSES

    for registry in (AGGREGATIONS, ESTIMATORS, FILTERS, POLICY_LOSSES):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
