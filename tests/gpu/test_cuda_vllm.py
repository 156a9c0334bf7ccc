"""vLLM and the trainer on one GPU: sleep, arrival of weights, log-probabilities."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("vllm", reason="vLLM is not installed")

from training_runs import trainer  # noqa: E402
from vllm_rollouts import answers, changed, requests  # noqa: E402

from ragen_agents.engines.weights import logprobs_of  # noqa: E402

CONFIG = {
    "game": "ragen/SokobanText-v0", "engine": "vllm", "filter": {"kind": "none"},
    "evaluation": {"every": 0}, "iterations": 2, "vllm": {"cache_gib": 0.5},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(request, tmp_path_factory):
    """A run whose engine is vLLM: the one of ``python -m gpu_check``, or one of the starter."""
    shared = getattr(request.config, "shared_run", None)
    one = shared or trainer(tmp_path_factory.mktemp("vllm") / "run", CONFIG)
    one.engine.sync(one.learner.whole_policy(), 0)
    yield one
    if shared is None:
        one.close()


def replies(run, temperature=1.0):
    return answers(run.engine, requests(run.codec, range(16), temperature))


@torch.no_grad()
def mean_gap(run, found, asked):
    """Mean difference of the engine's log-probabilities and the trainer's, in nats a token."""
    policy = run.learner.whole_policy()
    gaps = []
    for request in asked:
        reply = found[request.key]
        ids = torch.tensor([request.ids + reply.ids], device=policy.device)
        own = logprobs_of(policy, ids)[-len(reply.ids) :].cpu()
        gaps += (own - torch.tensor(reply.logprobs)).abs().tolist()
    return sum(gaps) / len(gaps)


def test_replies_are_as_likely_to_the_trainer(run):
    """bfloat16 on a GPU, float32 on a CPU; the trainer scores in float32."""
    asked = requests(run.codec, range(16))
    assert mean_gap(run, answers(run.engine, asked), asked) < 0.05


def test_sleep_leaves_memory_to_the_trainer_and_the_engine_wakes_up(run, cuda):
    run.engine.sync(run.learner.whole_policy(), 0)  # prompts are read anew before and after
    before = replies(run, 0.0)
    awake = torch.cuda.mem_get_info()[0]
    run.engine.release()
    asleep = torch.cuda.mem_get_info()[0]
    assert asleep - awake > 2**28  # most of its cache
    run.engine.sync(run.learner.whole_policy(), 0)
    after = replies(run, 0.0)
    assert [r.ids for r in after.values()] == [r.ids for r in before.values()]
    run.engine.release()
    assert torch.cuda.mem_get_info()[0] > asleep - 2**27  # nothing stays behind


def test_new_weights_arrive(run):
    """Also after the engine slept; other weights give other log-probabilities, as the trainer does."""
    before = replies(run, 0.0)
    run.engine.release()
    changed(run.learner.models.policy)
    run.engine.sync(run.learner.whole_policy(), 1)
    asked = requests(run.codec, range(16), 0.0)
    after = answers(run.engine, asked)
    changes = [
        abs(ours - theirs)
        for key, reply in before.items()
        for ours, theirs in zip(reply.logprobs, after[key].logprobs, strict=False)
    ]
    assert max(changes) > 1e-3
    assert {reply.version for reply in after.values()} == {1}
    assert mean_gap(run, after, asked) < 0.05
