"""The information diagnostics: against a slow version, and on writers whose information is known."""

import importlib.util
import math
import re
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from training_runs import trainer  # noqa: E402

from ragen_agents.rollout.collect import GroupSpec  # noqa: E402
from ragen_agents.starpo.config import Monitor  # noqa: E402
from ragen_agents.starpo.run.diagnostics import (  # noqa: E402
    _thought,
    information,
    measure_information,
)
from ragen_agents.starpo.run.monitor import EchoTrapMonitor  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("measured", DOCS / "measure_information.py")
measured = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measured)

LOGS = st.integers(-40, -1).map(lambda tenths: tenths / 10)


def slow(matrix, own, lengths):
    prompts = len(matrix[0])

    def gain(row, place):
        return row[place] - math.log(sum(math.exp(v) for v in row) / prompts)

    rows = range(len(matrix))
    found = {
        "mutual_information": sum(gain(matrix[i], own[i]) for i in rows) / len(matrix),
        "mutual_information_per_token": sum(gain([v / lengths[i] for v in matrix[i]], own[i]) for i in rows)
        / len(matrix),
        "conditional_entropy": -sum(matrix[i][own[i]] for i in rows) / len(matrix),
    }
    found["entropy"] = found["conditional_entropy"] + found["mutual_information"]
    for k in (1, 2):
        if k < prompts:
            above = [sum(v >= matrix[i][own[i]] for v in matrix[i]) for i in rows]
            found[f"retrieval@{k}"] = sum(n <= k for n in above) / len(matrix)
            found[f"chance@{k}"] = k / prompts
    return found


@given(st.data(), st.integers(2, 5), st.integers(2, 4))
def test_the_numbers_are_those_of_a_slow_version(data, texts, prompts):
    matrix = [[data.draw(LOGS) for _ in range(prompts)] for _ in range(texts)]
    own = [data.draw(st.integers(0, prompts - 1)) for _ in range(texts)]
    lengths = [data.draw(st.integers(1, 9)) for _ in range(texts)]
    found = information(torch.tensor(matrix, dtype=torch.float64), torch.tensor(own), torch.tensor(lengths))
    for name, value in slow(matrix, own, lengths).items():
        assert found[name] == pytest.approx(value, abs=1e-9), name


def writer(epsilon, codes, prompts, texts=4000, seed=0):
    """A writer that writes its prompt's code with probability 1 - epsilon, else any of the codes."""
    drawn = torch.Generator().manual_seed(seed)
    own = torch.randint(prompts, (texts,), generator=drawn)
    lost = torch.rand(texts, generator=drawn) < epsilon
    written = torch.where(lost, torch.randint(codes, (texts,), generator=drawn), own)
    low = math.log(epsilon / codes) if epsilon else -1e9
    high = math.log(1 - epsilon + epsilon / codes)
    matrix = torch.full((texts, prompts), low, dtype=torch.float64)
    inside = written < prompts
    matrix[inside, written[inside]] = high
    return matrix, own


def known_information(epsilon, codes, prompts):
    """Of prompts that are equally likely, each with a code of its own; in nats."""
    right = 1 - epsilon + epsilon / codes
    other = epsilon / codes

    def term(joint, marginal):
        return joint * math.log(joint / marginal) if joint else 0.0

    of_code = (right + (prompts - 1) * other) / prompts
    return term(right, of_code) + (prompts - 1) * term(
        other, of_code
    )  # codes of no prompt are as likely under all of them


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_the_sequence_form_measures_the_information_that_is_there(epsilon):
    matrix, own = writer(epsilon, codes=64, prompts=32)
    found = information(matrix, own, torch.full((len(own),), 5))
    known = known_information(epsilon, 64, 32)
    assert found["mutual_information"] == pytest.approx(known, abs=0.08)
    assert abs(found["mutual_information"] - known) <= 4 * found["mutual_information_se"] + 1e-9


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 0.75, 0.9])
def test_prompts_from_a_larger_population_show_a_lower_bound(epsilon):
    drawn = torch.Generator().manual_seed(0)
    lengths = torch.full((measured.DRAWN,), measured.TOKENS)
    found = [
        information(*measured.sample_of_many(epsilon, drawn), lengths)["mutual_information"]
        for _ in range(200)
    ]
    known = known_information(epsilon, measured.POPULATION, measured.POPULATION)
    assert measured.known_of_many(epsilon) == pytest.approx(known)
    assert fmean(found) < 0.85 * known
    table = (DOCS / "training-results.md").read_text(encoding="utf-8")
    shown = re.search(rf"\| {epsilon:g} \| {known:.2f} \| ([0-9.]+) ±", table)
    assert fmean(found) == pytest.approx(float(shown[1]), abs=0.06)


def test_the_sample_of_prompts_bounds_what_can_be_seen():
    """1,024 prompts that are told apart perfectly are 6.9 nats; 64 of them show 4.2."""
    matrix, own = writer(0.0, codes=1024, prompts=64)
    found = information(matrix, own, torch.ones(len(own), dtype=torch.int64))
    assert found["mutual_information"] == pytest.approx(math.log(64), abs=1e-6)
    assert math.log(1024) - found["mutual_information"] > 2.7


def test_the_token_form_falls_with_the_length_of_a_text_that_tells_as_much():
    matrix, own = writer(0.1, codes=64, prompts=32)
    short, long = (information(matrix, own, torch.full((len(own),), tokens)) for tokens in (2, 50))
    assert short["mutual_information"] == long["mutual_information"]
    assert long["mutual_information_per_token"] < 0.2 * short["mutual_information_per_token"]


def test_retrieval_of_a_writer_that_tells_nothing_is_not_above_chance():
    matrix, own = writer(1.0, codes=64, prompts=32)
    found = information(matrix, own, torch.ones(len(own), dtype=torch.int64))
    assert found["mutual_information"] == pytest.approx(0, abs=1e-9)
    assert all(found[f"retrieval@{k}"] <= found[f"chance@{k}"] for k in (1, 2, 4, 8))


def test_a_training_run_measures_both_samples_and_both_texts(tiny, tmp_path):
    one = trainer(tmp_path / "run", {"model": str(tiny)})
    one.engine.sync(one.learner.whole_policy(), 0)
    played = one.collector.collect([GroupSpec(g, 2, {"seed": g}) for g in range(4)], 0)
    found = measure_information(one.learner, played, one.codec, 8, 0, 2048)
    assert {name.split("/")[1] for name in found} >= {"first"}
    own = [t.logprobs for t in played if t.member == 0]
    expected = -sum(map(sum, _first_turns(own, played))) / len(own)
    measured = found["information/first/reply/conditional_entropy"]
    assert measured == pytest.approx(expected, rel=1e-3)
    one.close()


def test_replies_that_would_not_fit_behind_the_longest_prompt_are_left_out(tiny, tmp_path):
    one = trainer(tmp_path / "run", {"model": str(tiny)})
    one.engine.sync(one.learner.whole_policy(), 0)
    played = one.collector.collect([GroupSpec(g, 1, {"seed": g}) for g in range(4)], 0)
    rows = [t.rows[0] for t in played]
    longest = max(row.turn_ids.index(0) for row in rows)
    lengths = sorted(longest + row.turn_ids.count(0) for row in rows)

    def first(context):
        found = measure_information(one.learner, played, one.codec, 8, 0, context)
        return {key: value for key, value in found.items() if "/first/" in key}

    assert first(lengths[-1]) == first(1 << 30)
    assert first(lengths[-1])
    assert not first(lengths[0] - 1)
    one.close()


def _first_turns(logprobs, played):
    chosen = [t for t in played if t.member == 0]
    return [
        [v for v, turn in zip(row, t.turn_ids, strict=True) if turn == 0]
        for row, t in zip(logprobs, chosen, strict=True)
    ]


def test_a_thought_lies_strictly_between_its_tags(tiny, tmp_path):
    codec = trainer(tmp_path / "run", {"model": str(tiny)}).codec

    def inside(text):
        ids = codec.tokenizer.encode(text, add_special_tokens=False)
        span = _thought(ids, codec)
        return None if span is None else codec.text(ids[slice(*span)]).strip()

    assert inside("<think>Go up.</think><answer>Up</answer>") == "Go up."
    assert inside("Go up.</think><answer>Up</answer>") == "Go up."
    assert inside("<answer>Up</answer>") is None
    assert inside("<think></think><answer>Up</answer>") is None


def watch(retrieval, entropy):
    monitor = EchoTrapMonitor(Monitor(window=2))
    seen = []
    for i, (traced, spread) in enumerate(zip(retrieval, entropy, strict=True)):
        metrics = {
            "success": 0.4, "reward_std": 1.0, "entropy": spread, "grad_norm": 0.3,
            "information/first/reply/retrieval@1": traced,
            "information/first/reply/chance@1": 0.1,
        }  # fmt: skip
        seen += [(sign, i) for sign in monitor.observe(metrics)]
    return seen


def test_template_collapse_is_seen_where_entropy_stays():
    falling = [0.9] * 6 + [0.12] * 4
    assert watch(falling, [0.5] * 10) == [("template", 6)]
    assert watch([0.9] * 10, [0.5] * 10) == []
    assert ("template", 6) not in watch(falling, [0.5] * 5 + [0.01] * 5)
