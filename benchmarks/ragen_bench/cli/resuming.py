"""The option ``--no-resume``."""

from pathlib import Path

from ragen_agents.run_files import CONFIG
from ragen_envs.game.errors import RagenError


def check_resume(folder: Path, resume: bool) -> None:
    """Raise `RagenError` if a run directory exists and must not be resumed."""
    if not resume and (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' holds a run already; omit --no-resume to resume it")
