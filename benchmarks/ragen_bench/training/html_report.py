"""A training run as one HTML page: curves, warnings, and conversations before and after."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ragen_agents.run_files.files import write_atomically, writing
from ragen_agents.run_files.records import read_lines, read_metrics
from ragen_agents.starpo import TrainConfig
from ragen_agents.starpo.run.journal import SAMPLES
from ragen_agents.starpo.run.run_directory import load_train_config
from ragen_bench.console.drawings import image_source, svg_of
from ragen_bench.training.run_summary import best_evaluation, short_name
from ragen_envs.conversation import EndReason
from ragen_envs.errors import RagenError


class _Panel(NamedTuple):
    title: str
    unit: str
    names: tuple[str, ...]
    """Metrics that have the unit."""
    low: float | None = 0.0
    """Largest beginning of the axis, or None where values have no natural bound."""
    high: float | None = None
    """Smallest end of the axis."""


def _share(title: str, *names: str) -> _Panel:
    return _Panel(title, "%", names, 0.0, 100.0)


_PANELS: Final = (
    _share("success", "success", "validation/success"),
    _Panel("return", "reward", ("return", "validation/return"), None),
    _Panel("standard deviation of returns within groups", "reward", ("reward_std",)),
    _Panel("entropy", "nats a token", ("entropy",)),
    _Panel("gradient norm of the policy", "norm", ("grad_norm",)),
    _Panel("gradient norm of the critic", "norm", ("critic_grad_norm",)),
    _share("valid replies", "valid", "validation/valid"),
    _Panel("length of a reply", "tokens", ("reply_tokens", "validation/reply_tokens")),
    _share("replies with the most frequent thought", "template_share"),
    _share("different pairs of words", "distinct_2"),
    _Panel(
        "information of first texts about their prompts", "nats",
        ("information/first/reply/mutual_information", "information/first/thought/mutual_information"),
    ),
    _share(
        "first texts matched to their prompts",
        "information/first/reply/retrieval@1", "information/first/thought/retrieval@1",
        "information/first/reply/chance@1",
    ),
    _Panel(
        "parts of the reward", "reward",
        ("reward/game", "reward/penalty", "reward/format", "reward/grounded", "reward/prediction"),
        None,
    ),
    _share("replies whose thought makes claims", "claims/made", "validation/claims/made"),
    _share("true claims about places", "claims/places", "validation/claims/places"),
    _share("true outcome of the first move", "claims/move_1", "validation/claims/move_1"),
    _share("answer is the plan of the thought", "claims/plan", "validation/claims/plan"),
    _share("how episodes end", *(f"end/{reason}" for reason in EndReason)),
    _Panel("variance explained by the critic", "share", ("explained_variance",), None),
    _Panel("divergence of a step", "nats a token", ("kl_step",)),
    _share("clipped tokens", "clip_fraction")._replace(high=None),
    _Panel("divergence from the initial policy", "nats a token", ("kl_to_initial",)),
    _Panel("time of an iteration", "s", ("seconds/rollout", "seconds/scores", "seconds/update")),
)  # fmt: skip
_OF_THOUGHTS: Final = ("template_share", "claims/made", "validation/claims/made")
"""Metrics that are constant where replies have no thoughts."""
_SHOWN: Final = 3
"""Conversations before and after."""
_SAMPLE: Final = ("iteration", "kind", "success", "return", "end", "messages")
"""Fields of a sampled conversation that the page shows."""


def write_report(run: Path, out: Path) -> None:
    """Write the page of a run."""
    config = load_train_config(run)
    metrics = read_metrics(run)
    if not metrics:
        raise RagenError(f"'{run}' has no iterations yet")
    if not config.env_kwargs.get("think", True):
        metrics = [{k: v for k, v in line.items() if k not in _OF_THOUGHTS} for line in metrics]
    warnings = [(line["iteration"], text) for line in metrics for text in line.get("warnings", [])]
    scored = [line for line in metrics if "validation/success" in line]
    facts = [
        ("game", short_name(config.game)),
        ("model", config.model),
        ("advantage estimator", config.advantage.estimator),
        ("filter", _filter(config)),
        ("seed", config.seed),
        ("iterations", f"{metrics[-1]['iteration']} of {config.iterations}"),
    ]
    if scored:
        best = best_evaluation(scored)
        facts += [
            ("validation success, first", f"{100 * scored[0]['validation/success']:.1f}%"),
            ("validation success, best",
             f"{100 * best['validation/success']:.1f}% after iteration {best['iteration']}"),
        ]  # fmt: skip
    loader = jinja2.PackageLoader("ragen_bench")
    page = jinja2.Environment(loader=loader, autoescape=True).get_template("training.html.j2")
    text = page.render(
        title=f"{short_name(config.game)}, seed {config.seed}",
        facts=facts,
        warnings=warnings,
        curves=_curves(metrics, [iteration for iteration, _ in warnings]),
        conversations=_conversations(run),
    )
    with writing(out):
        write_atomically(out, text)


def _filter(config: TrainConfig) -> str:
    kind = config.filter.kind
    return kind if kind in ("none", "nonzero") else f"{kind}, ratio {config.filter.ratio:g}"


def _curves(metrics: Sequence[dict[str, Any]], marked: Sequence[int]) -> list[tuple[str, str]]:
    curves, span = [], (metrics[0]["iteration"], metrics[-1]["iteration"])
    for panel in _PANELS:
        scale = 100 if panel.unit == "%" else 1
        series = {
            name: [(m["iteration"], scale * m[name]) for m in metrics if name in m] for name in panel.names
        }
        series = {name: points for name, points in series.items() if points}
        if series:
            curves.append((panel.title, _drawn(panel, series, marked, span)))
    return curves


def _drawn(
    panel: _Panel, series: dict[str, list[tuple[int, float]]], marked: Sequence[int],
    span: tuple[int, int],
) -> str:  # fmt: skip
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    axes = figure.subplots()
    for name, points in series.items():
        marker = "o" if len(points) < 2 or points[1][0] - points[0][0] > 1 else ""
        axes.plot(
            *zip(*points, strict=True),
            label=_legend_name(name, panel),
            marker=marker,
            markersize=3,
            linewidth=1.4,
        )
    for iteration in marked:
        axes.axvline(iteration, color="#c0392b", linewidth=0.8, linestyle=":")
    values = [value for points in series.values() for _, value in points if math.isfinite(value)]
    if panel.low is not None:
        axes.set_ylim(bottom=min([panel.low, *values]))
    highest = max(filter(None, [panel.high, *values]), default=0.0)
    if panel.low is not None and highest > 0:
        axes.set_ylim(top=1.05 * highest)
    axes.set_title(panel.title, fontsize=11)
    axes.set_xlim(span[0] - 0.5, span[1] + 0.5)
    axes.set_xlabel("iteration", fontsize=10)
    axes.set_ylabel(panel.unit, fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    with mpl.rc_context({"svg.hashsalt": panel.title}):
        return image_source(svg_of(figure))


def _legend_name(metric: str, panel: _Panel) -> str:
    group, _, rest = metric.partition("/")
    if group == "validation":
        return "validation"
    if f"validation/{metric}" in panel.names:
        return "training"
    if group == "information":
        return rest.removeprefix("first/").replace("/", ": ").replace("_", " ").replace("@1", " at 1")
    return EndReason(rest).words if group == "end" else rest.replace("_", " ")


def _conversations(run: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the first and the last validation conversations, or those of training if there are none."""
    samples = read_lines(run / SAMPLES, *_SAMPLE)
    samples = [{**sample, "end": EndReason(sample["end"]).words} for sample in samples]
    chosen = [s for s in samples if s["kind"] == "validation"] or samples
    if not chosen:
        return []
    numbers = sorted({sample["iteration"] for sample in chosen})
    ends = dict.fromkeys((numbers[0], numbers[-1]))
    when = "After" if chosen[0]["kind"] == "validation" else "In"
    return [(f"{when} iteration {n}", [s for s in chosen if s["iteration"] == n][:_SHOWN]) for n in ends]
