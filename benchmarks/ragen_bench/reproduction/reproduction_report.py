"""Write the files of a reproduction: results, table, claims, and the drawing of the curves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ragen_agents.run_files.files import write_atomically
from ragen_bench.console.formats import Grid, markdown
from ragen_bench.reproduction.claims import Verdict, claims_data, judge
from ragen_bench.reproduction.figures import draw_curves, has_paper_row, panels_of
from ragen_bench.reproduction.reproduction_config import (
    Reproduction,
    bundled_reproductions,
    games_of,
    load_reproduction,
    paper_notes,
)
from ragen_bench.reproduction.run_measures import Runs
from ragen_bench.reproduction.success_table import (
    VERDICTS,
    Beside,
    cells_grid,
    claims_grid,
    matrix_grid,
    stages_grid,
    table_grid,
    tabulate,
    tabulate_stages,
)
from ragen_bench.training_sweeps.results import add_to_archive, archive_path, read_archive
from ragen_bench.training_sweeps.state import Cost
from ragen_bench.training_sweeps.sweep_run import SweepRun
from ragen_bench.training_sweeps.tasks import Choice


class Report:
    """One table or figure at one scale."""

    def __init__(self, exhibit: Reproduction, run: SweepRun, beside: Sequence[Beside] = ()) -> None:
        self.exhibit, self._run, self._beside = exhibit, run, beside
        states = run.states()
        self._sampling = states[0].task.suite.sampling
        self._results = [state.result for state in states if state.result is not None]
        self._own = [s.result for s in states if s.result is not None and s.source is None]
        self._borrowed = [(s.task, s.source) for s in states if s.source is not None]
        self._missing = sum(s.result is None and run.is_expected(s.task) for s in states)
        self._runs = Runs(run.sweep, self._results)
        data = tabulate(exhibit.columns, exhibit.paper, self._runs, beside)
        self.data: pd.DataFrame = data.drop(columns=list(VERDICTS)) if exhibit.claims else data
        self.stages_data: pd.DataFrame | None = tabulate_stages(exhibit, self._runs)
        self.verdicts: list[Verdict] = judge(exhibit, self._runs)
        cost = Cost(run.sweep, run.choice.scale, states)
        self.claims_data: pd.DataFrame = claims_data(exhibit, self.verdicts, states, cost)
        self.table, self.claims = table_grid(self.data), claims_grid(self.claims_data)
        self.cells = cells_grid(self._runs)
        """What the names of rows and lines stand for."""

    @property
    def trained(self) -> bool:
        """Whether there is a run of the sweep itself."""
        return any(result.task.seed is not None for result in self._own)

    @property
    def matrix(self) -> tuple[str, Grid] | None:
        """The paper's table with our numbers beside its own, with a title; None where it has none."""
        if self.exhibit.stages is not None and self.stages_data is not None:
            return self.exhibit.stages.title, stages_grid(self.stages_data)
        grid = matrix_grid(self.exhibit, self.data, self._runs)
        return None if grid is None else ("The paper's numbers, and ours", grid)

    @property
    def drawing(self) -> str | None:
        """The curves of training as SVG; None if nothing was trained."""
        return draw_curves(self.exhibit, self._runs)

    @property
    def caption(self) -> str:
        """Caption of the drawing."""
        lines = "; ".join(", ".join(cells) for cells in panels_of(self.exhibit, self._runs))
        first = "First row: the paper's points, read off by eye. " if has_paper_row(self.exhibit) else ""
        return (
            f"{first}Lines of ours: {lines}. They are means over seeds and, but for validation, five "
            "iterations; bands reach from the lowest to the highest seed; a cross marks where success in "
            "training fell below half of its best for good."
        )

    def notes(self) -> list[str]:
        """Return the notes below the table."""
        lines = []
        if self._missing:
            are = "task is" if self._missing == 1 else "tasks are"
            lines.append(f"unfinished: {self._missing} {are} missing")
        trained = self.data.loc[self.data["design"] != "control", "seeds"]
        if max(trained, default=0) == 1:
            lines.append("one seed: intervals speak of these runs, not of the method, and nothing is decided")
        if self.exhibit.source:
            lines.append(f"paper: {self.exhibit.source}")
        lines += paper_notes(self.data.loc[self.data["paper"].notna(), "test"])
        lines += dict.fromkeys(
            f"{task.game} {task.cell}: the same runs as {source.cell} of the sweep {source.sweep}"
            for task, source in self._borrowed
            if task.seed is not None
        )
        lines += self._added_seeds()
        lines += self._other_sampling()
        early = [r for r in self._results if r.ended]
        lines += [f"{r.task.game} {r.task.cell} seed {r.task.seed} ended early: {r.ended}" for r in early]
        return lines

    def _added_seeds(self) -> list[str]:
        games = {column.train for column in self.exhibit.columns}
        cells = [
            f"{game} {cell} ({', '.join(str(count or 'unknown') for count in counts)})"
            for (game, cell), counts in self._runs.extended(games).items()
        ]
        notes = []
        if cells:
            listed = ", ".join(cells)
            notes = [f"p-values are doubled each time that seeds were added after verdicts: {listed}"]
        replaced = [
            name.replace("/", " ") for name in self._run.sweep.replaced if name.partition("/")[0] in games
        ]
        if replaced:
            notes.append(f"p-values are doubled each time that runs were replaced: {', '.join(replaced)}")
        return notes

    def _other_sampling(self) -> list[str]:
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
        """Return the paper's table, claims, numbers and notes as Markdown."""
        parts = [f"**{self.exhibit.title}** (scale {self._run.choice.name})\n"]
        for each in (self.matrix, ("Claims", self.claims) if self.verdicts else None):
            if each is not None:
                parts += [f"{each[0]}:\n", markdown(each[1])]
        parts += ["Numbers:\n", markdown(self.table)]
        parts.append("".join(f"{note[0].upper()}{note[1:]}.\n" for note in self.notes()))
        return "\n".join(part for part in parts if part)

    def write(self, folder: Path) -> list[Path]:
        """Write all files and return them: results below a folder, the table there or beside the runs.

        The table is kept with the results that it can be made of again. With agents beside it, it cannot;
        and one that leaves out some of them would take the place of a better one.
        """
        archive = self._run.archive(folder)
        add_to_archive(archive, self._own)
        drawing = self.drawing
        name, is_kept = self.exhibit.name, self._results and not self._beside and not self._leaves_out(folder)
        base = str(archive.parent / name if is_kept else self._run.root / f"{name}-{self._run.choice.name}")
        Path(base).parent.mkdir(parents=True, exist_ok=True)
        texts = {
            Path(base + ".csv"): self.data.to_csv(index=False),
            Path(base + "-claims.csv"): self.claims_data.to_csv(index=False),
            Path(base + ".md"): self.markdown(),
            **({} if drawing is None else {Path(base + ".svg"): drawing}),
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


def kept_reports(folder: Path) -> list[Report]:
    """Return the tables and figures at laptop scale whose sweeps have results in a folder."""
    reports = []
    for name in bundled_reproductions():
        exhibit = load_reproduction(name)
        archive = read_archive(archive_path(folder, exhibit.sweep, "laptop"))
        if any(r.task.seed is not None for r in archive):
            reports.append(stored_report(folder, name))
    return [report for report in reports if report.trained]


def stored_report(folder: Path, name: str) -> Report:
    """Return a table or figure at laptop scale of the results in a folder."""
    exhibit = load_reproduction(name)
    choice = Choice(games=tuple(games_of(exhibit, "laptop")))
    nowhere = folder / "no-runs"  # only what is kept
    run = SweepRun(exhibit.load_sweep(), choice, nowhere, None, kept=folder)
    return Report(exhibit, run.with_kept_seeds())
