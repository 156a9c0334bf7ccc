"""A server of several replicas behind one URL, as docs/engines.md starts it for several GPUs."""

import pytest
from accelerate import Accelerator
from vllm_rollouts import TOKENS, assert_same, beside, changed, collect
from vllm_serving import Serving

from ragen_agents.engines import EngineError
from ragen_agents.engines.vllm.served import ServedEngine, ServedModel
from ragen_agents.starpo.processes import RunProcesses


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    log = tmp_path_factory.mktemp("replicas") / "log"
    server = Serving(log, "--data-parallel-size", "2")
    yield server
    server.kill()


def test_new_weights_arrive_at_every_replica(replicas, starter, codec, tmp_path, monkeypatch):
    model = ServedModel(replicas.url, starter.config.vocab_size, 600, 600)
    checked = []
    check = model._arrival.check

    def noted(sent, found, label):
        checked.append({key.partition(":")[0] for key in found})
        check(sent, found, label)

    monkeypatch.setattr(model._arrival, "check", noted)
    alone = RunProcesses(Accelerator(cpu=True))
    engine = ServedEngine([model], True, tmp_path, codec.stop_token_ids, TOKENS, 2048, "r-", alone)
    try:
        engine.sync(starter, 0)
        engine.sync(changed(starter), 1)
        found = collect(engine, codec, "Sokoban", 0.0)
        assert_same(found, collect(beside(starter, codec), codec, "Sokoban", 0.0))
        assert checked == [{"dp0", "dp1"}] * 2
        monkeypatch.setattr("ragen_agents.engines.vllm.api.reloading", lambda *_: [])
        with pytest.raises(EngineError, match="does not have these weights"):
            engine.sync(changed(starter, 2), 2)
    finally:
        engine.close()
