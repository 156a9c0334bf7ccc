"""Training in two processes with servers: what one process learns, also through a server's death."""

import shutil

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx2")

from fake_vllm_server import VllmServer  # noqa: E402
from training_runs import (  # noqa: E402
    alone,
    assert_same_run,
    command,
    in_two_processes,
)

from ragen_agents.starpo.run.checkpoint import latest  # noqa: E402

FAST = ("update.learning_rate=1e-3", "update.critic_learning_rate=1e-3", "save_every=1")
"""Rates at which a step that is left out shows."""


def arguments(tiny, out, urls, *more, iterations=2):
    served = ["engine=vllm-server", f"server.url={urls}", "server.outage_timeout=0.5"]
    return command(tiny, out, *FAST, *served, *more, iterations=iterations)


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """The run of one process."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with VllmServer(tiny) as server:
        alone(arguments(tiny, out, server.root))
    return out


def asked_for_replies(server):
    return [b for b in server.bodies if b and b.get("sampling_params", {}).get("seed") is not None]


def test_split_weights_go_to_two_servers(tiny, whole, tmp_path):
    with VllmServer(tiny) as one, VllmServer(tiny) as two:
        urls = f"[{one.root}, {two.root}]"
        in_two_processes(arguments(tiny, tmp_path / "run", urls, "fsdp=true"))
        assert [len(server.loads) for server in (one, two)] == [3, 3]
        assert one.label == two.label
        assert asked_for_replies(one)
        assert asked_for_replies(two)
    assert_same_run(whole, tmp_path / "run", 2)


def test_two_processes_on_a_server_that_is_restarted(tiny, whole, tmp_path):
    """Of both, which lack its weights, one gives it them again, once."""
    with VllmServer(tiny) as server:
        server.before_reply(4, 1, server.restart)
        in_two_processes(arguments(tiny, tmp_path / "run", server.root))
        assert len(server.loads) == 2  # the lost version and the last one
        assert server.label.endswith("-2")
    assert_same_run(whole, tmp_path / "run", 2)
    assert not list((tmp_path / "run").glob("weights-for-server*"))


def test_a_failure_of_one_process_ends_both_with_the_state_saved(tiny, whole, tmp_path):
    """Only one of the servers dies, so only one process sees it; then another takes its place."""
    out = tmp_path / "run"
    with VllmServer(tiny) as one, VllmServer(tiny) as two:
        two.before_reply(4, 1, two.fail)
        urls = f"[{one.root}, {two.root}]"
        said = in_two_processes(arguments(tiny, out, urls), succeeds=False)
        assert said.count(f"error: the server does not answer: {two.root}") == 2
        assert latest(out / "checkpoints").name == "000001"
        with VllmServer(tiny) as other:
            in_two_processes(arguments(tiny, out, f"[{one.root}, {other.root}]"))
    assert_same_run(whole, out, 2)


def test_a_server_that_one_process_refuses_is_an_error_of_both(tiny, tmp_path):
    wrong = VllmServer(tiny, settings={"logprobs_mode": "raw_logprobs"})
    with VllmServer(tiny) as one, wrong as two:
        urls = f"[{one.root}, {two.root}]"
        said = in_two_processes(arguments(tiny, tmp_path / "run", urls), succeeds=False)
    assert said.count(f"error: the server at {two.root} has logprobs-mode raw_logprobs") == 2
    assert not (tmp_path / "run").exists()


def test_vllm_in_two_processes_is_refused_before_the_model_is_read(tiny, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken)
    (broken / "model.safetensors").write_bytes(b"")
    said = in_two_processes(command(broken, tmp_path / "run", "engine=vllm"), succeeds=False)
    assert said.count("error: engine is vllm, which runs with one process of the trainer, not 2") == 2
