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
