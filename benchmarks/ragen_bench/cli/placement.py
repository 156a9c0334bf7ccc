"""Where work is done: in this process, or on a Ray cluster."""

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from ragen_envs.game.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.verification.run_verification import Replay

RAY: Final = "Ray"

BackendOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="local|ray",
        rich_help_panel=RAY,
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


def replayer(backend: str) -> "Replay":
    """Return what replays records there.

    Raises:
        RagenError: ``--backend`` is wrong.
    """
    check_placement(backend, None)
    if backend == "ray":
        from ragen_bench.verification.ray_replay import replay_on_ray

        return replay_on_ray
    from ragen_bench.verification.run_verification import replay_here

    return replay_here
