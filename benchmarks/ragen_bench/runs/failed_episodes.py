"""Set aside the episodes that failed, so that a run can play them again."""

import os
from pathlib import Path
from typing import Any, Final

from ragen_agents.run_files import CONFIG
from ragen_agents.run_files.files import exclusive_lock, write_atomically
from ragen_bench.config.run_config import AnyConfig
from ragen_bench.runs.checksums import CHECKSUMS, Checksums
from ragen_bench.runs.directory import EPISODES, check_run
from ragen_bench.runs.records import Records
from ragen_envs.game.errors import RagenError

ERRORS: Final = "errors.jsonl"
"""Episodes that ended in an error or exceeded the context and were played again, as they were written."""


def set_errors_aside(folder: Path, config: AnyConfig) -> int:
    """Move the episodes that failed to ``errors.jsonl``, and return how many there were.

    Nothing is lost if it is killed: lines are in the other file before they leave the first one, and may
    then be there twice.

    Args:
        folder: The run directory; without a run in it, nothing is done.
        config: The run's.

    Raises:
        RagenError: The directory holds another run, an episode was changed, or it cannot be written.
    """
    if not (folder / CONFIG).exists():
        return 0
    path = folder / EPISODES
    try:
        with exclusive_lock(path):
            found = check_run(folder, config)
            checksums = Checksums(folder)
            checksums.repair(found.records)
            failed = {record.line for record in found.records if record.episode.is_failure}
            if failed:
                _part(path, found, failed)
                checksums.repair(check_run(folder, config).records)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RagenError(f"'{folder}' cannot be written: {reason}") from error
    return len(failed)


def _part(path: Path, found: Records[Any], failed: set[int]) -> None:
    lines = path.read_bytes()[: found.size].splitlines(keepends=True)
    with path.with_name(ERRORS).open("ab") as file:
        file.write(b"".join(line for number, line in enumerate(lines, 1) if number in failed))
        file.flush()
        os.fsync(file.fileno())
    # Without hashes a run is whole; with those of other lines it would count as changed.
    path.with_name(CHECKSUMS).unlink()
    write_atomically(
        path, b"".join(line for number, line in enumerate(lines, 1) if number not in failed)
    )
