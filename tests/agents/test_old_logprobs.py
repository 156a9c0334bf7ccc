"""Where the log-probabilities before the update come from: the engine, or a pass of the trainer."""

import copy
import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from installed import require  # noqa: E402

require("trl")

from ragen_agents.engines.cpu.engine import TransformersEngine  # noqa: E402
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged  # noqa: E402
from ragen_agents.starpo.callbacks import ReportMetrics  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_agents.starpo.trainer import Trainer  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402

SMALL = {
    "game": "ragen/SokobanText-v0", "iterations": 2, "filter": {"kind": "none"},
    "rollout": {"prompts_per_iteration": 2, "group_size": 4, "temperature": 0.8, "max_tokens": 40},
    "update": {"mini_batch_size": 4}, "evaluation": {"every": 0}, "monitor": {"information_every": 0},
    "env_kwargs": {"max_turns": 2},
}  # fmt: skip


def config(preset="starpo-grpo", **layer):
    return TrainConfig(**merged(SCALES["laptop"], PRESETS[preset], SMALL, layer))


def trained(settings, out):
    rows = []
    one = Trainer(settings, out, callbacks=[ReportMetrics(lambda _, row: rows.append(row))])
    one.run()
    return one, rows


@pytest.mark.parametrize(("preset", "history"), [("starpo-grpo", "full"), ("starpo-ppo", "none")])
def test_both_train_alike(preset, history, tiny, tmp_path, monkeypatch):
    shown = {"env_kwargs": {"history": history}, "model": str(tiny)}
    one, rows = trained(config(preset, **shown), tmp_path / "rollout")
    monkeypatch.setattr("ragen_agents.starpo.trainer.SCORED_EVERY", 1)
    other, others = trained(config(preset, **shown), tmp_path / "trainer")
    assert ["mismatch_max" in row for row in rows] == [True, False]
    assert all("mismatch_max" in row for row in others)
    for ours, theirs in zip(rows, others, strict=True):
        for name in ("entropy", "success", "policy_loss", "grad_norm", "kl_step", "reply_tokens"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-5), name
    weights = [dict(t.learner.models.policy.named_parameters()) for t in (one, other)]
    for name, weight in weights[0].items():
        assert torch.allclose(weight, weights[1][name], rtol=0, atol=2e-5), name


@pytest.mark.parametrize("model", ["starter", "smollm2-shape"])
def test_the_engine_says_what_the_trainer_computes(model, tmp_path, request):
    layer = {} if model == "starter" else {"model": str(request.getfixturevalue("gpt2"))}
    one = Trainer(config(**layer), tmp_path / "run")
    batch = TrainBatch.of(one.collector.collect(training_groups(one.config, 0), 0), one.codec.pad)
    scores = one.learner.score(batch)
    mask = batch.mask
    assert float((scores.logprobs - batch.rollout_logprobs)[mask].abs().max()) < 1e-4
    assert float((scores.entropies - batch.rollout_entropies)[mask].abs().max()) < 1e-4
    assert float(scores.entropies[mask].max()) > 0.1


@pytest.fixture
def gpt2(tmp_path):
    """A model whose passes are those of transformers, with the starter's tokenizer."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    from ragen_agents.starter import STARTER

    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    shape = GPT2Config(
        vocab_size=len(tokenizer), n_positions=2048, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path / "gpt2"
    GPT2LMHeadModel(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("layer", "preset"),
    [
        ({"update": {"precision": "bfloat16"}}, "starpo-grpo"),
        ({"engine": "vllm"}, "starpo-grpo"),
        ({"critic": {"kind": "shared"}}, "starpo-ppo"),
    ],
)
def test_rollouts_are_scored_again_where_passes_differ_or_are_needed(layer, preset):
    assert config().trusts_rollout_scores
    assert config("starpo-ppo").trusts_rollout_scores
    assert not config(preset, **layer).trusts_rollout_scores


def test_an_engine_that_does_not_tell_entropies_is_not_trusted(tmp_path):
    one = Trainer(config(), tmp_path / "run")
    played = one.collector.collect(training_groups(one.config, 0), 0)
    played[0].entropies = [math.nan if turn >= 0 else 0.0 for turn in played[0].turn_ids]
    prepared = one.learner.prepare(TrainBatch.of(played, one.codec.pad), trust_rollout=True)
    assert "mismatch_max" in prepared.metrics
    assert math.isfinite(prepared.metrics["entropy"])


class StaleEngine:
    """Samples from the weights before the last ones, says that it has not, and says entropies."""

    def __init__(self):
        self.models, self.version = [], 0

    def sync(self, model, version):
        self.models.append(copy.deepcopy(model))
        self.inner = TransformersEngine(self.models[-2:][0], frozenset([2]), 0, 40, None)
        self.version = version

    def submit(self, requests):
        self.inner.submit(requests)

    def poll(self):
        return [replace(found, version=self.version) for found in self.inner.poll()]

    def release(self):
        pass

    def close(self):
        pass


def test_an_engine_of_the_callers_is_not_trusted(tmp_path):
    rows = []
    report = ReportMetrics(lambda _, row: rows.append(row))
    fast = config(update={"learning_rate": 3e-3, "mini_batch_size": 8})
    Trainer(fast, tmp_path / "run", callbacks=[report], engine=StaleEngine()).run()
    assert all("mismatch_max" in row for row in rows)
    assert rows[-1]["mismatch_max"] > 0.01


def test_one_process_with_fsdp_trains_as_without(tiny, tmp_path):
    ends = []
    for fsdp in (False, True):
        one, rows = trained(config(fsdp=fsdp, model=str(tiny)), tmp_path / str(fsdp))
        assert "mismatch_max" not in rows[1]
        ends.append(one.learner.models.policy.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.mark.parametrize("name", ["critic_warmup", "warmup_iterations"])
def test_a_warm_up_as_long_as_the_run_is_said(name, tmp_path, caplog):
    Trainer(config("starpo-ppo", update={name: 2}), tmp_path / "run")
    assert f"update.{name} is 2, but iterations is 2" in caplog.text
