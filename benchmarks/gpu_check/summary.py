"""The numbers that matter, as tables of text: for the end of a run's output, and for the page."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpu_check.results import Outcome

Rows = list[list[str]]
PHASES: Final = ("rollout", "games", "scores", "update", "sync", "total")
RUNS: Final = (
    ("vllm", "all_kept", "vLLM, all 128 kept"),
    ("vllm", "quarter_kept", "vLLM, a quarter kept"),
    ("iteration", "", "engine=transformers, all kept"),
)
"""Stages, and parts of them, that measured iterations."""


_MISSING: Final = "not measured"


class Table(NamedTuple):
    """A table with its title."""

    title: str
    head: list[str]
    rows: Rows


class Numbers:
    """The findings of all stages.

    Args:
        outcomes: Of the stages.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._found = {outcome.name: outcome.found for outcome in outcomes}

    def get(self, *path: str) -> Any:
        """Return a finding by the names of stage and parts, None if it is missing."""
        value: Any = self._found
        for name in path:
            if name:
                value = value.get(name) if isinstance(value, dict) else None
        return value

    def tables(self) -> list[Table]:
        """Return all tables of measurements that have a row."""
        tables = [
            self._ceilings(), self._gradients(), self._updates(), self._iterations(),
            self._memory(), self._vllm(), self._starter(),
        ]  # fmt: skip
        return [table for table in tables if table.rows]

    def _ceilings(self) -> Table:
        found = self.get("ceilings") or {}
        names = {
            "copy_gb_s": "copied bytes, read and written, GB/s",
            "bfloat16_tflops": "products of bfloat16 matrices, TFLOP/s",
            "tf32_tflops": "products of float32 matrices rounded to TF32, TFLOP/s",
            "float32_tflops": "products of float32 matrices, TFLOP/s",
        }
        rows = [[text, f"{found[name]:,.1f}"] for name, text in names.items() if name in found]
        return Table("Ceilings", ["", "measured"], rows)

    def _gradients(self) -> Table:
        rows = [
            [
                name, f"{row['gradient_error']:.1e}", f"{row['head_gradient_error']:.1e}",
                f"{row['logprob_gap_mean']:.1e}", f"{row['logprob_gap_max']:.1e}",
            ]
            for name, row in (self.get("gradients") or {}).items()
            if isinstance(row, dict)
        ]  # fmt: skip
        head = ["against float64", "gradient", "of the head", "mean gap, nats", "largest"]
        return Table("Gradients", head, rows)

    def _updates(self) -> Table:
        rows = []
        for stage in ("update", "update-more"):
            for name, row in (self.get(stage) or {}).items():
                if isinstance(row, dict) and "seconds" in row:
                    seconds = row["seconds"]
                    mfu = row.get("mfu", {})
                    cells = [f"{seconds.get(p, 0.0):.2f}" for p in ("policy", "critic", "step")]
                    use = [_share(mfu.get(part)) for part in ("policy", "critic", "both")]
                    rows.append([name, *cells, *use, *_peak(row["memory"].get("update", {}))])
                elif isinstance(row, dict) and "error" in row:
                    rows.append([name, row["error"][:80], *[""] * 7])
        head = [
            "32 trajectories, one step", "policy, s", "critic, s", "step, s", "MFU policy", "critic",
            "both", "peak, GiB", "planned",
        ]  # fmt: skip
        return Table("Updates", head, rows)

    def _iterations(self) -> Table:
        rows = []
        for stage, part, title in RUNS:
            run = self.get(stage, part)
            if run and "seconds" in run:
                seconds = [f"{run['seconds'][phase]:.2f}" for phase in PHASES]
                gap = run["learned"].get("mismatch_mean")
                rows.append([
                    title, *seconds, f"{run['reply_tokens_per_second']:,}",
                    f"{run['reply_tokens_per_second_of_rollout']:,}",
                    "" if gap is None else f"{gap:.1e}",
                ])  # fmt: skip
        head = [
            "seconds", *PHASES, "reply tokens/s, end to end", "of the rollout", "gap, nats",
        ]  # fmt: skip
        return Table("Iterations", head, rows)

    def _memory(self) -> Table:
        rows = []
        for stage, part, title in RUNS:
            for phase, row in (self.get(stage, part, "memory") or {}).items():
                if "device" in row:
                    numbers = [f"{row.get(name, 0.0):.1f}" for name in ("torch", "device")]
                    rows.append([title, phase, f"{row['planned']:.1f}", *numbers])
        return Table("Memory, GiB", ["", "phase", "planned", "peak of PyTorch", "peak of the device"], rows)

    def _vllm(self) -> Table:
        start, sleep = self.get("vllm", "start"), self.get("vllm", "sleep")
        rows = []
        if start:
            rows.append(["start", f"{start['vllm_seconds']:.0f} s"])
            rows.append(["attention", ", ".join(start.get("attention", [])) or "unknown"])
            rows.append(["model runner", start["runner"].removeprefix("vllm.v1.worker.")])
        if episodes := self.get("vllm", "episodes"):
            rate = f"{episodes['reply_tokens_per_second']:,} reply tokens/s"
            rows.append([f"{episodes['episodes']} episodes, first time", rate])
        if sleep:
            rows += [[name, f"{seconds:.2f} s"] for name, seconds in sleep["seconds"].items()]
            rows.append(["freed by sleep", f"{sleep['freed_gib']:.1f} GiB"])
            rows.append(["gap of log-probabilities, fixed prompt", f"{sleep['gap_nats']:.1e} nats"])
        if self.get("vllm", "missed_update"):
            rows.append(["a lost update of 1e-6", "noticed"])
        return Table("vLLM", ["", "measured"], rows)

    def _starter(self) -> Table:
        rows = []
        for when in ("before", "after"):
            success = self.get("starter", f"success_{when}")
            if success is not None:
                rows.append([f"{when} 20 iterations", f"{success:.3f}"])
        return Table("Starter's recipe for Sokoban", ["", "success"], rows)

    def tests(self) -> list[dict[str, str]]:
        """Return the outcomes of all tests."""
        return [*(self.get("tests", "tests") or []), *(self.get("vllm", "tests") or [])]

    def goals(self) -> Rows:
        """Return each goal, what was measured, and whether it is met."""
        rate = self.get("vllm", "all_kept", "reply_tokens_per_second")
        shares = [row["mfu"]["both"] for row in (self.get("update") or {}).values()
                  if isinstance(row, dict) and "mfu" in row]  # fmt: skip
        mfu = max(shares, default=None)
        gaps = [_excess(row) for run in RUNS for row in (self.get(*run[:2], "memory") or {}).values()
                if "device" in row]  # fmt: skip
        worst = max(gaps, default=None)
        noticed = "noticed" if self.get("vllm", "missed_update") else _MISSING
        return [
            self._seconds("an iteration that learns from all 128 trajectories", "all_kept", 12.0),
            self._seconds("an iteration that keeps a quarter", "quarter_kept", 7.0),
            _goal("reply tokens a second, end to end", "≥ 13,700", rate, "{:,}", at_least=13_700),
            _goal("MFU of the update", "≥ 40%", mfu, "{:.0%}", at_least=0.4),
            _goal("peak of the device beyond the plan", "≤ 10%", worst, "{:+.0%}", at_most=0.1),
            ["a lost update of 1e-6", "noticed", noticed, "" if noticed == _MISSING else "met"],
        ]

    def _seconds(self, title: str, part: str, limit: float) -> list[str]:
        seconds = self.get("vllm", part, "seconds", "total")
        return _goal(title, f"≤ {limit:g} s", seconds, "{:.1f} s", at_most=limit)


def _goal(
    title: str, goal: str, value: float | None, form: str, at_least: float = 0.0,
    at_most: float = float("inf"),
) -> list[str]:  # fmt: skip
    if value is None:
        return [title, goal, _MISSING, ""]
    met = (at_least or value) <= value <= at_most
    return [title, goal, form.format(value), "met" if met else "**not met**"]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _peak(row: dict[str, float]) -> list[str]:
    """Return PyTorch's peak and the plan without its reserve for libraries."""
    if "torch" not in row:
        return ["", ""]
    return [f"{row['torch']:.1f}", f"{row['planned'] - row['reserve']:.1f}"]


def _excess(row: dict[str, float]) -> float:
    return row["device"] / row["planned"] - 1


def as_text(tables: Sequence[Table]) -> str:
    """Return tables for a terminal."""
    parts = []
    for table in tables:
        lines = [table.head, *table.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        parts.append("\n".join([f"# {table.title}", *text]))
    return "\n".join(parts)
