"""The folder of a model that a config names, and the hash of its weights."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

from ragen_agents.model_files.folders import PROVENANCE, WEIGHTS, has_weights
from ragen_agents.model_files.gguf_conversion import SUFFIX, converted, remembered_sha256
from ragen_agents.model_files.packaged import PACKAGED, packaged_folder
from ragen_agents.starter import STARTERS
from ragen_envs.errors import RagenError

_HUB: Final = "hf:"
"""Before the name of a model on a hub."""
_IDENTITY: Final = (*WEIGHTS, "*.json", "*.jinja", "*.txt", "*.model")
_WHOLE: Final = 1 << 26
"""Most bytes of a file that is read at once."""


def model_source(name: str) -> str:
    """Return the folder or hub name of a model as named in a config."""
    source = find_model(name)
    if source is None:
        raise RagenError(f"model is '{name}', but must be {known_models()}")
    return source


def find_model(name: str) -> str | None:
    """Return the folder or hub name of a model, or None if there is none of that name.

    A GGUF file, or a folder with one and no other weights, is converted to a folder in the cache.
    """
    if name in STARTERS:
        return str(STARTERS[name])
    if name.startswith(_HUB):
        return name.removeprefix(_HUB).strip() or None
    if name in PACKAGED:
        return str(packaged_folder(name))
    if not is_model_path(name):
        return None
    file = _gguf_file(Path(name))
    return name if file is None else str(converted(file))


def is_model_path(name: str) -> bool:
    """Return whether a name is the path of a model folder or of a GGUF file."""
    if name in STARTERS or name.startswith(_HUB) or name in PACKAGED:
        return False
    path = Path(name)
    return path.is_dir() or (path.suffix == SUFFIX and path.is_file())


def local_folder(name: str) -> Path | None:
    """Return the folder of a model that is here, or None for one of a hub and if there is none."""
    source = None if name.startswith(_HUB) else find_model(name)
    return None if source is None else Path(source)


def known_models() -> str:
    """Return the names that a model can have, as the end of an error message."""
    return f"{', '.join([*STARTERS, *PACKAGED])}, a folder that exists, a GGUF file, or hf:NAME"


def _gguf_file(path: Path) -> Path | None:
    """Return the GGUF file that a path names, or None for a folder with other weights or none."""
    if path.is_file():
        return path
    files = sorted(path.glob(f"*{SUFFIX}"))
    if not files or has_weights(path):
        return None
    if len(files) > 1:
        raise RagenError(
            f"model folder '{path}' holds {len(files)} GGUF files; name one of them, such as '{files[0]}'"
        )
    return files[0]


def weights_digest(folder: Path) -> str:
    """Return a hash of a model folder's files, but not of the name of the GGUF file it was made from.

    Files over 64 MiB are known by hashes of their own, which are computed once per process.
    """
    if not has_weights(folder):
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors)")
    files = {path for pattern in _IDENTITY for path in folder.glob(pattern)}
    ordered = sorted(files - {folder / PROVENANCE})
    return _digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in ordered))


@lru_cache  # a sweep asks for each of its hundreds of runs
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{path.name} {size}\n".encode())
        digest.update(path.read_bytes() if size <= _WHOLE else remembered_sha256(path).encode())
    return digest.hexdigest()
