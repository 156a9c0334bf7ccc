"""Where work is done: in this process, or on a Ray cluster."""

from typing import Annotated, TypeAlias

import typer

from ragen_envs.errors import RagenError

BackendOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="local|ray",
        help="ray: on the cluster at RAY_ADDRESS, or on this machine if that is not set.",
    ),
]


def check_placement(backend: str, gpus: float | None) -> None:
    """Check the options ``--backend`` and ``--gpus``.

    Raises:
        RagenError: They are wrong.
    """
    if backend not in ("local", "ray"):
        raise RagenError(f"--backend is '{backend}', but must be local or ray")
    if gpus is not None and backend == "local":
        raise RagenError(
            f"--gpus is {gpus:g}, but is only for --backend ray: tasks request GPUs from Ray"
        )
