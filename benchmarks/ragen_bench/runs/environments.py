"""Record in ``environment.json`` the versions that a run was begun with, and those after an upgrade."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragen_agents.run_files import ENVIRONMENT
from ragen_agents.run_files.files import write_atomically
from ragen_bench.config.run_config import EditedFileError, digest_of
from ragen_envs.errors import RagenError

_LATER: Final = "continued_with"
"""Key of the environments with other versions that played later episodes; omitted if there are none."""
_DIGEST: Final = "digest"
"""Key of the hash of everything else; runs of older versions lack it."""
_LOG: Final = logging.getLogger("ragen.runs")


def write_environments(folder: Path, environments: Sequence[Mapping[str, Any]]) -> None:
    """Write the environments of a run, the first one first."""
    first, *later = environments
    described = {**first, _LATER: later} if later else {**first}
    described[_DIGEST] = digest_of(described)
    write_atomically(folder / ENVIRONMENT, json.dumps(described, indent=1) + "\n")


def check_environment(folder: Path) -> None:
    """Raise `EditedFileError` if the environment of a run was edited."""
    path = folder / ENVIRONMENT
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # the versions are unknown, which a note says
    if isinstance(described, dict) and _DIGEST in described:
        digest = described.pop(_DIGEST)
        if digest != digest_of(described):
            raise EditedFileError(f"{path} was edited: its digest does not match its contents")


def continue_with(folder: Path, now: Mapping[str, Any]) -> None:
    """Record the environment that continues a run, and warn, if its versions are not those of the last one.

    A run whose environment cannot be read is left as it is.
    """
    try:
        environments = _read(folder)
    except RagenError:
        return
    changed = _changes([environments[-1], now])
    if changed:
        what = ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())
        _LOG.warning("%s continues with other versions, which may change replies: %s", folder, what)
        write_environments(folder, [*environments, now])


def versions_of(folder: Path) -> dict[str, str]:
    """Return the versions of a run's packages and of Python, several in their order after an upgrade."""
    environments = _read(folder)
    first = _versions(environments[0])
    return first | {name: ", ".join(versions) for name, versions in _changes(environments).items()}


def version_notes(folder: Path) -> list[str]:
    """Return a note that names the packages of which a run has several versions, or nothing."""
    try:
        changed = _changes(_read(folder))
    except RagenError:
        return []
    named = "; ".join(f"{name} {', '.join(versions)}" for name, versions in changed.items())
    return [f"played with several versions: {named}"] if named else []


def _changes(environments: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the versions of each package that has several, each once; "none" where it is missing."""
    versions = [_versions(environment) for environment in environments]
    names = dict.fromkeys(name for known in versions for name in known)
    every = {name: list(dict.fromkeys(v.get(name, "none") for v in versions)) for name in names}
    return {name: known for name, known in every.items() if len(known) > 1}


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    return {**environment["packages"], "python": environment["python"]}


def _read(folder: Path) -> list[dict[str, Any]]:
    """Return the environments of a run, at least one, without machine or paths being looked at."""
    path = folder / ENVIRONMENT
    try:
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        described.pop(_DIGEST, None)
        environments = [described, *described.pop(_LATER, [])]
        for environment in environments:
            if not all(isinstance(version, str) for version in _versions(environment).values()):
                raise ValueError("a version is not a string")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RagenError(f"'{path}' cannot be read: {error}") from error
    return environments
