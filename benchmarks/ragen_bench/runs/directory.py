"""Write and read run directories: config, environment and every episode."""

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic, cast

from ragen_agents.policies.endpoint.settings import ADDRESSES
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.rollout import Episode, EpisodeKey, MatchKey, MatchRecord
from ragen_agents.run_files import CONFIG, ENVIRONMENT
from ragen_agents.run_files.files import ResourceContext, exclusive_lock, write_atomically, writing
from ragen_agents.run_files.records import describe_provenance
from ragen_agents.run_files.yaml_files import differences_of, dump_yaml
from ragen_bench.config.agents import folder_of
from ragen_bench.config.run_config import AnyConfig, ConfigT, MatchConfig, RunConfig, load_config
from ragen_bench.runs.checksums import (
    CHECKSUMS,
    append_checksums,
    check_lines,
    read_checksums,
    repair_checksums,
)  # fmt: skip
from ragen_bench.runs.environments import check_environment, continue_with, write_environments
from ragen_bench.runs.records import Records, WrongEpisodeError, encode_episode, read_records
from ragen_envs.errors import RagenError

EPISODES: Final = "episodes.jsonl"
USAGE: Final = "usage.jsonl"
"""File of what was spent at endpoints, a reply a line."""
_LOG: Final = logging.getLogger("ragen.runs")


class RunDirectory(ResourceContext, Generic[ConfigT]):
    """A run that is being played; a context manager that holds the directory's lock.

    Entering makes the directory, or checks that it holds the same run, and cuts a torn last line off.
    A run without an episode is replaced.
    """

    def __init__(self, folder: Path, config: ConfigT) -> None:
        self.folder = folder
        self.config = config
        self.done: set[EpisodeKey | MatchKey] = set()
        self._broken = self._moved = False

    def _open(self, resources: ExitStack) -> None:
        with writing(self.folder):
            self._check_contents()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = resources.enter_context(exclusive_lock(self.folder / EPISODES))
            self._start()

    def append(self, episodes: Sequence[Episode | MatchRecord]) -> int:
        """Write episodes that are not there yet, and return how many; they are on the disk then.

        After a failure nothing more is written, so that lines and their hashes stay in step.
        """
        if self._broken:
            raise RagenError(f"'{self.folder}' could not be written; the same command resumes the run")
        new = [episode for episode in episodes if episode.key not in self.done]
        if new and self._moved:
            self._write_config()
        lines = [encode_episode(episode) for episode in new]
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
            append_checksums(self.folder, lines)
        except OSError as error:
            self._broken = True
            raise RagenError(
                f"'{self.folder}' cannot be written: {error.strerror}; the same command resumes the run"
            ) from error
        self.done.update(episode.key for episode in new)
        return len(new)

    def _check_contents(self) -> None:
        if not self.folder.is_dir() or (self.folder / CONFIG).exists():
            return
        # What a run leaves that was killed before its config was in place.
        own = {EPISODES, ENVIRONMENT, *(Path(n).stem + ".tmp" for n in (CONFIG, ENVIRONMENT))}
        paths = list(self.folder.iterdir())
        if any(p.name not in own or (p.name == EPISODES and p.stat().st_size) for p in paths):
            raise RagenError(f"'{self.folder}' is not a run directory and not empty; choose another --out")

    def _start(self) -> None:
        started = (self.folder / CONFIG).exists()
        find = check_run if started else read_episodes
        records = find(self.folder, self.config)
        # Edits are found before anything is overwritten.
        check_lines(self.folder, records.records, read_checksums(self.folder) or ())
        if records.records:
            check_environment(self.folder)
        self.done = {episode.key for episode in records.episodes}
        if started and (records.records or (self.folder / USAGE).exists()):
            self._join_addresses()
        if not records.records:
            write_environments(self.folder, [self._environment()])
            self._write_config()
        elif not self.done.issuperset(self.config.keys):
            continue_with(self.folder, self._environment())
        self._file.truncate(records.size)
        repair_checksums(self.folder, records.records)

    def _environment(self) -> dict[str, Any]:
        names = (agent.name for agent in self.config.agents if not agent.live)
        models = {name: folder for name in names if (folder := folder_of(name)) is not None}
        return describe_provenance(models)

    def _join_addresses(self) -> None:
        """Keep the addresses of a run that continues at another one."""
        old, config = load_config(self.folder), cast("Any", self.config)
        if [agent.name for agent in old.agents] != [agent.name for agent in self.config.agents]:
            return
        agents = []
        for before, now in zip(old.agents, self.config.agents, strict=True):
            if before.endpoint is not None and now.endpoint is not None:
                known = [before.endpoint.base_url, *before.endpoint.also_at]
                address = now.endpoint.base_url
                if address not in known:
                    _LOG.warning("'%s' was played at %s and continues at %s",
                                 self.folder, known[-1], address)  # fmt: skip
                    known, self._moved = [*known, address], True
                joined = {"base_url": known[0], "also_at": known[1:]}
                now = now.model_copy(update={"endpoint": now.endpoint.model_copy(update=joined)})
            agents.append(now)
        self.config = config.model_copy(update={"agents": agents})

    def _write_config(self) -> None:
        self._moved = False
        data = {**self.config.model_dump(mode="json"), "digest": self.config.digest}
        write_atomically(self.folder / CONFIG, dump_yaml(data))


def check_run(folder: Path, config: AnyConfig) -> Records[Any]:
    """Return the episodes of a directory that must hold a run with this config; reads only.

    Without an episode it may hold any run, because nothing is lost with it.
    """
    old = load_config(folder)
    records = read_episodes(folder, old)
    if not records.records and not records.torn:
        return records
    _check_agents(folder, old, config)
    same_agents = old.model_copy(update={"agents": config.agents})
    differs = differences_of(_agents(old), _agents(config)) or differences_of(
        same_agents.model_dump(mode="json"), config.model_dump(mode="json")
    )
    if differs is not None:
        raise RagenError(f"'{folder}' holds another run: {differs}; choose another --out")
    check_keys(folder, records, config)
    return records


def check_keys(folder: Path, records: Records[Any], config: AnyConfig) -> None:
    """Raise `WrongEpisodeError` if an episode is not one of the config's."""
    expected = set(config.keys)
    for record in records.records:
        key = record.episode.key
        if key not in expected:
            raise WrongEpisodeError(f"{folder / EPISODES} line {record.line} is not of this run: {key}")


def _check_agents(folder: Path, old: AnyConfig, new: AnyConfig) -> None:
    if type(old) is not type(new):
        return
    before, now = ([agent.name for agent in config.agents] for config in (old, new))
    if before != now:
        advice = "choose another --out"
        if isinstance(old, RunConfig) and now[-1] not in before:
            advice += f", then compare them: ragen compare {folder}:{before[-1]} NEW:{now[-1]}"
        raise RagenError(
            f"'{folder}' has the agents {', '.join(before)}, but this command names {', '.join(now)}; "
            f"{advice}"
        )
    _check_weights(folder, old, new)


def _check_weights(folder: Path, before: AnyConfig, now: AnyConfig) -> None:
    pairs = zip(before.agents, now.agents, strict=True)
    changed = [new for old, new in pairs if old.weights != new.weights]
    if changed:
        is_code = all(agent.live or is_python_agent(agent.name) for agent in changed)
        raise RagenError(
            f"'{folder}' holds another run: the {'sources' if is_code else 'files'} of "
            f"{', '.join(agent.name for agent in changed)} have changed since it was started; choose another "
            "--out"
        )


def _agents(config: AnyConfig) -> dict[str, Any]:
    """Return the agents of a config as fields, so that a difference names one of theirs."""
    without = {"endpoint": ADDRESSES}
    dumped = (agent.model_dump(mode="json", exclude=without) for agent in config.agents)
    return {f"agents[{i}]": agent for i, agent in enumerate(dumped)}


def read_episodes(folder: Path, config: AnyConfig) -> Records[Any]:
    """Read the episodes of a run, or its matches; see ``read_records``."""
    return read_records(folder / EPISODES, MatchRecord if isinstance(config, MatchConfig) else Episode)


def read_own_episodes(folder: Path, config: AnyConfig, checked: bool = True) -> Records[Any]:
    """Read the episodes of a run, or its matches, in the config's order, whatever their order in the file.

    Raises:
        RagenError: As of ``read_records``, or an episode is not one of the config's.
        EditedFileError: Something was changed after it was written.
    """
    # The run may continue meanwhile: hashes that were read before need episodes.
    written = read_checksums(folder) if checked else None
    read = read_episodes(folder, config)
    if checked:
        check_lines(folder, read.records, written or ())
        check_environment(folder)
    check_keys(folder, read, config)
    places = {key: place for place, key in enumerate(config.keys)}
    records = sorted(read.records, key=lambda record: places[record.episode.key])
    return replace(read, records=records)


def missing_agents(folder: Path, config: AnyConfig, retry_errors: bool = False) -> list[str]:
    """Return the agents that lack episodes, in the run's order; reads only."""
    episodes = check_run(folder, config).episodes if (folder / CONFIG).exists() else []
    done = {e.key for e in episodes if not (retry_errors and e.is_failure)}
    lacking = {agent for key in config.keys if key not in done for agent in key.agents}
    return [agent.name for agent in config.agents if agent.name in lacking]


ERRORS: Final = "errors.jsonl"
"""Episodes that ended in an error or exceeded the context and were played again, as they were written."""


def set_errors_aside(folder: Path, config: AnyConfig) -> int:
    """Move the episodes that failed to ``errors.jsonl``, and return how many there were.

    Nothing is lost if it is killed: lines are in the other file before they leave the first one, and may
    then be there twice.
    """
    if not (folder / CONFIG).exists():
        return 0
    path = folder / EPISODES
    with writing(folder), exclusive_lock(path):
        read = check_run(folder, config)
        repair_checksums(folder, read.records)
        failed = {record.line for record in read.records if record.episode.is_failure}
        if failed:
            _part(path, read, failed)
            known = {record.sha256 for record in read.records}
            repair_checksums(folder, check_run(folder, config).records, known)
    return len(failed)


def _part(path: Path, read: Records[Any], failed: set[int]) -> None:
    lines = path.read_bytes()[: read.size].splitlines(keepends=True)
    with path.with_name(ERRORS).open("ab") as file:
        file.write(b"".join(line for number, line in enumerate(lines, 1) if number in failed))
        file.flush()
        os.fsync(file.fileno())
    # Without hashes a run is whole; with those of other lines it would count as changed.
    path.with_name(CHECKSUMS).unlink()
    write_atomically(path, b"".join(line for number, line in enumerate(lines, 1) if number not in failed))
