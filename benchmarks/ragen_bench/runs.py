"""Run directories: what was run, on what, and every episode of it."""

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict

from ragen_agents.rollout import Episode
from ragen_bench.agents import weights_of
from ragen_bench.checksums import Checksums
from ragen_bench.environment import describe_environment
from ragen_bench.records import EpisodeKey, Records, encode_episode, key_of, read_records
from ragen_bench.suites import Suite
from ragen_bench.yaml_files import dump_yaml, load_yaml, validate
from ragen_envs import SUITE_VERSION
from ragen_envs.errors import RagenError

CONFIG: Final = "config.yaml"
ENVIRONMENT: Final = "environment.json"
EPISODES: Final = "episodes.jsonl"


class EditedConfigError(RagenError):
    """A run's config is not what it was when the run began."""


class AgentEntry(BaseModel):
    """An agent of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    """As given on the command line."""
    weights: str | None = None
    """Hash of a local model's files."""


class RunConfig(BaseModel):
    """Everything that decides what a run plays."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    """Version of the directory's layout."""
    suite_version: int = SUITE_VERSION
    """Version of the games and their frozen levels."""
    agents: list[AgentEntry]
    """Who plays, in the order of the table."""
    suite: Suite
    """What is played, with the command line's options applied."""

    @property
    def digest(self) -> str:
        """SHA-256 of the whole config."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def keys(self) -> list[EpisodeKey]:
        """The keys of all episodes of the run, in the order in which they are played."""
        return [
            EpisodeKey(agent.name, task, index, 0)
            for agent in self.agents
            for task in self.suite.tasks
            for index in range(self.suite.episodes)
        ]


def make_config(suite: Suite, agents: Sequence[str]) -> RunConfig:
    """Return the config of a run of agents on a suite."""
    entries = [AgentEntry(name=agent, weights=weights_of(agent)) for agent in agents]
    return RunConfig(agents=entries, suite=suite)


def default_directory(config: RunConfig) -> Path:
    """Return a path under ``runs/`` that depends on the config only, so that a command resumes."""
    names = (agent.name.rstrip("/").split("/")[-1] for agent in config.agents)
    slug = "-".join("".join(c if c.isalnum() or c in "._" else "_" for c in n) for n in names)
    return Path("runs") / f"{config.suite.name}-{slug[:80]}-{config.digest[:8]}"


def load_config(folder: Path) -> RunConfig:
    """Read the config of a run.

    Raises:
        RagenError: There is no run, or it is of another suite version.
        EditedConfigError: Its config was edited.
    """
    path = folder / CONFIG
    if not folder.is_dir():
        raise RagenError(f"there is no run directory '{folder}'")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RagenError(f"'{folder}' is not a run directory: it has no {CONFIG}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RagenError(f"'{path}' cannot be read: {error}") from error
    data = load_yaml(text, str(path), aliases=False)
    version = data.get("suite_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version != SUITE_VERSION:
        raise RagenError(
            f"'{folder}' is a run of suite version {version}, but this is suite version "
            f"{SUITE_VERSION}; results of different versions are not comparable"
        )
    digest = data.pop("digest", None) if isinstance(data, dict) else None
    config = validate(RunConfig, data, str(path))
    if digest != config.digest:
        raise EditedConfigError(f"{path} was edited: its digest is not that of its contents")
    return config


class RunDirectory:
    """A run that is being played; a context manager that holds the directory's lock.

    Entering makes the directory, or checks that it holds the same run, and cuts a torn last line off.

    Raises:
        RagenError: The directory holds something else, is in use, or cannot be written.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder
        self.config = config
        self.done: set[EpisodeKey] = set()

    def __enter__(self) -> Self:
        try:
            self._check_contents()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = (self.folder / EPISODES).open("ab")
            try:
                self._start()
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise RagenError(f"'{self.folder}' cannot be written: {reason}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, episodes: Sequence[Episode]) -> None:
        """Write episodes that are not there yet; they are on the disk when this returns."""
        new = [episode for episode in episodes if key_of(episode) not in self.done]
        lines = [encode_episode(episode) for episode in new]
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._checksums.append(lines)
        except OSError as error:
            raise RagenError(
                f"'{self.folder}' cannot be written: {error.strerror}; the same command goes on"
            ) from error
        self.done.update(key_of(episode) for episode in new)

    def _check_contents(self) -> None:
        if not self.folder.is_dir() or (self.folder / CONFIG).exists():
            return
        # Killed before its config was written, a run leaves no more than an empty file.
        strange = [p for p in self.folder.iterdir() if p.name != EPISODES or p.stat().st_size]
        if strange:
            raise RagenError(
                f"'{self.folder}' is not a run directory and not empty; choose another --out"
            )

    def _start(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RagenError(f"'{self.folder}' is in use by another ragen bench") from None
        if not (self.folder / CONFIG).exists():
            self._write_head()
        found = check_run(self.folder, self.config)
        self.done = {key_of(episode) for episode in found.episodes}
        self._file.truncate(found.size)
        self._checksums = Checksums(self.folder)
        self._checksums.repair(found.records)

    def _write_head(self) -> None:
        environment = json.dumps(describe_environment(), indent=1) + "\n"
        _write_atomically(self.folder / ENVIRONMENT, environment)
        data = {**self.config.model_dump(mode="json"), "digest": self.config.digest}
        _write_atomically(self.folder / CONFIG, dump_yaml(data))


def check_run(folder: Path, config: RunConfig) -> Records:
    """Return the episodes of a directory that must hold a run with this config; reads only.

    Raises:
        RagenError: It holds another run, or an episode that is not of this run.
    """
    differs = differences(load_config(folder), config)
    if differs is not None:
        raise RagenError(f"'{folder}' holds another run: {differs}; choose another --out")
    found = read_records(folder / EPISODES)
    expected = set(config.keys)
    for record in found.records:
        key = key_of(record.episode)
        if key not in expected:
            raise RagenError(f"{folder / EPISODES} line {record.line} is not of this run: {key}")
    return found


def missing_agents(folder: Path, config: RunConfig) -> list[str]:
    """Return the agents that lack episodes, in the run's order; reads only."""
    started = (folder / CONFIG).exists()
    done = {key_of(e) for e in check_run(folder, config).episodes} if started else set()
    return list(dict.fromkeys(key.agent for key in config.keys if key not in done))


def differences(there: RunConfig, here: RunConfig) -> str | None:
    """Return in which field two configs differ first, or None."""
    return _first_difference(there.model_dump(mode="json"), here.model_dump(mode="json"), "")


def _first_difference(there: object, here: object, where: str) -> str | None:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in [*there, *(n for n in here if n not in there)]:
            inside = f"{where}.{name}" if where else str(name)
            found = _first_difference(there.get(name), here.get(name), inside)
            if found is not None:
                return found
        # The order of the tasks is the order of the episodes.
        return None if list(there) == list(here) else f"the order of {where}"
    if there == here:
        return None
    return f"{where} is {there!r:.120} there and {here!r:.120} now"


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
