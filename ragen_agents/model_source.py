"""Where a model is that a config names, and what identifies its weights."""

import hashlib
from pathlib import Path
from typing import Final

from ragen_agents.starter import STARTER
from ragen_envs.errors import RagenError

_WEIGHTS: Final = ("*.safetensors", "pytorch_model*.bin")
_IDENTITY: Final = (*_WEIGHTS, "*.json", "*.jinja", "*.txt", "*.model")
_WHOLE: Final = 1 << 26
_PIECE: Final = 1 << 20


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


def weights_digest(folder: Path) -> str:
    """Return a hash of a model folder's files.

    Files over 64 MiB are known by their size, their first and their last MiB.

    Raises:
        RagenError: The folder holds no weights.
    """
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        hint = "; make it with ragen starter build" if folder == STARTER else ""
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors){hint}")
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _IDENTITY for path in folder.glob(pattern)}):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(_contents(path))
    return digest.hexdigest()


def _contents(path: Path) -> bytes:
    with path.open("rb") as file:
        if path.stat().st_size <= _WHOLE:
            return file.read()
        first = file.read(_PIECE)
        file.seek(-_PIECE, 2)
        return first + file.read()
