"""Learning rates and weight decay, against those of torch and transformers."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from training_runs import assert_equal_weights, lines, trainer  # noqa: E402

from ragen_agents.starpo.config import Update  # noqa: E402
from ragen_agents.starpo.update.learner import make_optimizer, rate_factor  # noqa: E402

NAMES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("warmup", [0, 1, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_learning_rates_are_those_of_transformers(kind, warmup, steps):
    iterations = 7
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = transformers.get_scheduler(NAMES[kind], optimizer, warmup * steps, iterations * steps)
    how = Update(lr_scheduler_type=kind, warmup_iterations=warmup)
    for step in range(iterations * steps):
        done = step // steps + step % steps / steps
        ours = rate_factor(how, iterations, done)
        assert ours == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def stepped(module, optimizer):
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        for parameter in module.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return dict(module.named_parameters())


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_torch(decay):
    ours, theirs = network(), network()
    one = make_optimizer(list(ours.parameters()), 1e-2, Update(weight_decay=decay))
    if decay:
        weight, *rest = theirs.parameters()
        groups = [{"params": [weight]}, {"params": rest, "weight_decay": 0.0}]
        other = torch.optim.AdamW(groups, lr=1e-2, weight_decay=decay)
    else:
        other = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    found, expected = stepped(ours, one), stepped(theirs, other)
    assert all(torch.equal(parameter, expected[name]) for name, parameter in found.items())


def test_a_run_with_a_schedule_and_decay_is_resumed_exactly(tiny, tmp_path):
    layer = {
        "model": str(tiny), "filter": {"kind": "none"}, "evaluation": {"every": 0}, "iterations": 3,
        "update": {"lr_scheduler_type": "cosine", "warmup_iterations": 1, "weight_decay": 0.1},
    }  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    trainer(whole, layer, preset="starpo-ppo").run()
    one = trainer(cut, layer, preset="starpo-ppo")
    real = one.learner.update

    def update(prepared, iteration):
        one.stop()
        return real(prepared, iteration)

    one.learner.update = update
    one.run()
    assert len(lines(cut)) == 1
    trainer(cut, layer, preset="starpo-ppo").run()
    assert lines(cut) == lines(whole)
    assert_equal_weights(cut / "checkpoints" / "000003", whole / "checkpoints" / "000003")
    rates = [line["learning_rate"] for line in lines(whole)]
    # Two steps an iteration: the warm-up is at 0 and 1/2, and 1/2 of the rest is half a cosine's way.
    assert rates == pytest.approx(
        [1e-3 * (0 + 0.5) / 2, 1e-3 * (1 + 0.85355339) / 2, 1e-3 * (0.5 + 0.14644661) / 2]
    )
