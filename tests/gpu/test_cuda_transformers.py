"""The transformers engine on a GPU."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from vllm_rollouts import TOKENS, answers, beside, collect, requests  # noqa: E402

from ragen_agents.engines.cpu.engine import TransformersEngine  # noqa: E402


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake"])
def test_greedy_trajectories_are_those_of_a_cpu(game, device, starter, codec):
    here = collect(beside(copy.deepcopy(starter).to(device), codec), codec, game, 0.0)
    there = collect(beside(starter, codec), codec, game, 0.0)
    for ours, theirs in zip(here, there, strict=True):
        assert ours.ids == theirs.ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-3)


def test_a_row_does_not_depend_on_the_rows_beside_it(device, starter, codec):
    engine = beside(starter.to(device), codec)
    together = answers(engine, requests(codec, range(8)))
    for seed in (0, 5):
        assert answers(engine, requests(codec, [seed]))[seed].ids == together[seed].ids


def waits_and_steps(engine, asked):
    """Return how often replies waited for the GPU, and the tokens of the longest."""
    answers(engine, asked)  # loads and compiles
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            found = answers(engine, asked)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    steps = max(len(reply.ids) for reply in found.values())
    return sum("synchron" in str(w.message) for w in waits), steps


def test_tokens_are_sampled_without_waiting_for_each(cuda, device, starter, codec):
    """A wait for the GPU costs more than a step of a small model; one for several tokens is enough."""
    starter.to(device)
    waits, steps = zip(
        *(
            waits_and_steps(
                TransformersEngine(starter, codec.stop_token_ids, codec.pad, most),
                requests(codec, range(8)),
            )
            for most in (8, TOKENS)
        ),
        strict=True,
    )
    assert steps[1] > TOKENS // 2
    assert waits[1] - waits[0] < steps[1] - steps[0]
