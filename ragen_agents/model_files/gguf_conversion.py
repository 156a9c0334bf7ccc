"""GGUF files as ordinary model folders: converted once, and from then on read from the cache."""

import logging
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ragen_agents.model_files.folders import Provenance, cached_folder, make_cached, save_tokenizer
from ragen_agents.run_files.files import sha256_of
from ragen_envs.errors import RagenError, first_line, install_hint

SUFFIX: Final = ".gguf"
_PACKAGES: Final = ("torch", "transformers", "accelerate", "gguf")
_LOG: Final = logging.getLogger("ragen.models")


def converted(file: Path) -> Path:
    """Return the model folder of a GGUF file, after converting it if it is not in the cache."""
    sha256 = remembered_sha256(file)
    provenance = Provenance(file.stem, file.name, sha256)
    return make_cached(cached_folder(sha256), partial(convert, file, provenance))


def convert(file: Path, provenance: Provenance, scratch: Path, chat_template: str | None = None) -> Path:
    """Write the model folder of a GGUF file, in bfloat16, into a scratch folder and return it."""
    check_packages(str(file))
    _LOG.info("converting %s to a model folder, once", file.name)
    # In a folder of its own: what lies beside the file must not decide what it is converted to.
    source, folder = scratch / "source", scratch / "model"
    source.mkdir()
    (source / file.name).symlink_to(file.absolute())
    try:
        _save(source, str(source / file.name), folder, chat_template)
    except Exception as error:  # the libraries raise errors of any kind for a damaged file
        raise RagenError(f"'{file}' could not be converted: {first_line(error)}") from error
    provenance.write(folder)
    return folder


def check_packages(model: str) -> None:
    """Raise `RagenError` if the packages that convert a model are not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise RagenError(f"model '{model}' needs {missing[0]}; {install_hint('gguf')}")


def remembered_sha256(file: Path) -> str:
    """Return the SHA-256 of a file, computed once per process unless its size or time changes."""
    stat = file.stat()
    return _digest(file.absolute(), (stat.st_size, stat.st_mtime_ns))


@lru_cache
def _digest(file: Path, _size_and_time: tuple[int, int]) -> str:
    return sha256_of(file)


def _save(source: Path, file: str, folder: Path, chat_template: str | None) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    read: Any = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=file, dtype=torch.bfloat16, output_loading_info=True,
        quantization_config=GgufConfig(dequantize=True),
    )  # fmt: skip
    loaded, info = read
    if info["missing_keys"]:
        raise RagenError(f"it has no {sorted(info['missing_keys'])[0]}")
    # A model read from a GGUF file refuses to be saved. One of its config, without weights, saves them.
    config = AutoConfig.from_pretrained(source, gguf_file=file, trust_remote_code=False)
    with torch.device("meta"):
        empty: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    empty.save_pretrained(folder, state_dict=loaded.state_dict())
    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=file, trust_remote_code=False)
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    save_tokenizer(tokenizer, folder)
