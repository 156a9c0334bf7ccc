"""Model folders: the user's cache, where each is named by the hash of its GGUF file, and their tokenizers."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

from ragen_agents.run_files.files import exclusive_lock
from ragen_envs.errors import RagenError, first_line

CACHE_VARIABLE: Final = "RAGEN_CACHE"
"""Environment variable that names another folder for the cache."""
PROVENANCE: Final = "provenance.json"
"""File of a cached model that tells where its weights come from."""
_SCRATCH: Final = ".writing-"


@dataclass(frozen=True)
class Provenance:
    """Origin of the weights of a cached model."""

    name: str
    """Name of the model in lists."""
    file: str
    """Name of the GGUF file."""
    sha256: str
    """Hash of the GGUF file."""
    package: str | None = None
    """The package that holds the file, if it was downloaded; then also its version and license."""
    version: str | None = None
    license: str | None = None

    def write(self, folder: Path) -> None:
        """Write it into a model folder."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        (folder / PROVENANCE).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def read_provenance(folder: Path) -> dict[str, Any] | None:
    """Return the origin of the weights of a cached model, or None for any other folder."""
    path = folder / PROVENANCE
    if folder.resolve().parent != models_folder().resolve() or not path.is_file():
        return None
    try:
        provenance = json.loads(path.read_text(encoding="utf-8"))
        Provenance(**provenance)
    except (OSError, TypeError, ValueError) as error:
        raise RagenError(
            f"'{path}' is damaged: {error}; remove its folder, and the next use makes the model again"
        ) from error
    return dict(provenance)


WEIGHTS: Final = ("*.safetensors", "pytorch_model*.bin")
"""Files of the weights of a model folder."""
_SIZES: Final = {
    "num_hidden_layers": 1024,
    "num_attention_heads": 4096,
    "num_key_value_heads": 4096,
    "head_dim": 1 << 16,
    "hidden_size": 1 << 18,
    "intermediate_size": 1 << 20,
    "vocab_size": 1 << 24,
    "max_position_embeddings": 1 << 30,
}
"""Largest values in the config of a model."""


def check_model_folder(folder: Path) -> None:
    """Raise `RagenError` if the files of a saved model cannot be right; anything else is not looked at."""
    if not folder.is_dir():
        return
    if not has_weights(folder):
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors)")
    check_configs(folder)


def check_configs(folder: Path) -> None:
    """Raise `RagenError` if the JSON files of a saved model hold something else, or impossible sizes."""
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            data = _read_object(folder / name)
            if name == "config.json":
                _check_sizes(folder / name, data)
                _check_sizes(folder / name, data.get("text_config"))
            named = data.get("eos_token_id")
            listed = named if isinstance(named, list) else [] if named is None else [named]
            if any(type(token) is not int for token in listed):
                raise RagenError(
                    f"'{folder / name}': eos_token_id is {named!r:.60}, but must be an integer or a list of "
                    "integers"
                )


def has_weights(folder: Path) -> bool:
    """Return whether a folder holds weights."""
    return any(any(folder.glob(pattern)) for pattern in WEIGHTS)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RagenError(f"'{path}' cannot be read: {first_line(error)}") from error
    if not isinstance(data, dict):
        raise RagenError(f"'{path}' holds {data!r:.60}, but must hold a JSON object")
    return data


def _check_sizes(path: Path, config: Any) -> None:
    for field, most in _SIZES.items():
        value = config.get(field) if isinstance(config, dict) else None
        for size in value if isinstance(value, list) else [value]:
            if size is not None and not (type(size) is int and 1 <= size <= most):
                raise RagenError(
                    f"'{path}': {field} is {size!r:.60}, but must be an integer from 1 to {most}"
                )


def load_weights(source: str | Path, dtype: Any) -> Any:
    """Return a causal language model of a folder or hub id.

    Raises:
        ValueError: The weights do not fit the config; transformers would draw others at random.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # a report of many lines
    try:
        read: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, trust_remote_code=False, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
    except UnpicklingError:
        raise ValueError("its pickled weights are broken or hold code; use safetensors") from None
    finally:
        transformers_logging.set_verbosity(verbosity)
    model, info = read
    wrong = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    if wrong:
        raise ValueError(f"config.json does not fit its weights: {min(wrong)}")
    return model


def own_context(config: Any) -> int:
    """Return the most tokens that the model of a config reads together; 2^30 if it does not say."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", 1 << 30))


def models_folder() -> Path:
    """Return the folder of all cached models, which may not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute() / "models"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "ragen" / "models"


def cached_folder(sha256: str) -> Path:
    """Return the place in the cache of the model made from a GGUF file."""
    return models_folder() / sha256[:16]


def cached_models() -> Iterator[tuple[str, Path]]:
    """Yield name and folder of each cached model, sorted by name."""
    folders = [path for path in models_folder().glob("[!.]*") if path.is_dir()]
    models = [(made["name"], path) for path in folders if (made := read_provenance(path))]
    yield from sorted(models)


def make_cached(folder: Path, make: Callable[[Path], Path]) -> Path:
    """Return a folder of the cache. If it is not there, make it, whole or not at all.

    Only one process writes to the cache at a time; others wait.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder.parent / ".lock", wait=True):
        if folder.is_dir():
            return folder
        for left in folder.parent.glob(f"{_SCRATCH}*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder.parent) as scratch:
            make(Path(scratch)).rename(folder)
    return folder


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer of transformers into a model folder.

    Raises:
        OSError: It cannot be written, for example because the disk is full.
    """
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if type(error) is not Exception:
            raise
        # The tokenizers library has no class of its own for what the system refuses.
        raise OSError(first_line(error)) from error
