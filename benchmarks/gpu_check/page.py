"""The page of results: docs/performance-gpu.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpu_check.results import Outcome
from gpu_check.summary import Numbers

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/performance-gpu.md"
PUBLISHED: Final = ROOT / "benchmarks/results/gpu"
"""Folder of the results that the page in the checkout is made from."""
_HEAD: Final = """# Speed on a GPU

Measurements use random weights of Qwen2.5-0.5B's shape at the paper's settings: 8 levels, 16 episodes each,
and replies that take all the tokens they may. [How to run it](engines.md#a-machine-with-a-gpu).
"""
_NOT_RUN: Final = """
**It has not been run on a GPU yet.**
"""
_GOALS: Final = """
The goals are for one H100 or H200. On the paper's hardware an iteration takes about 68 s with all
trajectories and 24 s with a quarter of them. These are read off Figure 7 of arXiv 2504.20073, which names
neither the number of its GPUs nor the length of the replies, so they compare with care only.
"""
_NOTES: Final = {
    "Updates": """
Prompts that a group shares are counted once; MFU is relative to the card's nominal bfloat16 peak. The peak is
PyTorch's, and the plan is shown without its reserve for libraries.
""",
    "Iterations": """
Medians of the iterations but the first, which loads and compiles, if there are several. The gap is the mean
difference of the engine's log-probabilities from the trainer's.
""",
    "Memory, GiB": """
PyTorch's peak counts vLLM's memory also while it sleeps. The device's is the largest of five looks a second,
and includes what PyTorch keeps for later.
""",
}


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page in Markdown."""
    if not any(outcome.found for outcome in outcomes):
        return _HEAD + _NOT_RUN
    numbers = Numbers(outcomes)
    parts = [_HEAD, "\n", _machines(outcomes), "\n", _stages(outcomes)]
    parts += ["\n## Goals\n\n", _table(["", "goal", "measured", ""], numbers.goals()), _GOALS]
    for table in numbers.tables():
        parts += [f"\n## {table.title}\n\n", _table(table.head, table.rows)]
        parts.append(_NOTES.get(table.title, ""))
    if tests := numbers.tests():
        rows = [[f"`{row['test']}`", row["outcome"], row["why"].replace("|", "\\|")] for row in tests]
        parts += ["\n## Tests\n\n", _table(["", "", ""], rows)]
    return "".join(parts)


def _machines(outcomes: Sequence[Outcome]) -> str:
    """Return hardware and versions; a column for each that some stage ran on."""
    columns: list[dict[str, str]] = []
    for outcome in outcomes:
        if outcome.made_on and outcome.made_on not in columns:
            columns.append(outcome.made_on)
    rows = [[name, *(column.get(name, "") for column in columns)] for name in columns[0]]
    return _table(["made with", *[""] * len(columns)], rows)


def _stages(outcomes: Sequence[Outcome]) -> str:
    rows = [
        [o.title, o.status, f"{o.seconds:.0f}" if o.seconds else "", o.why.replace("|", "\\|")]
        for o in outcomes
    ]
    return _table(["stage", "", "seconds, start included", ""], rows)


def _table(head: list[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
