"""Agents as the harness sees them: their names, what identifies their weights, their policies."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ragen_agents.policies import CONTROLS, VLLM, Policy, Sampling, make_policy
from ragen_agents.starter import STARTER
from ragen_bench.suites import SamplingSettings
from ragen_envs.errors import RagenError

CONTROL_CHUNK: Final = 32
"""Levels that controls play between two writes; their replies do not depend on it."""

_WEIGHTS: Final = ("*.safetensors", "pytorch_model*.bin")
_IDENTITY: Final = (*_WEIGHTS, "*.json", "*.jinja", "*.txt", "*.model")
_WHOLE: Final = 1 << 26
_PIECE: Final = 1 << 20


def normalise_agents(agents: Iterable[str]) -> list[str]:
    """Return the names of agents, folders without trailing slashes, or raise on a repeated one."""
    names: list[str] = []
    for agent in agents:
        model = agent.removeprefix(VLLM)
        is_path = model != "starter" and _folder(agent) is not None
        name = agent.removesuffix(model) + str(Path(model)) if is_path else agent
        if name in names:
            raise RagenError(f"agent '{name}' is named twice")
        names.append(name)
    return names


def weights_of(agent: str) -> str | None:
    """Return a hash of a local model's files, or None for agents without a folder.

    Files over 64 MiB are known by their size, their first and their last MiB.

    Raises:
        RagenError: The folder holds no weights.
    """
    folder = _folder(agent)
    if folder is None:
        return None
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        hint = "; make it with ragen starter build" if folder == STARTER else ""
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors){hint}")
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _IDENTITY for path in folder.glob(pattern)}):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(_contents(path))
    return digest.hexdigest()


def _folder(agent: str) -> Path | None:
    """Return the folder of a local model, or None."""
    model = agent.removeprefix(VLLM)
    if model == "starter":
        return STARTER
    return Path(model) if agent not in CONTROLS and Path(model).is_dir() else None


def _contents(path: Path) -> bytes:
    with path.open("rb") as file:
        if path.stat().st_size <= _WHOLE:
            return file.read()
        first = file.read(_PIECE)
        file.seek(-_PIECE, 2)
        return first + file.read()


def make_policies(agents: Iterable[str], sampling: SamplingSettings) -> dict[str, Policy]:
    """Make the policies of agents. Called only for agents with episodes left to play."""
    decoding = Sampling(sampling.temperature, sampling.max_tokens)
    return {agent: make_policy(agent, decoding) for agent in agents}


def chunk_size(agent: str, policy: Policy) -> int:
    """Return how many levels are played and written together.

    A constant of the policy: the rounding of a model's batch must not depend on what a run that is
    resumed has done already.
    """
    return CONTROL_CHUNK if agent in CONTROLS else policy.batch_size
