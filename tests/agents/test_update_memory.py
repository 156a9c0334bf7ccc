"""What an update keeps in memory, and that keeping less changes no result."""

import copy
import json
import weakref
from collections import Counter
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")

from speed.memory import growth  # noqa: E402
from training_runs import assert_equal_weights, lines, trainer  # noqa: E402

from ragen_agents.rollout.collect import GroupSpec  # noqa: E402
from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.run.checkpoint import _save_model  # noqa: E402
from ragen_agents.starpo.setup import frozen_reference  # noqa: E402
from ragen_agents.starpo.update import output_head  # noqa: E402
from ragen_agents.starpo.update.adapters import with_adapters  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402
from ragen_agents.starpo.update.loss import (  # noqa: E402
    batch_totals,
    critic_loss,
    policy_loss,
)
from ragen_agents.starpo.update.models import (  # noqa: E402
    ActorCritic,
    load_policy,
    score_trajectories,
)
from ragen_agents.starpo.update.output_head import chunked_logprobs  # noqa: E402
from ragen_agents.starpo.update.passes import hidden_states, recompute_layers, trunk_of  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

CPU = torch.device("cpu")
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 50,
}  # fmt: skip
FAMILIES = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 16},
    "Gemma": {"head_dim": 16},
    "Gemma2": {"head_dim": 16, "sliding_window": 8},
}


class Kept:
    """Counts the bytes of tensors that graphs hold for backward passes, now and at most."""

    def __init__(self):
        self.now = self.most = 0
        self._held = {}

    def __enter__(self):
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda held: held[0])
        self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        self._hooks.__exit__(*error)

    def _pack(self, tensor):
        class Held(list):
            pass

        held = Held([tensor])
        if not isinstance(tensor, torch.nn.Parameter):
            self._add(tensor.untyped_storage(), held)
        return held

    def _add(self, storage, held):
        at = storage.data_ptr()
        count = self._held.get(at, 0)
        self._held[at] = count + 1
        if not count:
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
        weakref.finalize(held, self._drop, at, storage.nbytes())

    def _drop(self, at, size):
        self._held[at] -= 1
        if not self._held[at]:
            self.now -= size


def random_model(family):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, **FAMILIES[family])
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def group_of_rows():
    """Two groups of three rows, whose members share their prompts of 20 and 17 tokens."""
    ids = torch.randint(0, 50, (6, 44), generator=torch.Generator().manual_seed(1))
    ids[1:3, :20], ids[4:, :20] = ids[0, :20], ids[3, :20]
    real = torch.ones_like(ids, dtype=torch.bool)
    real[3:, :3] = real[2, 40:] = False
    mask = real.clone()
    mask[:, :20] = False
    return ids, real, mask, 20


def gradients_of(models):
    scores = models(*group_of_rows())
    (scores.logprobs.sum() + scores.entropies.sum() + scores.values.sum()).backward()
    found = {n: p.grad.clone() for n, p in models.named_parameters() if p.grad is not None}
    models.zero_grad()
    return found


@pytest.fixture
def passes_of_rows(monkeypatch):
    """Have all models pass rows through their own layers, as they do on a GPU."""
    monkeypatch.setattr("ragen_agents.starpo.update.passes.reads_trees", lambda trunk: False)


@pytest.mark.usefixtures("passes_of_rows")
@pytest.mark.parametrize("family", FAMILIES)
def test_layers_that_are_computed_again_give_the_same_gradients(family):
    models = ActorCritic(random_model(family), "separate", 1.0)
    torch.nn.init.normal_(models.value_head.weight)
    expected = gradients_of(models)
    recompute_layers(models)
    again = gradients_of(models)
    assert again.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(gradient, again[name], rtol=0, atol=1e-6), name
    assert max(float(gradient.abs().max()) for gradient in again.values()) > 1e-2


def test_layers_that_are_computed_again_keep_their_inputs_only():
    trunk, (ids, real, _, start) = trunk_of(random_model("Qwen2")), group_of_rows()
    with Kept() as kept:
        hidden_states(trunk, ids, real, start).sum().backward()
    recompute_layers(trunk)
    passed = []
    for layer in trunk.layers:
        layer.register_forward_pre_hook(lambda _, inputs: passed.append(inputs[0].nbytes))
    with Kept() as less:
        states = hidden_states(trunk, ids, real, start)
        held = less.most + sum(passed)
        states.sum().backward()
    assert len(passed) == 6  # each layer reads the beginnings and the rest
    assert held < kept.most / 4
    assert less.now == 0  # no graph is left behind


@pytest.mark.usefixtures("passes_of_rows")
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_of_rows_do_not_wait_for_those_of_their_prompts(recompute):
    models = ActorCritic(random_model("Qwen2"), None, 1.0)
    if recompute:
        recompute_layers(models)
    added = Counter()
    for name, weight in trunk_of(models.policy).layers.named_parameters():
        weight.register_post_accumulate_grad_hook(lambda _, name=name: added.update([name]))
    gradients_of(models)
    assert set(added.values()) == {2}


def test_a_model_that_does_not_say_what_its_layers_are_is_refused():
    with pytest.raises(RagenError, match=r"update\.gradient_checkpointing is true"):
        recompute_layers(torch.nn.Linear(2, 2))


def learner_of(tiny, folder, *layers, preset="starpo-ppo"):
    """Return a trainer whose models have moved off their beginning, and a batch that is prepared."""
    one = trainer(folder, {"model": str(tiny), "filter": {"kind": "none"}}, *layers, preset=preset)
    models = one.learner.models
    generator = torch.Generator().manual_seed(2)
    for named in (models.named_policy(), models.named_critic()):
        for _, parameter in sorted(named.items()):
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data += 0.05 * noise.to(parameter.device)
    found = one.collector.collect([GroupSpec(g, 4, {"seed": g}) for g in range(2)], 0)
    batch = TrainBatch.of(found, one.codec.pad)
    return one, one.learner.prepare(batch)


def update_gradients(one, prepared):
    """Return the metrics of an optimizer step, and the gradients that it would follow."""
    seen = {}

    def note(_):
        models = one.learner.models
        for name, parameter in {**models.named_policy(), **models.named_critic()}.items():
            seen[name] = None if parameter.grad is None else parameter.grad.clone()
        one.learner.forget_gradients()
        return {"grad_norm": 1.0}

    one.learner._apply = note
    rows = list(range(len(prepared.batch.trajectories)))
    return one.learner._step(prepared, rows, 0), seen


def test_passes_one_after_the_other_have_the_gradients_of_one_sum(tiny, tmp_path):
    """Policy and critic in one graph, written down here, against the two passes of the learner."""
    one, prepared = learner_of(tiny, tmp_path)
    metrics, found = update_gradients(one, prepared)
    models, rows = one.learner.models, list(range(8))
    totals = batch_totals(one.config, prepared.inputs, rows)
    with Kept() as together:
        scores = score_trajectories(models, prepared.batch, rows, CPU)
        inputs = prepared.inputs.part(rows, prepared.batch.columns(rows), CPU)
        policy, _ = policy_loss(one.config, scores, inputs, totals)
        value = critic_loss(one.config, scores, inputs, totals)
        (policy + value).backward()
    bonus = one.config.loss.entropy_coef * float(scores.entropies[inputs.mask].mean().detach())
    assert metrics["policy_loss"] == pytest.approx(float(policy.detach()) + bonus, abs=1e-6)
    assert metrics["value_loss"] == pytest.approx(float(value))
    for name, parameter in {**models.named_policy(), **models.named_critic()}.items():
        assert torch.allclose(found[name], parameter.grad, rtol=0, atol=1e-7), name
    models.zero_grad()
    with Kept() as apart:
        update_gradients(one, prepared)
    assert apart.most < 0.7 * together.most


def with_own_adapters(base, weights, prefix):
    """Return a copy of a model with adapters of its own, which have some weights."""
    config = peft.LoraConfig(r=4, lora_alpha=4, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(copy.deepcopy(base), config)
    named = dict(trunk_of(model).named_parameters())
    for name, parameter in named.items():
        if "lora_" in name:
            parameter.data.copy_(weights[prefix + name])
    return model


@pytest.mark.parametrize("recompute", [False, True])
def test_adapters_on_one_base_learn_as_on_three_copies(recompute, tiny, tmp_path):
    lora = {
        "lora": {"rank": 4, "alpha": 4},
        "loss": {"kl": "reward", "kl_estimator": "k1", "kl_coef": 0.1},
        "update": {"gradient_checkpointing": recompute},
    }
    one, prepared = learner_of(tiny, tmp_path, lora)
    assert not dict(one.learner.models.named_parameters()).keys() & {"trunk"}
    metrics, found = update_gradients(one, prepared)
    base, _ = load_policy(TrainConfig(model=str(tiny)), CPU)
    shared = one.learner.models
    named = {**shared.named_policy(), **shared.named_critic()}
    policy = with_own_adapters(base, named, "base_model.model.model.")
    critic = trunk_of(with_own_adapters(base, named, "trunk."))
    rows, batch = list(range(8)), prepared.batch
    models = ActorCritic(policy, None, 1.0)
    reference = score_trajectories(ActorCritic(base, None, 1.0), batch, rows, CPU).logprobs
    assert torch.allclose(prepared.inputs.reference_logprobs, reference, rtol=0, atol=1e-6)
    totals = batch_totals(one.config, prepared.inputs, rows)
    scores = score_trajectories(models, batch, rows, CPU)
    assert torch.allclose(prepared.inputs.old_logprobs, scores.logprobs, rtol=0, atol=1e-6)
    inputs = prepared.inputs.part(rows, batch.columns(rows), CPU)
    policy_loss(one.config, scores, inputs, totals)[0].backward()
    read = batch.passed(rows, CPU)
    hidden = hidden_states(critic, read.ids, read.attention_mask, read.start)[:, :-1]
    head = copy.deepcopy(shared.value_head)
    head.zero_grad()
    before = read.mask[:, 1:]
    values = torch.zeros(read.mask.shape).masked_scatter(read.mask, head(hidden[before])[:, 0])
    value = critic_loss(one.config, replace(scores, values=values), inputs, totals)
    value.backward()
    assert metrics["value_loss"] == pytest.approx(float(value), abs=1e-6)
    expected = {f"trunk.{n}": p for n, p in critic.named_parameters() if p.requires_grad}
    expected |= {n: p for n, p in policy.named_parameters() if p.requires_grad}
    expected |= {f"value_head.{n}": p for n, p in head.named_parameters()}
    assert expected.keys() == found.keys()
    for name, parameter in expected.items():
        assert torch.allclose(found[name], parameter.grad, rtol=0, atol=1e-6), name


def test_adapters_of_policy_and_critic_share_one_base(tiny, tmp_path):
    base, _ = load_policy(TrainConfig(model=str(tiny)), CPU)
    lora = {"lora": {"rank": 4, "alpha": 4}, "loss": {"kl": "loss", "kl_estimator": "k2"}}
    one = trainer(tmp_path / "run", {"model": str(tiny)}, lora, preset="starpo-ppo")
    held = sum(p.numel() for p in one.learner.models.parameters())
    trained = one.learner.models.policy_parameters() + one.learner.models.critic_parameters()
    assert one.learner.reference is None
    assert held == sum(p.numel() for p in base.parameters()) + sum(p.numel() for p in trained)
    assert all(parameter.requires_grad for parameter in trained)


def test_a_checkpoint_of_adapters_makes_each_merged_weight_once(tmp_path):
    config = transformers.LlamaConfig(**{**SIZES, "hidden_size": 256, "intermediate_size": 512})
    model = with_adapters(transformers.LlamaForCausalLM(config), 4, 4, 0)
    linear = sum(p.nbytes for n, p in model.named_parameters() if ".base_layer.weight" in n)
    assert growth(lambda: _save_model(model, tmp_path)) < 1.5 * linear


def test_a_frozen_base_is_held_in_the_precision_of_the_passes(tiny, tmp_path):
    """A run with it learns, and half-way is exact."""
    layer = {
        "model": str(tiny), "lora": {"rank": 4, "alpha": 4}, "filter": {"kind": "none"},
        "update": {"precision": "bfloat16", "learning_rate": 1e-2, "gradient_checkpointing": True},
        "evaluation": {"every": 0},
    }  # fmt: skip
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    for folder, lengths in ((cut, (1, 2)), (whole, (2,))):
        for iterations in lengths:
            one = trainer(folder, layer, {"iterations": iterations}, preset="starpo-ppo")
            one.run()
    types = {p.requires_grad: p.dtype for p in one.learner.models.parameters()}
    assert types == {True: torch.float32, False: torch.bfloat16}
    assert lines(cut) == lines(whole)
    assert lines(whole)[-1]["grad_norm"] > 0
    last = [folder / "checkpoints" / "000002" for folder in (cut, whole)]
    states = [safetensors.load_file(folder / "trainer.safetensors") for folder in last]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
    assert_equal_weights(*last)
    assert json.loads((last[0] / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_reference_in_bfloat16_says_what_autocast_makes_of_one_in_float32(tiny):
    config = TrainConfig(
        model=str(tiny), loss={"kl": "loss", "kl_estimator": "k2"}, update={"precision": "bfloat16"}
    )
    policy, _ = load_policy(config, CPU)
    reference = frozen_reference(config, policy, CPU)
    whole = ActorCritic(policy, None, 1.0, config.has_float32_head(False))
    ids, real, mask, start = group_of_rows()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(reference(ids, real, mask, start).logprobs, whole(ids, real, mask, start).logprobs)
    sizes = [sum(p.nbytes for p in each.parameters()) for each in (reference, whole)]
    assert sizes[0] < sizes[1]


class Head:
    """A head whose logits are as large as those of trained models."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.randn(500, 64, generator=generator)
        self.bias = None
        self.states = 2.0 * torch.randn(5000, 64, generator=generator)
        self.config = transformers.LlamaConfig()

    def get_output_embeddings(self):
        return self


def test_a_float32_head_is_not_rounded_under_autocast():
    head = Head()
    targets = torch.arange(5000) % 500
    logits = head.states @ head.weight.T
    assert 16 < float(logits.std()) < 32
    exact = torch.log_softmax(logits.double(), -1).gather(1, targets[:, None])[:, 0]
    gaps = {}
    for float32_head in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, _ = chunked_logprobs(head, head.states, targets, 1.0, float32_head)
        gaps[float32_head] = float((found - exact).abs().max())
    assert gaps[True] < 1e-4
    assert gaps[False] > 0.1


def test_logits_of_a_float32_head_exist_in_parts():
    head = Head()
    head.weight.requires_grad_(True)
    head.states.requires_grad_(True)
    targets = torch.arange(5000) % 500
    with torch.autocast("cpu", dtype=torch.bfloat16), Kept() as kept:
        chunked_logprobs(head, head.states, targets, 1.0, True)
    assert kept.most < targets.numel() * 500 * 4 / 4


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({}, False),
        ({"precision": "bfloat16"}, True),
        ({"precision": "bfloat16", "mini_batch_size": 128}, False),
        ({"precision": "bfloat16", "mini_batch_size": 128, "epochs": 2}, True),
        ({"precision": "bfloat16", "mini_batch_size": 128, "float32_head": True}, True),
        ({"precision": "bfloat16", "float32_head": False}, False),
    ],
)
def test_the_head_is_exact_where_steps_share_old_logprobs(update, expected):
    assert TrainConfig(update=update).has_float32_head(on_cuda=False) is expected
    on_cuda = TrainConfig(update=update).has_float32_head(on_cuda=True)
    assert on_cuda is update.get("float32_head", False)


@pytest.mark.parametrize("given", [True, False])
def test_a_run_computes_its_logits_as_its_config_says(given, tiny, tmp_path, monkeypatch):
    one, prepared = learner_of(tiny, tmp_path, {"update": {"precision": "bfloat16", "float32_head": given}})
    real, asked = output_head._logits, []

    def noted(policy, states, float32_head, rounded):
        asked.append(float32_head)
        return real(policy, states, float32_head, rounded)

    monkeypatch.setattr(output_head, "_logits", noted)
    one.learner.update(prepared, 0)
    assert set(asked) == {given}


def test_what_affects_memory_only_can_change_when_a_run_is_resumed(tiny, tmp_path):
    layer = {"model": str(tiny), "filter": {"kind": "none"}, "evaluation": {"every": 1}}
    smaller = {"update": {"max_tokens_per_micro_batch": 300, "gradient_checkpointing": True}}
    trainer(tmp_path / "changed", layer, {"iterations": 1}).run()
    trainer(tmp_path / "changed", layer, smaller).run()
    trainer(tmp_path / "same", layer).run()
    for one, other in zip(lines(tmp_path / "changed"), lines(tmp_path / "same"), strict=True):
        for name, value in one.items():
            assert name == "warnings" or other[name] == pytest.approx(value, rel=1e-3, abs=1e-5)


def test_the_best_model_is_written_without_what_only_resuming_needs(tiny, tmp_path):
    trainer(tmp_path, {"model": str(tiny)}, {"iterations": 1}).run()
    saved, best = (
        {path.name for path in (tmp_path / name).iterdir()} for name in ("checkpoints/000001", "best")
    )
    assert saved - best == {"trainer.json", "trainer.safetensors"}
    assert "model.safetensors" in best
