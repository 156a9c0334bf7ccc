"""Write the files of a reproduction: results, table, claims, drawing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ragen_agents.run_files.files import write_atomically
from ragen_bench.console.formats import Grid, markdown
from ragen_bench.reproduction.beside import Beside
from ragen_bench.reproduction.claim_costs import claims_data
from ragen_bench.reproduction.claims import Verdict, judge
from ragen_bench.reproduction.figures import draw_curves
from ragen_bench.reproduction.html_page import render_page, sample_episodes
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.paper_levels import paper_notes
from ragen_bench.reproduction.phase import draw_phase, phase_grid, tabulate_phase
from ragen_bench.reproduction.reproduction_config import (
    Reproduction,
    bundled_reproductions,
    games_of,
    load_reproduction,
)
from ragen_bench.reproduction.stages import stages_grid, tabulate_stages
from ragen_bench.reproduction.success_table import claims_grid, table_grid, tabulate
from ragen_bench.sweeps.archive import add_to_archive, archive_path, read_archive
from ragen_bench.sweeps.state import Cost
from ragen_bench.sweeps.sweep_run import SweepRun
from ragen_bench.sweeps.tasks import Choice


class Report:
    """One table or figure at one scale.

    Args:
        what: The table or figure.
        run: Its sweep, of which all that is done is read.
        beside: Agents that were only benchmarked, which join the table.
    """

    def __init__(self, what: Reproduction, run: SweepRun, beside: Sequence[Beside] = ()) -> None:
        self.what, self._run, self._beside = what, run, beside
        states = self._states = run.states()
        self._sampling = states[0].task.suite.sampling
        self._results = [state.result for state in states if state.result is not None]
        self._own = [s.result for s in states if s.result is not None and s.source is None]
        self._borrowed = [(s.task, s.source) for s in states if s.source is not None]
        self._missing = sum(s.result is None and run.is_expected(s.task) for s in states)
        self._runs = Runs(run.sweep, self._results)
        self.data: pd.DataFrame = tabulate(what.columns, what.paper, self._runs, beside)
        self.stages_data: pd.DataFrame | None = tabulate_stages(what, self._runs)
        self.phase_data: pd.DataFrame | None = tabulate_phase(what, self._runs)
        self.verdicts: list[Verdict] = judge(what, self._runs)
        cost = Cost(run.sweep, run.choice.scale, states)
        self.claims_data: pd.DataFrame = claims_data(what, self.verdicts, states, cost)

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
        """The claims and their verdicts, for people."""
        return claims_grid(self.claims_data)

    @property
    def second_table(self) -> tuple[str, Grid] | None:
        """How a metric of training went, or where training collapses, with a title; None without either."""
        if self.what.stages is not None and self.stages_data is not None:
            return self.what.stages.title, stages_grid(self.stages_data)
        if self.what.phase is not None and self.phase_data is not None:
            return self.what.phase.title, phase_grid(self.phase_data)
        return None

    @property
    def drawing(self) -> str | None:
        """Where training collapses, or its curves, as SVG; None if nothing was trained."""
        if self.what.phase is not None:
            return None if self.phase_data is None else draw_phase(self.phase_data)
        return draw_curves(self.what, self._runs)

    def notes(self) -> list[str]:
        """Return the notes below the table."""
        found = []
        if self._missing:
            are = "task is" if self._missing == 1 else "tasks are"
            found.append(f"unfinished: {self._missing} {are} missing")
        trained = self.data.loc[self.data["design"] != "control", "seeds"]
        if max(trained, default=0) == 1:
            found.append(
                "one seed: intervals speak of these runs, not of the method, and nothing is decided"
            )
        if self.what.source:
            found.append(f"paper: {self.what.source}")
        found += paper_notes(self.data.loc[self.data["paper"].notna(), "test"])
        found += dict.fromkeys(
            f"{task.game} {task.cell}: the same runs as {source.cell} of the sweep {source.sweep}"
            for task, source in self._borrowed
            if task.seed is not None
        )
        found += self._added_seeds()
        found += self._other_sampling()
        early = [r for r in self._results if r.ended]
        found += [
            f"{r.task.game} {r.task.cell} seed {r.task.seed} ended early: {r.ended}" for r in early
        ]
        return found

    def _added_seeds(self) -> list[str]:
        """Return a note on the cells whose p-values are corrected for seeds that were added."""
        games = {column.train for column in self.what.columns}
        cells = [
            f"{game} {cell} ({', '.join(str(count or 'unknown') for count in counts)})"
            for (game, cell), counts in self._runs.extended(games).items()
        ]
        if not cells:
            return []
        listed = ", ".join(cells)
        return [f"p-values are doubled each time that seeds were added after verdicts: {listed}"]

    def _other_sampling(self) -> list[str]:
        """Return how agents were sampled that were not sampled as the cells were."""
        return list(
            dict.fromkeys(
                f"{one.agent} was sampled at temperature {one.sampling.temperature:g} with at most "
                f"{one.sampling.max_tokens} tokens a reply, the cells at {self._sampling.temperature:g} "
                f"with {self._sampling.max_tokens}"
                for one in self._beside
                if one.sampling != self._sampling
            )
        )

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
        if self.second_table is not None:
            title, grid = self.second_table
            parts += [f"{title}:\n", markdown(grid)]
        return "\n".join(part for part in parts if part)

    def write(self, folder: Path) -> list[Path]:
        """Write all files and return them: results below a folder, the rest beside the runs.

        The table is kept with the results that it can be made of again. With agents beside it, it cannot;
        and one that leaves out some of them would take the place of a better one.
        """
        archive = self._run.archive(folder)
        add_to_archive(archive, self._own)
        drawing = self.drawing
        beside_runs = self._run.root / f"{self.what.name}-{self._run.choice.name}"
        beside_runs.parent.mkdir(parents=True, exist_ok=True)
        is_kept = bool(self._results) and not self._beside and not self._leaves_out(folder)
        base = str(archive.parent / self.what.name if is_kept else beside_runs)
        texts: dict[Path, str | bytes] = {
            Path(base + ".csv"): self.data.to_csv(index=False),
            Path(base + "-claims.csv"): self.claims_data.to_csv(index=False),
            Path(base + ".md"): self.markdown(),
            **({} if drawing is None else {Path(base + ".svg"): drawing}),
            Path(f"{beside_runs}.html"): self._page(drawing),
            Path(f"{beside_runs}.parquet"): self.data.to_parquet(index=False),
        }
        for path, text in texts.items():
            write_atomically(path, text)
        return [archive, *texts]

    def _leaves_out(self, folder: Path) -> bool:
        """Return whether a folder of archived results has more seeds than were requested."""
        seeds = self._run.choice.seeds
        more = replace(self._run.choice, seeds=seeds + 1)
        kept = replace(self._run, choice=more, root=folder / "no-runs", kept=folder)
        return any(s.task.seed == seeds and s.result is not None for s in kept.states())

    def _page(self, drawing: str | None) -> str:
        """Return the page; with its episodes it is too large to be kept with results."""
        return render_page(
            self.what.title, self._run.choice.name, self.notes(), self.claims, self.table, self.second_table,
            drawing,
            sample_episodes(self._run.root, self._states, self.what.columns),
        )  # fmt: skip


def kept_reports(folder: Path) -> list[Report]:
    """Return the tables and figures at laptop scale whose sweeps have results in a folder.

    Raises:
        RagenError: A file of results is broken.
    """
    reports = []
    for name in bundled_reproductions():
        what = load_reproduction(name)
        archive = read_archive(archive_path(folder, what.sweep, "laptop"))
        if all(r.task.seed is None for r in archive):
            continue
        choice = Choice(games=tuple(games_of(what, "laptop")))
        nowhere = folder / "no-runs"  # only what is kept
        run = SweepRun(what.load_sweep(), choice, nowhere, None, kept=folder)
        report = Report(what, run.with_kept_seeds())
        if report.trained:
            reports.append(report)
    return reports
