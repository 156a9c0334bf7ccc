"""Training with a server: over HTTP, through faults, restarts and wrong servers. `VllmServer` plays it."""

import asyncio
import json
from contextlib import ExitStack

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("httpx2")

from accelerate import Accelerator  # noqa: E402
from endpoint_server import completion  # noqa: E402
from fake_vllm_server import VllmServer  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402

from ragen_agents.engines import EngineError, TokenRequest  # noqa: E402
from ragen_agents.engines.cpu.engine import TransformersEngine  # noqa: E402
from ragen_agents.engines.vllm import served  # noqa: E402
from ragen_agents.engines.vllm.served import WEIGHTS, ServedEngine, ServedModel  # noqa: E402
from ragen_agents.starpo.processes import RunProcesses  # noqa: E402
from ragen_agents.starpo.setup import server_share  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

ENDS, TOKENS = frozenset({2}), 12


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(served, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(served, "LONGEST_DELAY", 0.05)


def engine_of(server, folder, policy, patience=30.0, timeout=30.0):
    """The engine of a run of one process, on one server or on several."""
    several = server if isinstance(server, list) else [server]
    models = [ServedModel(s.root, policy.config.vocab_size, timeout, patience) for s in several]
    alone = RunProcesses(Accelerator(cpu=True))
    return ServedEngine(models, True, folder, ENDS, TOKENS, 64, "run-", alone)


def requests(count=8, temperature=1.0):
    return [TokenRequest(k, list(range(5, 12 + k)), 1000 + k, temperature) for k in range(count)]


def answers(engine, asked):
    engine.submit(asked)
    found = {}
    while done := engine.poll():
        found |= {completion.key: completion for completion in done}
    return found


def assert_as_in_this_process(found, policy, asked):
    expected = answers(TransformersEngine(policy, ENDS, 0, TOKENS), asked)
    assert found.keys() == expected.keys()
    for key, reply in found.items():
        assert reply.ids == expected[key].ids
        assert reply.finish == expected[key].finish
        assert reply.logprobs == pytest.approx(expected[key].logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_replies_are_those_of_the_model_that_was_sent(tiny, policy, tmp_path, temperature):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 3)
        found = answers(engine, requests(8, temperature))
        engine.close()
        assert server.loads == [tmp_path / WEIGHTS]
    assert_as_in_this_process(found, policy, requests(8, temperature))
    assert {reply.version for reply in found.values()} == {3}
    assert not list(tmp_path.iterdir())


def test_an_engine_works_where_an_event_loop_runs_already(tiny, policy, tmp_path):
    async def cell():
        with VllmServer(tiny) as server:
            engine = engine_of(server, tmp_path, policy)
            engine.sync(policy, 1)
            found = answers(engine, requests(4))
            engine.submit(requests(4))
            engine.close()  # replies are still on their way
        return found

    assert_as_in_this_process(asyncio.run(cell()), policy, requests(4))


def restarting(server, at):
    """Let a server lose its weights at its request of that number."""
    real, served = server.post_inference_v1_generate, []

    def generate(*arguments):
        served.append(1)
        if len(served) == at:
            server.restart()
        return real(*arguments)

    server.post_inference_v1_generate = generate


def test_several_servers_share_the_episodes(tiny, policy, tmp_path):
    """Each is given the weights once, and all turns of an episode go to the same one."""
    with VllmServer(tiny) as one, VllmServer(tiny) as two:
        engine = engine_of([one, two], tmp_path, policy)
        engine.sync(policy, 3)
        found = answers(engine, requests(8))
        engine.close()
        for server, places in ((one, {0, 2, 4, 6}), (two, {1, 3, 5, 7})):
            assert len(server.loads) == 1
            seeds = {b["sampling_params"].get("seed") for b in server.bodies if b and "token_ids" in b}
            assert seeds - {None} == {1000 + place for place in places}
    assert_as_in_this_process(found, policy, requests(8))


def test_one_of_several_servers_is_restarted(tiny, policy, tmp_path):
    with VllmServer(tiny) as one, VllmServer(tiny) as two:
        engine = engine_of([one, two], tmp_path, policy)
        engine.sync(policy, 5)
        restarting(two, 2)
        found = answers(engine, requests(12))
        engine.close()
        assert [len(server.loads) for server in (one, two)] == [1, 1]  # that of the new process
        assert two.label == "run-5"
    assert_as_in_this_process(found, policy, requests(12))


def test_each_of_many_servers_may_be_restarted(tiny, policy, tmp_path):
    with ExitStack() as stack:
        servers = [stack.enter_context(VllmServer(tiny)) for _ in range(4)]
        engine = engine_of(servers, tmp_path, policy)
        engine.sync(policy, 5)
        for server in servers:
            server.restart()
        found = answers(engine, requests(12))
        engine.close()
        assert [server.label for server in servers] == ["run-5"] * 4
    assert_as_in_this_process(found, policy, requests(12))


def test_weights_are_sent_in_the_arithmetic_of_the_server(tiny, policy, tmp_path):
    with VllmServer(tiny, settings={"dtype": "torch.bfloat16"}) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        engine.close()
        assert server.dtypes == {"torch.bfloat16"}


def test_servers_of_different_arithmetic_are_refused(tiny, policy, tmp_path):
    half = VllmServer(tiny, settings={"dtype": "torch.bfloat16"})
    with VllmServer(tiny) as one, half as two, pytest.raises(RagenError, match="different dtypes"):
        engine_of([one, two], tmp_path, policy)


def test_an_engine_that_sent_nothing_leaves_the_weights_of_another_run(tiny, policy, tmp_path):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        engine_of(server, tmp_path, policy).close()
        assert (tmp_path / WEIGHTS / "model.safetensors").exists()
        engine.close()
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("servers", [1, 2, 3, 5])
def test_every_server_has_one_leader_and_every_process_a_server(servers, processes):
    urls = [f"http://host{i}" for i in range(servers)]
    shares = [server_share(urls, rank, processes) for rank in range(processes)]
    assert all(asked for asked, _ in shares)
    assert sorted(url for asked, leads in shares for url in asked if leads) == urls


FAULTS = (
    "reset", "half_reset", "429", "500", "503", "truncated", "wrong_types", "nul", "broken_utf8",
    "no_choices", "error_200", "html",
)  # fmt: skip


def test_faults_change_nothing(tiny, policy, tmp_path):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        server.faults, server.kinds = 0.5, FAULTS
        found = answers(engine, requests(24))
        engine.close()
        assert set(server.hit) == set(FAULTS)
    assert_as_in_this_process(found, policy, requests(24))


def altered(**changes):
    """A reply in which something is not as it must be."""
    reply = {
        "finish_reason": "stop", "token_ids": [5, 2], "weight_versions": [{"version": "run-1"}],
        "logprobs": {"content": [{"token_id": t, "logprob": -1.0} for t in (5, 2)]},
    }  # fmt: skip
    return {"choices": [{**reply, **changes}]}


GARBAGE = {
    "no tokens": altered(token_ids=[], logprobs={"content": []}),
    "a token that does not exist": altered(
        token_ids=[10**6], logprobs={"content": [{"token_id": 10**6, "logprob": -1.0}]}
    ),
    "too many tokens": altered(
        token_ids=[5] * 99, logprobs={"content": [{"token_id": 5, "logprob": -1.0}] * 99}
    ),
    "other tokens": altered(token_ids=[6, 2]),
    "no log-probabilities": altered(logprobs=None),
    "an unlikely probability": altered(
        logprobs={"content": [{"token_id": t, "logprob": 3.0} for t in (5, 2)]}
    ),
    "no number": altered(logprobs={"content": [{"token_id": t, "logprob": float("nan")} for t in (5, 2)]}),
    "aborted": altered(finish_reason="abort"),
    "nobody's": altered(weight_versions=[]),
    "a chat": completion("<answer>Up</answer>"),
}


def test_garbage_is_no_reply(tiny, policy, tmp_path, monkeypatch):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy, patience=0.1)
        for version, (kind, reply) in enumerate(GARBAGE.items(), 1):
            engine.sync(policy, version)
            monkeypatch.setattr(server, "post_inference_v1_generate", lambda *_, it=reply: it)
            with pytest.raises(EngineError, match="the server does not answer"):
                pytest.fail(f"{kind} was taken for {answers(engine, requests(2))}")
            monkeypatch.undo()
        engine.close()


def test_the_reply_of_which_garbage_is_made_would_do(tiny, policy, tmp_path, monkeypatch):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        monkeypatch.setattr(server, "post_inference_v1_generate", lambda *_: altered())
        assert answers(engine, requests(1))[0].ids == [5, 2]
        engine.close()


@pytest.mark.parametrize(("kind", "timeout"), [("hang", 0.5), ("503", 60.0)])
def test_a_server_that_stays_silent_is_given_up(kind, timeout, tiny, policy, tmp_path, caplog):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy, patience=0.3, timeout=60.0)
        engine.sync(policy, 1)  # which may take long beside other tests
        engine._servers[0]._timeout = timeout
        server.faults, server.kinds = 1.0, (kind,)
        with pytest.raises(EngineError, match=f"does not answer: {server.root}/inference/v1"):
            answers(engine, requests(6))
        engine.close()
    told = [record.getMessage() for record in caplog.records if record.name == "ragen.engines"]
    assert len(told) == 1
    assert "trying again for 0.3 s" in told[0]


def test_a_server_that_was_restarted_gets_the_weights_again(tiny, policy, tmp_path):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 5)
        restarting(server, 4)
        found = answers(engine, requests(12))
        engine.close()
        assert server.label == "run-5"
    assert_as_in_this_process(found, policy, requests(12))


def test_a_server_that_always_dies_is_given_up(tiny, policy, tmp_path, monkeypatch):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 5)
        real = server.post_inference_v1_generate

        def generate(body, query):
            if "prompt_logprobs" not in body["sampling_params"]:
                server.label = "default"
            return real(body, query)

        monkeypatch.setattr(server, "post_inference_v1_generate", generate)
        with pytest.raises(EngineError, match=r"server http://\S+ lost version 5 of the weights 4 times"):
            answers(engine, requests(3))
        engine.close()


def test_weights_of_another_run_are_noticed(tiny, policy, tmp_path):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        server.label = "other-1"
        with pytest.raises(EngineError, match="written by weights 'other-1', but 'run-1' was sent"):
            answers(engine, requests(2))
        engine.close()


def test_weights_that_do_not_arrive_are_noticed(tiny, policy, tmp_path, monkeypatch):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        monkeypatch.setattr(server, "post_collective_rpc", lambda *_: {"results": [None]})
        with pytest.raises(EngineError, match="the engine does not have these weights"):
            engine.sync(policy, 1)
        engine.close()


@pytest.mark.parametrize("replica", ["dp0", "dp1"])
def test_a_small_update_that_one_replica_loses_is_noticed(replica, tiny, policy, tmp_path, monkeypatch):
    """Of a server with two; log-probabilities do not show it."""
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        engine.sync(policy, 1)
        real = server.post_weight_checker
        stale = real({"action": "checksum"}, {})["checksums"]

        def tell(*arguments):
            fresh = real(*arguments)["checksums"]
            told = {"dp0": fresh, "dp1": fresh, replica: stale}
            named = {
                name.replace("dp0", one): digest
                for one, digests in told.items()
                for name, digest in digests.items()
            }
            return {"checksums": named}

        monkeypatch.setattr(server, "post_weight_checker", tell)
        with torch.no_grad():
            for weight in policy.parameters():
                weight.mul_(1 + 1e-6)
        with pytest.raises(EngineError, match=rf"the server holds others in {replica}:"):
            engine.sync(policy, 2)
        engine.close()


def test_a_prefix_cache_that_is_busy_is_cleared_later(tiny, policy, tmp_path, monkeypatch):
    found = [{"success": True}, {"success": False}, {"success": False}]
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy)
        monkeypatch.setattr(server, "post_reset_prefix_cache", lambda *_: found.pop())
        engine.sync(policy, 1)
        engine.close()
    assert not found


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"version": "0.31.0"}, "vLLM 0.31.0 serves at .* needs vllm>=0.32,<0.33"),
        ({"settings": {"logprobs_mode": "raw_logprobs"}}, "--logprobs-mode processed_logprobs"),
        ({"settings": {"dtype": "torch.float16"}}, "--dtype float32 or bfloat16"),
        (
            {"settings": {"max_model_len": 63}},
            "reads 63 tokens, but conversations may take 64; .*--max-model-len 64",
        ),
    ],
)
def test_a_server_with_other_settings_is_refused(wrong, words, tiny, policy, tmp_path):
    with VllmServer(tiny, **wrong) as server, pytest.raises(RagenError, match=words):
        engine_of(server, tmp_path, policy)


def test_a_server_without_the_routes_is_refused_at_once(tiny, policy, tmp_path, monkeypatch):
    monkeypatch.setattr(VllmServer, "get_server_info", None)
    with VllmServer(tiny) as server, pytest.raises(RagenError) as told:
        engine_of(server, tmp_path, policy)
    assert "refuses /server_info?config_format=json: HTTP 404" in str(told.value)
    assert "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out" in str(told.value)


def test_a_request_that_is_refused_is_not_sent_again(tiny, policy, tmp_path, monkeypatch):
    with VllmServer(tiny) as server:
        engine = engine_of(server, tmp_path, policy, patience=0.3)
        asked = []
        monkeypatch.setattr(server, "post_pause", lambda *_: (asked.append(1), (404, {}, []))[1])
        with pytest.raises(EngineError, match=r"refuses /pause\?mode=abort: HTTP 404"):
            engine.sync(policy, 1)
        engine.close()
    assert len(asked) == 1


SMALL = [
    "engine=vllm-server", "rollout.prompts_per_iteration=2", "rollout.group_size=4", "rollout.max_tokens=24",
    "update.mini_batch_size=4", "evaluation.every=2", "evaluation.episodes=4", "save_every=9",
    "filter.kind=none", "server.outage_timeout=0.3",
]  # fmt: skip


def train(out, tiny, *settings):
    words = [*SMALL, f"model={tiny}", "update.learning_rate=1e-3", *settings]
    return main(["train", "bandit", "--out", str(out), *words])


def metrics(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    drop = ("seconds/", "mismatch")
    return [{k: v for k, v in line.items() if not k.startswith(drop)} for line in found]


def test_a_run_goes_on_with_another_server_as_if_the_first_had_not_died(tiny, tmp_path, capsys):
    """The server dies for good in the second iteration; the same command goes on with one elsewhere."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with VllmServer(tiny) as server:
        assert train(whole, tiny, "iterations=3", f"server.url={server.root}") == 0
    with VllmServer(tiny) as server:
        server.before_reply(5, 1, server.fail)
        assert train(cut, tiny, "iterations=3", f"server.url={server.root}") == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: the server does not answer")
    assert [path.name for path in (cut / "checkpoints").iterdir()] == ["000001"]
    with VllmServer(tiny) as server:
        assert train(cut, tiny, "iterations=3", f"server.url={server.root}") == 0
    for mine, theirs in zip(metrics(cut), metrics(whole), strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert value == pytest.approx(theirs[name], rel=1e-3, abs=1e-6), name


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9", "the server does not answer: http://127.0.0.1:9/version"),
        ("http://me:secret@host", "base URL must have no user"),
        ("ftp://host", "base URL must be an http or https URL"),
        ("[]", "server.url"),
    ],
)
def test_a_wrong_url_is_one_line_and_leaves_nothing(url, words, tiny, tmp_path, capsys):
    assert train(tmp_path / "run", tiny, f"server.url={url}", "server.outage_timeout=600") == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in said
    assert "secret" not in said
    assert not (tmp_path / "run").exists()
