"""The options that ``ragen train-sweep`` and ``ragen reproduce`` share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast, get_args

import typer

from ragen_bench.cli.options import RAY, BackendOption

if TYPE_CHECKING:
    from ragen_bench.training_sweeps.sweep_run import Backend, SweepRun

_SEEDS = 6  # with five, no p-value is small enough for seven claims

DryRunOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only show which tasks are finished and how long the others will take."
    ),
]


@dataclass(frozen=True)
class SweepOptions:
    """How large a sweep is, and where it is recorded."""

    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Seeds per cell.", show_default="6, with --quick 1"),
    ] = None
    scale: Annotated[
        str,
        typer.Option(
            help="laptop: the starter model of version 0.2; paper: Qwen2.5-0.5B-Instruct in vLLM."
        ),
    ] = "laptop"
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke test: few iterations and one seed.")
    ] = False
    model: Annotated[
        str | None,
        typer.Option(
            help="Initial model instead of the scale's: smollm2, a folder, FILE.gguf, or hf:NAME."
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of all sweeps.", show_default="runs/sweeps"),
    ] = None


@dataclass(frozen=True)
class PlacementOptions:
    """Where the tasks of a sweep run, and how many at a time."""

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
    from ragen_envs.errors import RagenError

    sweep = load_sweep(name)
    if size.scale not in get_args(ScaleName):
        raise RagenError(
            f"unknown scale '{size.scale}'; known are {', '.join(get_args(ScaleName))}"
        )
    scale = cast("ScaleName", size.scale)
    check_placement(placement.backend, placement.gpus)
    model = size.model
    if model is not None and is_model_path(model):
        model = str(Path(model).resolve())  # tasks run in folders of their own
    seeds = size.seeds or (1 if size.quick else _SEEDS)
    choice = Choice(scale, size.quick, seeds, tuple(games or ()), model)
    root, backend = size.out or DEFAULT_ROOT, cast("Backend", placement.backend)
    return SweepRun(sweep, choice, root, placement.workers, backend, placement.gpus)
