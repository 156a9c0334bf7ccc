"""The page of what was found."""

from collections.abc import Sequence
from typing import Any, Final

from gpu_check.runner import Outcome
from gpu_check.stages import PHASES

_HEAD: Final = """# Speed on a GPU

`make gpu` on a machine with a CUDA GPU runs the tests that need one, ten iterations of StarPO-S on the
starter, and three iterations at the paper's settings with random weights of Qwen2.5-0.5B's shape: 8 levels,
16 episodes each, replies that always take all tokens they may. It takes at most 25 minutes besides the
installation, and writes this page.
"""
_NOT_RUN: Final = """
**It has not been run on a GPU yet.** There are no numbers here until then:
[how to run it](engines.md#a-machine-with-a-gpu).
"""
_GOALS: Final = (
    ("paper-all", "all 128 trajectories learned from", 12.0, "68 s"),
    ("paper-kept", "a quarter kept", 7.0, "24 s"),
)
_SOURCE: Final = """
The goals are for one H100 or H200. The paper's code is read off Figure 7 of arXiv 2504.20073, which names
neither the number of its GPUs nor the length of the replies, so that column compares with care only.
"""


def page(made_on: dict[str, str] | None, outcomes: Sequence[Outcome]) -> str:
    """Return the page in Markdown.

    Args:
        made_on: Hardware and versions; None if nothing has run.
        outcomes: Of the stages.
    """
    found = {outcome.name: outcome for outcome in outcomes}
    parts = [_HEAD]
    if made_on is None:
        parts.append(_NOT_RUN)
    else:
        parts.append("\n" + _table(["made with", ""], [[k, v] for k, v in made_on.items()]))
        parts.append("\n" + _status(outcomes))
    parts += ["\n## An iteration\n", "\n" + _goals(found), _SOURCE]
    if made_on is not None:
        parts += ["\n" + _phases(outcomes), "\n## Tests\n", "\n" + _tests(found.get("tests"))]
    return "".join(parts)


def _table(head: list[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell for cell in line) + " |\n" for line in lines)


def _status(outcomes: Sequence[Outcome]) -> str:
    rows = [[o.title, o.status, f"{o.seconds:.0f}"] for o in outcomes]
    return _table(["stage", "", "seconds, start included"], rows)


def _goals(found: dict[str, Outcome]) -> str:
    rows = []
    for name, what, goal, paper in _GOALS:
        outcome = found.get(name)
        if outcome is None or not outcome.found:
            measured, met = "not measured", ""
        else:
            seconds = float(outcome.found["seconds"]["total"])
            measured, met = f"{seconds:.1f} s", "met" if seconds <= goal else "**not met**"
        rows.append([what, f"≤ {goal:g} s", measured, met, paper])
    return _table(["", "goal", "measured", "", "the paper's code"], rows)


def _phases(outcomes: Sequence[Outcome]) -> str:
    measured = [o for o in outcomes if "seconds" in o.found]
    if not measured:
        return "No stage left measurements.\n"
    rows = [
        [f"{phase}, s", *(f"{o.found['seconds'][phase]:.2f}" for o in measured)] for phase in PHASES
    ]
    rows.append(["iterations measured", *(str(o.found["iterations"]) for o in measured)])
    for key, label, form in (
        ("tokens_per_second", "tokens written a second of rollout", "{:,.0f}"),
        ("torch_gib", "GPU memory by PyTorch at most, GiB", "{:.1f}"),
        ("device_gib", "GPU memory in use at most, five looks a second, GiB", "{:.1f}"),
        ("host_gib", "memory of the process at most, GiB", "{:.1f}"),
    ):
        rows.append([label, *(_cell(o.found, key, form) for o in measured)])
    text = _table(["", *(o.title for o in measured)], rows)
    return text + "\nMedians of the iterations but the first, which loads and compiles.\n"


def _cell(found: dict[str, Any], key: str, form: str) -> str:
    return form.format(found[key]) if found.get(key) is not None else ""


def _tests(outcome: Outcome | None) -> str:
    if outcome is None or not outcome.found:
        return "The tests left no report.\n"
    rows = [
        [f"`{row['test']}`", row["outcome"], row["why"].replace("|", "\\|")[:160]]
        for row in outcome.found["tests"]
    ]
    return _table(["", "", ""], rows)
