"""Write what a reproduction found: results, table, claims, drawing."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ragen_bench.formats import Grid, markdown
from ragen_bench.reproduction.beside import Beside
from ragen_bench.reproduction.claims import Verdict, judge
from ragen_bench.reproduction.figures import draw_curves
from ragen_bench.reproduction.page import render_page, sample_episodes
from ragen_bench.reproduction.runs import Runs
from ragen_bench.reproduction.schema import (
    Reproduction,
    bundled_reproductions,
    games_of,
    load_reproduction,
)
from ragen_bench.reproduction.stages import stages_grid
from ragen_bench.reproduction.table import claims_grid, table_grid, tabulate
from ragen_bench.runs import write_atomically
from ragen_bench.sweeps.archive import add_to_archive, archive_path, read_archive
from ragen_bench.sweeps.run import SweepRun
from ragen_bench.sweeps.tasks import Choice


class Report:
    """One table or figure at one scale.

    Args:
        what: The table or figure.
        run: Its sweep, of which all that is done is read.
        beside: Agents that were only benchmarked, which join the table.
    """

    def __init__(self, what: Reproduction, run: SweepRun, beside: Sequence[Beside] = ()) -> None:
        self.what, self._run = what, run
        states = run.states()
        self._results = [state.result for state in states if state.result is not None]
        self._own = [s.result for s in states if s.result is not None and s.source is None]
        self._borrowed = [(s.task, s.source) for s in states if s.source is not None]
        self._missing = len(states) - len(self._results)
        self._runs = Runs(run.sweep, self._results)
        self.data: pd.DataFrame = tabulate(what, self._runs, beside)
        self.verdicts: list[Verdict] = judge(what, self._runs)

    @property
    def trained(self) -> bool:
        """Whether there is a run of the sweep itself."""
        return any(result.task.seed is not None for result in self._own)

    @property
    def table(self) -> Grid:
        """The table for people."""
        return table_grid(self.data)

    @property
    def claims(self) -> Grid:
        """The claims and what is said of them, for people."""
        return claims_grid(self.verdicts)

    @property
    def stages(self) -> Grid | None:
        """How a metric of training went, beside the paper's, if the table or figure asks for it."""
        return stages_grid(self.what, self._runs)

    @property
    def drawing(self) -> str | None:
        """The curves of training as SVG, or None if nothing was trained."""
        return draw_curves(self.what, self._runs)

    def notes(self) -> list[str]:
        """Return what a reader of the table must know."""
        found = []
        if self._missing:
            found.append(f"unfinished: {self._missing} tasks are missing")
        if self._results and max(self.data["seeds"], default=0) < 2:
            found.append("one seed: intervals and tests speak of these runs, not of the method")
        if self.what.source:
            found.append(f"paper: {self.what.source}")
        found += dict.fromkeys(
            f"{task.game} {task.cell}: the same runs as {source.cell} of the sweep {source.sweep}"
            for task, source in self._borrowed
            if task.seed is not None
        )
        early = [r for r in self._results if r.ended]
        found += [
            f"{r.task.game} {r.task.cell} seed {r.task.seed} ended early: {r.ended}" for r in early
        ]
        return found

    def markdown(self) -> str:
        """Return table, claims and notes as Markdown."""
        scale = self._run.choice.name
        parts = [
            f"**{self.what.title}** (scale {scale})\n",
            markdown(self.table),
            "".join(f"{note[0].upper()}{note[1:]}.\n" for note in self.notes()),
        ]
        if self.verdicts:
            parts.append(markdown(self.claims))
        if self.what.stages is not None and self.stages is not None:
            parts += [f"{self.what.stages.title}:\n", markdown(self.stages)]
        return "\n".join(part for part in parts if part)

    def write(self, folder: Path) -> list[Path]:
        """Write all files below a folder and return them."""
        archive = self._run.archive(folder)
        add_to_archive(archive, self._own)
        base = archive.parent / self.what.name
        texts = {
            base.with_suffix(".csv"): self.data.to_csv(index=False),
            base.with_suffix(".md"): self.markdown(),
        }
        drawing = self.drawing
        if drawing is not None:
            texts[base.with_suffix(".svg")] = drawing
        for path, text in texts.items():
            write_atomically(path, text)
        return [archive, *texts, *self._write_beside_runs(drawing)]

    def _write_beside_runs(self, drawing: str | None) -> list[Path]:
        """Write what is not kept with results: the page, whose episodes are large, and Parquet."""
        page = self._run.root / f"{self.what.name}-{self._run.choice.name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = render_page(
            self.what, self._run.choice.name, self.notes(), self.claims, self.table, self.stages,
            drawing,
            sample_episodes(self._run.root, self._results, self.what.columns),
        )  # fmt: skip
        write_atomically(page, text)
        parquet = page.with_suffix(".parquet")
        self.data.to_parquet(parquet, index=False)
        return [page, parquet]


def kept_reports(folder: Path) -> list[Report]:
    """Return the tables and figures at laptop scale whose sweeps have results in a folder.

    Raises:
        RagenError: A file of results is broken.
    """
    reports = []
    for name in bundled_reproductions():
        what = load_reproduction(name)
        archive = read_archive(archive_path(folder, what.sweep, "laptop"))
        seeds = [r.task.seed for r in archive if r.task.seed is not None]
        if not seeds:
            continue
        choice = Choice(seeds=max(seeds) + 1, games=tuple(games_of(what, "laptop")))
        nowhere = folder / "no-runs"  # only what is kept
        report = Report(what, SweepRun(what.load_sweep(), choice, nowhere, None, kept=folder))
        if report.trained:
            reports.append(report)
    return reports
