"""The tables of docs/gradients.md."""

from collections.abc import Callable, Iterator
from typing import Final

from torch import Tensor

from gradients.batches import Batch, Moments, moments
from gradients.closed_forms import deviation_factor
from gradients.problem import Problem, answers, gamble
from gradients.trainers import Method

_GROUP: Final = 4
_NORM: Final = "seq-mean-token-sum-norm"
_METHODS: Final = (
    Method("rloo", _NORM),
    Method("rloo"),
    Method("dr-grpo", _NORM),
    Method("dr-grpo"),
    Method("dr-grpo", "seq-mean-token-mean"),
    Method("grpo", _NORM),
    Method("grpo"),
    Method("grpo", "seq-mean-token-mean"),
    Method("grpo", "seq-mean-token-mean", policy_loss="gspo"),
    Method("grpo", policy_loss="cispo"),
    Method("gigpo"),
    Method("gae"),
    Method("gae", whiten=True),
)
_FILTERS: Final = (
    ("none", 1.0),
    ("nonzero", 1.0),
    ("random", 1 / 3),
    ("std", 2 / 3),
    ("std", 1 / 3),
    ("top-p", 0.9),
    ("softmax-top-p", 0.9),
    ("min-p", 0.5),
    ("variance-share", 0.9),
)


def tables(tick: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return each table as Markdown by its name in the page.

    Args:
        tick: Called with the name of each row before it is computed.
    """
    return {
        "methods": "\n".join(_method_rows(tick)),
        "difficulty": "\n".join(_difficulty_rows()),
        "filters": "\n".join(_filter_rows(tick)),
    }


def _method_rows(tick: Callable[[str], None]) -> Iterator[str]:
    problem = answers([0.9, 0.5])
    yield (
        "| estimator | aggregation | cosine | size | 0.9 / 0.5 | long after right | long after wrong "
        "| noise |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for method in _METHODS:
        name = method.estimator + (", whitened" if method.whiten else "")
        if method.policy_loss != "ppo-clip":
            name += f", {method.policy_loss}"
        tick(name)
        yield _method_row(problem, name, method.aggregation, moments(problem, _GROUP, method))
    from gradients.trl_loss import TrlLoss

    for loss_type, scale, aggregation in (
        ("grpo", "group", "seq-mean-token-mean"),
        ("dapo", "group", "token-mean"),
        ("dr_grpo", "none", _NORM),
    ):
        name = f"TRL, loss_type={loss_type}, scale_rewards={scale}"
        tick(name)
        found = moments(problem, _GROUP, TrlLoss(loss_type, scale))
        yield _method_row(problem, name, aggregation, found)


def _method_row(problem: Problem, name: str, aggregation: str, found: Moments) -> str:
    true, mean = problem.gradient, found.mean
    size = true.norm()
    easy, middle, *lengths = problem.directions.values()
    numbers = [
        float(mean @ true / (mean.norm() * size)),
        float(mean @ true / size**2),
        _along(mean, easy) / _along(true, easy) / (_along(mean, middle) / _along(true, middle)),
        *(_along(mean, direction) / _along(mean, easy + middle) for direction in lengths),
        found.variance / float(mean @ mean),
    ]
    return f"| {name} | `{aggregation}` | " + " | ".join(_shown(n) for n in numbers) + " |"


def _difficulty_rows() -> Iterator[str]:
    chances = (0.02, 0.1, 0.3, 0.5)
    yield "| members | " + " | ".join(f"p = {p:g}" for p in chances) + " |"
    yield "|---|" + "--:|" * len(chances)
    for size in (2, 4, 8, 16):
        found = [_factor(p, size) for p in chances]
        yield f"| {size} | " + " | ".join(_shown(f) for f in found) + " |"
    limit = [1 / (p * (1 - p)) ** 0.5 for p in chances]
    yield "| ∞: 1 / √(p(1 − p)) | " + " | ".join(_shown(f) for f in limit) + " |"


def _factor(chance: float, size: int) -> float:
    """Return the enumerated factor, which must be that of the closed form."""
    problem = answers([chance], tokens=(2, 2))
    method = Method("grpo", _NORM, longest=2)
    # The aggregation divides by the length.
    found = 2 * float(moments(problem, size, method).mean[0] / problem.gradient[0])
    assert abs(found - deviation_factor(chance, size)) < 1e-9
    return found


def _filter_rows(tick: Callable[[str], None]) -> Iterator[str]:
    games = {"Bandit": gamble(chance=0.25, prompts=3), "BanditTrap": gamble(prompts=3)}
    columns = [(game, estimator) for game in games for estimator in ("rloo", "dr-grpo", "grpo")]
    yield "| filter | " + " | ".join(f"{game}, {estimator}" for game, estimator in columns) + " |"
    yield "|---|" + "--:|" * len(columns)
    for name, ratio in _FILTERS:
        tick(name)
        shown = [
            _shown(_toward_better(games[game], Method(estimator, filter=name, ratio=ratio, longest=1)))
            for game, estimator in columns
        ]
        what = f"`{name}`" if ratio == 1 else f"`{name}`, ratio {ratio:.2g}"
        yield f"| {what} | " + " | ".join(shown) + " |"


def _toward_better(problem: Problem, method: Method) -> float:
    """Return how the gamble's logits move, in parts of their true gradient."""
    direction = problem.directions["gamble"]
    found = moments(problem, _GROUP, _over_orders(method))
    return _along(found.mean, direction) / _along(problem.gradient, direction)


def _over_orders(method: Method) -> Callable[[Batch], Tensor]:
    """Return a method; a random filter draws by its seed only, so its groups are drawn in each order."""
    if method.filter != "random":
        return method

    def mean(batch: Batch) -> Tensor:
        shifted = [method((*batch[k:], *batch[:k])) for k in range(len(batch))]
        return sum(shifted[1:], shifted[0]) / len(shifted)

    return mean


def _along(vector: Tensor, direction: Tensor) -> float:
    return float(vector @ direction)


def _shown(number: float) -> str:
    return f"{number:.2f}".replace("-0.00", "0.00")
