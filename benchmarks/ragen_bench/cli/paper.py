"""``ragen train-sweep`` and ``reproduce``: many training runs, and the tables of the paper."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast, get_args

import typer

from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.options import RAY, BackendOption, FormatOption, WideOption, expand_groups
from ragen_bench.console.formats import Format, plain_rows, print_table
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.reproduction.reproduction_report import Report
    from ragen_bench.training_sweeps.sweep_run import Backend, SweepRun

_SEEDS = 6  # with five, no p-value is small enough for seven claims

DryRunOption: TypeAlias = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show which tasks are finished and how long the others will take."),
]


@dataclass(frozen=True)
class SweepOptions:
    """Size of a sweep, and the folder of its records."""

    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Seeds per cell.", show_default="6, with --quick 1")
    ] = None
    scale: Annotated[
        str,
        typer.Option(help="laptop: small models on CPUs; paper: Qwen2.5-0.5B-Instruct in vLLM."),
    ] = "laptop"
    quick: Annotated[bool, typer.Option("--quick", help="A smoke test: few iterations and one seed.")] = False
    model: Annotated[
        str | None,
        typer.Option(help="Initial model instead of the scale's: smollm2, a folder, FILE.gguf, or hf:NAME."),
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of all sweeps.", show_default="runs/sweeps")
    ] = None


@dataclass(frozen=True)
class PlacementOptions:
    """The place of a sweep's tasks, and their number at a time."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of concurrent tasks.",
            show_default="one per CPU; one at the paper's scale; with Ray, as many as fit",
        ),
    ] = None
    backend: BackendOption = "local"
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="N", rich_help_panel=RAY,
            help="GPUs that each task requests from Ray: a whole number, or a fraction of one.",
            show_default="1 at the paper's scale, otherwise 0",
        ),
    ] = None  # fmt: skip


def make_run(
    name: str, games: list[str] | None, size: SweepOptions, placement: PlacementOptions
) -> "SweepRun":
    """Return the sweep run that a command line asks for."""
    from ragen_agents.model_files.source import is_model_path
    from ragen_bench.evaluation.ray_cluster import check_placement
    from ragen_bench.training_sweeps.sweep_config import ScaleName, load_sweep
    from ragen_bench.training_sweeps.sweep_run import DEFAULT_ROOT, SweepRun
    from ragen_bench.training_sweeps.tasks import Choice

    sweep = load_sweep(name)
    if size.scale not in get_args(ScaleName):
        raise RagenError(f"unknown scale '{size.scale}'; known are {', '.join(get_args(ScaleName))}")
    scale = cast("ScaleName", size.scale)
    check_placement(placement.backend, placement.gpus)
    model = size.model
    if model is not None and is_model_path(model):
        model = str(Path(model).resolve())  # tasks run in folders of their own
    seeds = size.seeds or (1 if size.quick else _SEEDS)
    choice = Choice(scale, size.quick, seeds, tuple(games or ()), model)
    root, backend = size.out or DEFAULT_ROOT, cast("Backend", placement.backend)
    return SweepRun(sweep, choice, root, placement.workers, backend, placement.gpus)


UNFINISHED = 1
"""Exit code where tasks are not done."""


@expand_groups
def train_sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="algorithm, clip-kl, collapse, diversity, filter, freshness, gradient, "
            "granularity, information, lora, pretrained, ragen2, ragen2-main, ragen2-regularizers, "
            "reasoning, regime, risk, sft, slip, thoughts, or the path of a YAML file.",
        ),
    ],
    game: Annotated[
        list[str] | None, typer.Option(help="Train on this game instead of the sweep's; may be repeated.")
    ] = None,
    *,
    size: SweepOptions,
    placement: PlacementOptions,
    dry_run: DryRunOption = False,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
) -> None:
    """Train every cell of a sweep with several seeds and test the resulting models.

    Each cell and seed is a task with its own folder. The same command skips
    finished tasks and resumes those that failed or were killed.
    """
    run = make_run(name, game, size, placement)
    if dry_run:
        print_cost(run, style, wide)
        return
    if style is Format.TABLE:
        print_cost(run, style, wide)
    finished = finish(run)
    _print_results(run, style, wide)
    if not finished:
        raise typer.Exit(UNFINISHED)


def _print_results(run: "SweepRun", style: Format, wide: bool) -> None:
    """Print the results so far: validation in each run, and each cell on each test against its reference."""
    from ragen_bench.console.tables import Table
    from ragen_bench.reproduction.reproduction_config import Column
    from ragen_bench.reproduction.run_measures import Runs
    from ragen_bench.reproduction.success_table import (
        table_grid,
        tabulate,
        tabulate_validation,
        validation_grid,
    )

    states = run.states()
    pairs = dict.fromkeys((s.task.game, test) for s in states for test in s.task.suite.tasks)
    columns = [Column(train=game, test=test) for game, test in pairs]
    runs = Runs(run.sweep, [s.result for s in states if s.result is not None])
    data = tabulate(columns, {}, runs)
    grid = table_grid(data).without("paper\n%")
    title = f"{run.sweep.name} {run.sweep.version}, {run.choice.name}"
    validation = tabulate_validation(runs)
    if style in (Format.TABLE, Format.MARKDOWN) and len(validation):
        table = Table.of(validation, {f"{title}, validation": validation_grid(validation)})
        print_table(table, style, wide=wide)
        print()
    print_table(Table.of(data, {title: grid}), style, {"validation": plain_rows(validation)}, wide)


def print_cost(run: "SweepRun", style: Format, wide: bool) -> None:
    """Print what exists and how long the rest will take."""
    facts = {"sweep": run.sweep.name, "scale": run.choice.name, "workers": run.workers}
    print_table(run.cost(), style, facts, wide)


def finish(run: "SweepRun") -> bool:
    """Run the remaining tasks and return whether all are done; Ctrl-C ends this process."""
    try:
        broken = run.finish()
    except KeyboardInterrupt:
        raise InterruptedCommandError("the same command resumes the sweep") from None
    if broken:
        print(
            f"not done: {len(broken)} of the tasks; the same command retries them. Logs: "
            + " ".join(str(run.root / task.path / "log.txt") for task in broken),
            file=sys.stderr,
        )
    return not broken


@expand_groups
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table2 to table4, figure5 to figure11, collapse, filter-lake, sft, lora, risk, thoughts, "
            "ragen2-main, ragen2-filters, ragen2-keep, ragen2-slip, ragen2-regularizers, ragen2-length, "
            "ragen2-information, ragen2-gradient, or all.",
        ),
    ],
    *,
    size: SweepOptions,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of stored results: read first, then updated.")
    ] = Path("benchmarks/results"),
    placement: PlacementOptions,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Add the agents of this run of ragen bench, such as an endpoint, as zero-shot rows; "
            "may be repeated.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    run: Annotated[
        bool,
        typer.Option(
            help="Run the missing tasks, or only show finished ones, with all their seeds; the tables in "
            "--results are written either way."
        ),
    ] = True,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
) -> None:
    """Run or reuse a sweep and print the paper's numbers beside ours, with a verdict on each claim."""
    from ragen_bench.reproduction.reproduction_config import (
        bundled_reproductions,
        games_of,
        load_reproduction,
    )
    from ragen_bench.reproduction.success_table import read_beside

    if beside and name == "all":
        raise RagenError("--beside is for one table; give its name instead of all")
    if name == "all" and style in (Format.CSV, Format.JSON):
        raise RagenError(
            f"--format {style} is for one table; give its name instead of all, or read the files in {results}"
        )
    finished = True
    for each in bundled_reproductions() if name == "all" else [name]:
        exhibit = load_reproduction(each)
        games = games_of(exhibit, size.scale)
        sweep_run = replace(make_run(exhibit.sweep, games, size, placement), kept=results)
        if not run and not size.quick and size.seeds is None:
            sweep_run = sweep_run.with_kept_seeds()
        sweep_run.check_kept()
        if not run and not dry_run and not _anything_stored(sweep_run, results):
            if not any(sweep_run.archive(results).parent.glob("*.jsonl")):
                raise RagenError(
                    f"there are no stored results in '{results}'; run the command in a checkout of "
                    "ragen-suite, or name the folder with --results"
                )
            message = (
                f"there are no stored results of the sweep '{exhibit.sweep}' in '{results}'; without "
                "--no-run it is run"
            )
            if name != "all":
                raise RagenError(message)
            print(f"note: {message}", file=sys.stderr)
            continue
        others = read_beside(beside or (), exhibit, sweep_run.choice)
        if dry_run:
            print_cost(sweep_run, style, wide)
            continue
        if run:
            if style is Format.TABLE:
                print_cost(sweep_run, style, wide)
            finished &= finish(sweep_run)
        from ragen_bench.reproduction.reproduction_report import Report

        report = Report(exhibit, sweep_run, others)
        _print(report, style, wide)
        for path in report.write(results):
            print(path, file=sys.stderr)
    if not finished:
        raise typer.Exit(UNFINISHED)


def _anything_stored(sweep_run: "SweepRun", results: Path) -> bool:
    shared = any(s.result for s in sweep_run.states() if s.task.seed is not None)
    return shared or sweep_run.archive(results).exists()


def _print(report: "Report", style: Format, wide: bool) -> None:
    if style is Format.MARKDOWN:
        print(report.markdown())
        return
    from ragen_bench.console.tables import Table

    claims = report.claims_data
    facts = {"claims": plain_rows(claims)}
    if report.stages_data is not None:
        facts["stages"] = plain_rows(report.stages_data)
    title = report.exhibit.title
    table = Table.of(report.data, {title: report.table}, report.notes())
    if style is not Format.TABLE:
        print_table(table, style, facts, wide)
        return
    if (matrix := report.matrix) is not None:
        print_table(Table.of(report.data, {f"{title}: {matrix[0]}": matrix[1]}), style, wide=wide)
        print()
    if report.verdicts:
        print_table(Table.of(claims, {"Claims": report.claims}), style, wide=wide)
        print()
    print_table(table, style, wide=wide)
