"""Options of sweeps, which ``ragen sweep`` and ``ragen reproduce`` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast, get_args

import typer

if TYPE_CHECKING:
    from ragen_bench.sweeps.sweep_run import SweepRun

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
    typer.Option(
        min=1,
        metavar="N",
        help="Tasks at the same time.  [default: one a processor, one at the paper's scale, as many as fit "
        "on Ray]",
    ),
]
On: TypeAlias = Annotated[
    str,
    typer.Option(
        "--on", metavar="local|ray",
        help="ray: on the cluster that RAY_ADDRESS names, or on this machine.",
    ),
]  # fmt: skip
Gpus: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="N",
        help="GPUs that each task declares to Ray: a whole number, or a share of one.  "
        "[default: 1 at the paper's scale, else 0]",
    ),
]  # fmt: skip
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
    place: str,
    gpus: float | None,
) -> "SweepRun":
    """Return the run that a command line asks for; raises `RagenError` if it asks for no such thing."""
    from ragen_bench.sweeps.sweep_config import ScaleName, load_sweep
    from ragen_bench.sweeps.sweep_run import DEFAULT_ROOT, Place, SweepRun
    from ragen_bench.sweeps.tasks import Choice
    from ragen_envs.errors import RagenError

    sweep = load_sweep(name)
    if place not in get_args(Place):
        raise RagenError(f"--on is '{place}', but must be local or ray")
    where = cast("Place", place)
    if gpus is not None and where == "local":
        raise RagenError(f"--gpus is {gpus:g}, but is only for --on ray: tasks declare them to Ray")
    if scale not in ("laptop", "paper"):
        raise RagenError(f"unknown scale '{scale}'; known are laptop, paper")
    if model is not None and Path(model).is_dir():
        model = str(Path(model).resolve())  # tasks run in folders of their own
    choice = Choice(
        cast("ScaleName", scale), quick, seeds or (1 if quick else _SEEDS), tuple(game or ()), model
    )
    return SweepRun(sweep, choice, out or DEFAULT_ROOT, workers, where, gpus)
