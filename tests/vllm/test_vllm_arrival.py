"""In bfloat16, as on a GPU: one update of 1e-6 that does not arrive is found, and those that do are not."""

import pytest
import torch
from vllm_rollouts import TOKENS

from ragen_agents.engines import EngineError
from ragen_agents.engines.vllm.engine import VllmEngine
from ragen_agents.engines.vllm.local import LocalSettings, load_local
from ragen_agents.engines.weights import TOLERANCE, check_scores, named_weights, probe, probed
from ragen_agents.starter import STARTER

LEARNING_RATE = 1e-6


@pytest.fixture(scope="module")
def rounded():
    """The starter model in vLLM, in bfloat16."""
    model = load_local(STARTER, LocalSettings(512, 8, "bfloat16", 0.1))
    yield model
    model.close()


@pytest.fixture
def engine(rounded, starter, codec):
    ours = VllmEngine(rounded, codec.stop_token_ids, TOKENS)
    ours.sync(starter, 0)
    return ours


def update(model, seed):
    """Change every weight by the learning rate, up or down, as a step of Adam does."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight).sign(), alpha=LEARNING_RATE)


def reloading(monkeypatch, local, kept):
    """Let vLLM take over only some of the weights that it is sent."""
    real = local._engine.collective_rpc

    def told(method, **arguments):
        if method != "reload_weights":
            return real(method, **arguments)
        every = list(arguments["kwargs"]["weights_iterator"])
        some = [(name, weight) for name, weight in every if kept(name)]
        return real(method, kwargs={"weights_iterator": some}) if some else [None]

    monkeypatch.setattr(local._engine, "collective_rpc", told)


def test_many_updates_arrive(engine, starter):
    changed = 0
    for version in range(1, 31):
        before = {n: w.clone() for n, w in named_weights(starter, torch.bfloat16)}
        update(starter, version)
        engine.sync(starter, version)
        changed += any(not w.equal(before[n]) for n, w in named_weights(starter, torch.bfloat16))
    assert changed == 30


def test_one_lost_update_is_found(engine, rounded, starter, monkeypatch):
    update(starter, 1)
    reloading(monkeypatch, rounded, lambda name: False)
    with pytest.raises(EngineError, match=r"vLLM holds others in .* does not have these weights"):
        engine.sync(starter, 1)
    gap = check_scores(probed(starter), rounded.score(probe(starter)), "bfloat16", 1)
    assert gap < TOLERANCE["bfloat16"] / 2  # which scores alone would not have shown


@pytest.mark.parametrize("lost", ["layers.2.", "layers.1.mlp.up_proj", "norm.weight", "lm_head"])
def test_a_part_of_an_update_that_is_lost_is_found(engine, rounded, starter, monkeypatch, lost):
    if lost == "lm_head" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("without instructions for bfloat16 vLLM's head is the embedding, which is sent")
    with torch.no_grad():
        for weight in starter.parameters():
            weight.mul_(1.01)
    reloading(monkeypatch, rounded, lambda name: lost not in name)
    with pytest.raises(EngineError, match="vLLM holds others in"):
        engine.sync(starter, 1)
