"""Turn a run into a leaderboard entry."""

import hashlib
import tempfile
from pathlib import Path

from ragen_agents.policies import CONTROLS
from ragen_agents.policies.endpoint.settings import ADDRESSES, EndpointSettings, check_secrets
from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import read_text
from ragen_agents.run_files.records import read_metrics
from ragen_agents.run_files.yaml_files import load_yaml, validate
from ragen_bench.config.run_config import ENTRY, AgentEntry, RunConfig
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.comparison import Side
from ragen_bench.leaderboard.check import check_copies, check_entry, results_of
from ragen_bench.leaderboard.entry import About, Entry, EntryError, Training, check_rules, check_titles
from ragen_bench.leaderboard.store import StoredEntry, read_about, read_entry, write_entry
from ragen_bench.runs.environments import versions_of
from ragen_bench.runs.records import encode_episode
from ragen_envs.errors import RagenError


def published_settings(endpoint: EndpointSettings | None) -> EndpointSettings | None:
    """Return the settings that decide an endpoint's replies, without its address."""
    if endpoint is None:
        return None
    check_secrets(endpoint.extra_body)
    return EndpointSettings.model_validate(endpoint.model_dump(exclude=ADDRESSES))


def read_description(path: Path | None, root: Path, agent: str) -> About:
    """Return the description of an entry: from a file, or from the existing entry of the agent."""
    if path is None:
        if (root / agent / ENTRY).is_file():
            return read_about(root / agent).about
        raise RagenError(f"there is no entry '{agent}' yet; describe it in a YAML file and pass --about FILE")
    return validate(About, load_yaml(read_text(path), str(path), aliases=False), str(path))


def read_training(run: Path | None, root: Path, name: str) -> Training | None:
    """Return the curves of a training run, or those of the existing entry of that name, if any."""
    if run is None:
        return read_about(root / name).training if (root / name / ENTRY).is_file() else None
    metrics = read_metrics(run)
    curves = {
        "success": [round(line["success"], 4) for line in metrics if "success" in line],
        "validation": [
            {"iteration": line["iteration"], "success": round(line["validation/success"], 4)}
            for line in metrics
            if "validation/success" in line
        ],
    }
    return validate(Training, curves, str(run))


def submit(side: Side, about: About, training: Training | None, root: Path, track: Track = iter) -> Path:
    """Check the entry of a run's agent, write it, and return its folder."""
    if (side.agent in CONTROLS or about.name in CONTROLS) and side.agent != about.name:
        control = side.agent if side.agent in CONTROLS else about.name
        raise RagenError(
            f"name is '{about.name}', but '{side.agent}' played: only the entry of the control '{control}' "
            "has its name"
        )
    entry, lines = _make(side, about, training)
    check_rules(entry)
    others = _others(root, about.name)
    check_titles([*(other.entry for other in others), entry])
    with tempfile.TemporaryDirectory() as temporary:
        checked = check_entry(write_entry(Path(temporary), entry, lines), track)
    check_copies([*others, checked])
    return write_entry(root, entry, lines)


def _others(root: Path, name: str) -> list[StoredEntry]:
    if not root.is_dir():
        return []
    others = []
    for path in sorted(root.iterdir()):
        if path.name != name and (path / ENTRY).is_file():
            try:
                others.append(read_entry(path))
            except EntryError as error:
                raise EntryError(f"the existing entry '{path}' is rejected: {error}") from error
    return others


def _make(side: Side, about: About, training: Training | None) -> tuple[Entry, bytes]:
    config = side.run.config
    if config.attempts != 1:
        raise RagenError(f"{side} has {config.attempts} attempts at each level, but an entry has one")
    played = next(agent for agent in config.agents if agent.name == side.agent)
    endpoint = published_settings(played.endpoint)
    agent = AgentEntry(name=about.name, weights=played.weights, endpoint=endpoint, stop=played.stop)
    renamed = RunConfig(agents=[agent], suite=config.suite)
    episodes = _episodes(side, about.name)
    missing = len(renamed.keys) - len(episodes)
    if missing:
        raise RagenError(f"{side} is unfinished: {missing} of {len(renamed.keys)} episodes are missing")
    lines = b"".join(encode_episode(episode) for episode in episodes)
    entry = Entry(
        about=about,
        config=renamed,
        packages={name: version[:60] for name, version in versions_of(side.run.folder).items()},
        training=training,
        episodes_sha256=hashlib.sha256(lines).hexdigest(),
        results=results_of(episodes),
    )
    return entry, lines


def _episodes(side: Side, name: str) -> list[Episode]:
    """Return the agent's episodes in the suite's order, renamed so that no path is published.

    Messages of errors can name paths, users and addresses, so only their types remain.
    """
    return [
        episode.model_copy(update={"agent": name, "error": _type_of_error(episode.error)})
        for task in side.run.config.suite.tasks
        for episode in side.run.samples.get((side.agent, task), {}).values()
    ]


def _type_of_error(error: str | None) -> str | None:
    """Return the type of an error that a record describes as ``Type: message``."""
    if error is None:
        return None
    name = error.partition(":")[0]
    return name if name.isidentifier() else "Exception"
