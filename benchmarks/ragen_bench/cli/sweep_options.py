"""Options of sweeps, which ``ragen sweep`` and ``ragen reproduce`` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

if TYPE_CHECKING:
    from ragen_bench.sweeps.run import SweepRun

Game: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Train on this game instead of the sweep's; may be repeated."),
]
Seeds: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Seeds of each cell.  [default: 3, quick 1]")
]
Scale: TypeAlias = Annotated[
    str,
    typer.Option(help="laptop: the starter model; paper: Qwen2.5-0.5B-Instruct in vLLM."),
]
Quick: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="Few iterations, one seed: a look at the machinery.")
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Begin from this model instead of the scale's: a folder, or hf:NAME."),
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of all sweeps.  [default: runs/sweeps]")
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tasks at the same time.  [default: one a processor]"),
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Only show what there is and what the rest will take.")
]

_SEEDS = 3


def make_run(
    name: str,
    game: list[str] | None,
    seeds: int | None,
    scale: str,
    quick: bool,
    model: str | None,
    out: Path | None,
    workers: int | None,
) -> "SweepRun":
    """Return the run that a command line asks for; raises `RagenError` if it asks for no such thing."""
    from ragen_bench.sweeps.run import DEFAULT_ROOT, SweepRun, default_workers
    from ragen_bench.sweeps.schema import ScaleName, load_sweep
    from ragen_bench.sweeps.tasks import Choice
    from ragen_envs.errors import RagenError

    sweep = load_sweep(name)
    if scale not in ("laptop", "paper"):
        raise RagenError(f"unknown scale '{scale}'; known are laptop, paper")
    if model is not None and Path(model).is_dir():
        model = str(Path(model).resolve())  # tasks run in folders of their own
    choice = Choice(
        cast("ScaleName", scale), quick, seeds or (1 if quick else _SEEDS), tuple(game or ()), model
    )
    return SweepRun(sweep, choice, out or DEFAULT_ROOT, workers or default_workers())
