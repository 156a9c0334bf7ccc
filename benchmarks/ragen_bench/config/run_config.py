"""The config of a run: everything that decides what is played, by one agent or by several together."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal, Self, TypeVar

from pydantic import Field, model_validator

from ragen_agents.policies.endpoint.settings import EndpointSettings, StopTexts
from ragen_agents.rollout import EpisodeKey, MatchKey
from ragen_agents.run_files import CONFIG
from ragen_agents.run_files.files import read_text
from ragen_agents.run_files.yaml_files import load_yaml, validate
from ragen_bench.config.agents import OPENAI, LiveAgent, is_local_model, weights_of
from ragen_bench.config.suites import StrictModel, Suite
from ragen_envs import SUITE_VERSION
from ragen_envs.errors import RagenError

ENTRY: Final = "entry.json"
"""File that a leaderboard entry has in place of a config."""


Units = Literal["episodes", "matches"]


class EditedFileError(RagenError):
    """A file of a run is not what it was when it was written."""

    hint = "; ragen show, compare, view, explain and export read it with --unchecked"


class AgentEntry(StrictModel):
    """An agent of a run."""

    name: str
    """Name as given on the command line."""
    weights: str | None = None
    """Hash of a local model's files, or of a Python agent's source."""
    live: bool = Field(default=False, exclude_if=lambda live: not live)
    """Whether it was an object of the process that played, which its name cannot load; omitted if not."""
    endpoint: EndpointSettings | None = Field(default=None, exclude_if=lambda e: e is None)
    """Request settings of a model behind an endpoint; omitted for other agents."""
    stop: StopTexts = Field(default=[], exclude_if=lambda stop: not stop)
    """Texts at which the replies of a local model end; omitted if none."""

    @property
    def asked(self) -> EndpointSettings:
        """Settings that decide its replies, besides the sampling."""
        return self.endpoint or EndpointSettings(stop=self.stop)


class BaseConfig(StrictModel):
    """Fields that the configs of all runs share."""

    format: Literal[1] = 1
    """Version of the directory's layout."""
    suite_version: int = SUITE_VERSION
    """Version of the games and their frozen levels."""
    agents: list[AgentEntry]
    """Agents, in the order of the table."""
    suite: Suite
    """The suite, with the command line's options applied."""

    @model_validator(mode="after")
    def _check_agents(self) -> Self:
        names = [agent.name for agent in self.agents]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"the agent '{twice}' is named twice")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the whole config."""
        return digest_of(self.model_dump(mode="json"))


class RunConfig(BaseConfig):
    """Everything that defines a run."""

    units: ClassVar[Units] = "episodes"
    """What its records are called."""
    attempts: int = Field(default=1, ge=1, le=1024, exclude_if=lambda n: n == 1)
    """Tries of each agent at each level; omitted if one."""

    @property
    def keys(self) -> list[EpisodeKey]:
        """The keys of all episodes of the run, in the order in which they are played."""
        return [
            key
            for agent in self.agents
            for task in self.suite.tasks
            for key in self.keys_of(agent.name, task)
        ]

    def keys_of(self, agent: str, task: str) -> list[EpisodeKey]:
        """Return the keys of an agent's episodes of a task, in the order in which they are played."""
        return [
            EpisodeKey(agent, task, index, attempt)
            for attempt in range(self.attempts)
            for index in range(self.suite.episodes)
        ]


class MatchConfig(BaseConfig):
    """Everything that defines a run of matches."""

    units: ClassVar[Units] = "matches"
    kind: Literal["match"] = "match"
    """Distinguishes it from a run of ``ragen bench``."""
    seats: dict[str, Annotated[int, Field(ge=1, le=64)]]
    """Number of players of each task."""

    @model_validator(mode="after")
    def _check_seats(self) -> Self:
        if set(self.seats) != set(self.suite.tasks):
            raise ValueError(f"seats must name the tasks {', '.join(self.suite.tasks)}")
        return self

    @property
    def keys(self) -> list[MatchKey]:
        """The keys of all matches of the run."""
        return [
            MatchKey(lineup, task, level)
            for task in self.suite.tasks
            for lineup in self.lineups(task)
            for level in range(self.suite.episodes)
        ]

    def lineups(self, task: str) -> list[tuple[str, ...]]:
        """Return the lineups: each agent on each seat, with each agent on all other seats."""
        names, seats = [agent.name for agent in self.agents], self.seats[task]
        return list(
            dict.fromkeys(
                lineup(one, others, own, seats) for one in names for others in names for own in range(seats)
            )
        )


def lineup(one: str, others: str, own: int, seats: int) -> tuple[str, ...]:
    """Return the agents of all seats where one has a seat of its own, and another all others."""
    return tuple(one if seat == own else others for seat in range(seats))


def digest_of(data: object) -> str:
    """Return the SHA-256 of what a file of a run says."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


AnyConfig = RunConfig | MatchConfig
ConfigT = TypeVar("ConfigT", bound=AnyConfig)


def agent_entries(
    agents: Sequence[str], endpoint: EndpointSettings, live: Mapping[str, LiveAgent] = MappingProxyType({})
) -> list[AgentEntry]:
    """Return the agents of a config; the endpoint is that of ``openai:`` agents, its stop that of models."""
    return [
        AgentEntry(
            name=agent,
            weights=live[agent].source if agent in live else weights_of(agent),
            live=agent in live,
            endpoint=endpoint if agent.startswith(OPENAI) else None,
            stop=endpoint.stop if agent not in live and is_local_model(agent) else [],
        )
        for agent in agents
    ]


def default_directory(config: BaseConfig) -> Path:
    """Return a path under ``runs/`` that depends on the config only, so that a command resumes."""
    names = (agent.name.rstrip("/").split("/")[-1] for agent in config.agents)
    slug = "-".join("".join(c if c.isalnum() or c in "._" else "_" for c in n) for n in names)
    return Path("runs") / f"{config.suite.name}-{slug[:80]}-{config.digest[:8]}"


def load_config(folder: Path, checked: bool = True) -> AnyConfig:
    """Read the config of a run; ``checked``: unless it was edited.

    Raises:
        RagenError: There is no run, or it is of another suite version.
        EditedFileError: Its config was edited.
    """
    path = folder / CONFIG
    if not folder.is_dir():
        raise RagenError(f"there is no run directory '{folder}'")
    if (folder / ENTRY).is_file():
        raise RagenError(
            f"'{folder}' is a leaderboard entry; use ragen view, ragen explain or ragen leaderboard check"
        )
    if not path.exists():
        raise RagenError(f"'{folder}' is not a run directory: it has no {CONFIG}")
    data = load_yaml(read_text(path), str(path), aliases=False)
    fields = data if isinstance(data, dict) else {}  # what is no mapping is refused below
    if {"iterations", "rollout"} <= fields.keys():
        raise RagenError(
            f"'{folder}' is a run of ragen train, which ragen report and ragen view show; to score its "
            f"model, give it to ragen bench --agent, such as {folder}/best"
        )
    version = fields.get("suite_version")
    if isinstance(version, int) and version != SUITE_VERSION:
        raise RagenError(
            f"'{folder}' is a run of suite version {version}, but this is suite version {SUITE_VERSION}; "
            "results of different versions are not comparable"
        )
    digest = fields.pop("digest", None)
    config: AnyConfig
    if fields.get("kind") == "match":
        config = validate(MatchConfig, data, str(path))
    else:
        config = validate(RunConfig, data, str(path))
    # Of what is written there: a run of an older version lacks settings that came later.
    if checked and digest != digest_of(data):
        raise EditedFileError(f"{path} was edited: its digest does not match its contents")
    return config
