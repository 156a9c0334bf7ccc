"""Replay records on a Ray cluster."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ragen_bench.config.run_config import AnyConfig
from ragen_bench.evaluation.ray_cluster import RayCluster
from ragen_bench.runs.records import Record
from ragen_bench.verification.run_verification import MismatchError, verify_record

_CHUNK: Final = 128
"""Records of a call."""


def replay_on_ray(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> Iterator[None]:
    """Replay records on the cluster at ``RAY_ADDRESS``, or on the CPUs of this machine.

    Raises:
        MismatchError: At the first record that differs.
        RagenError: There is no such cluster, or it lost the same records too often.
    """
    chunks = (records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK))
    calls = ((what, list(chunk), config) for chunk in chunks)
    for mismatches in RayCluster(1, 0).map(_mismatches, calls):
        for mismatch in mismatches:
            if mismatch is not None:
                raise MismatchError(mismatch)
            yield


def _mismatches(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> list[str | None]:
    """Return what differs in each record, up to the first that does."""
    found: list[str | None] = []
    for record in records:
        try:
            verify_record(what, record, config)
        except MismatchError as error:
            return [*found, str(error)]
        found.append(None)
    return found
