"""Where a model is that a config names."""

from pathlib import Path

from ragen_agents.starter import STARTER
from ragen_envs.errors import RagenError


def model_source(name: str) -> str:
    """Return the folder or hub name of a model as named in a config.

    Raises:
        RagenError: There is no such folder.
    """
    if name == "starter":
        return str(STARTER)
    if name.startswith("hf:"):
        return name.removeprefix("hf:")
    if not Path(name).is_dir():
        raise RagenError(
            f"model is '{name}', but must be starter, a folder that exists, or hf:NAME"
        )
    return name
