"""The directory of a training run: its name, its config, its lock."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ragen_agents.starpo import TrainConfig
from ragen_bench.config.run_config import CONFIG, differences_of
from ragen_bench.config.yaml_files import dump_yaml, validate
from ragen_bench.runs.directory import ENVIRONMENT, write_atomically
from ragen_bench.runs.locks import exclusive_lock
from ragen_bench.runs.provenance import describe_provenance
from ragen_bench.training.train_settings import read_settings
from ragen_envs.errors import RagenError

_FREE: Final = {"iterations", "server", "shard"}
"""Fields that may change when a run is resumed: it can be made longer, its server may move, and it may be
split between processes or not."""


def config_digest(config: TrainConfig) -> str:
    """Return a hash of the config without the fields that may change when the run is resumed."""
    data = config.model_dump(mode="json", exclude=_FREE)
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def default_train_directory(config: TrainConfig) -> Path:
    """Return a path under ``runs/`` that depends on the config only, so that the same command resumes."""
    game = config.game.split("/")[1].removesuffix("Text-v0")
    how = f"{config.advantage.estimator}-{config.filter.kind}-seed{config.seed}"
    return Path("runs") / f"train-{game}-{how}-{config_digest(config)[:8]}"


def load_train_config(folder: Path) -> TrainConfig:
    """Read the config of a training run.

    Raises:
        RagenError: There is none.
    """
    try:
        return validate(TrainConfig, read_settings(folder / CONFIG), str(folder / CONFIG))
    except RagenError as error:
        if (folder / CONFIG).exists():
            raise
        raise RagenError(f"'{folder}' is not a training run: it has no {CONFIG}") from error


@contextmanager
def train_directory(folder: Path, config: TrainConfig) -> Iterator[None]:
    """Make a run directory, or check that it holds this run; hold its lock until the end of the block.

    Raises:
        RagenError: It holds something else, is in use, or cannot be written.
    """
    with ExitStack() as resources:
        try:
            _check_contents(folder)
            folder.mkdir(parents=True, exist_ok=True)
            resources.enter_context(exclusive_lock(folder / ".lock"))
            if (folder / CONFIG).exists():
                _check_same(folder, config)
            provenance = json.dumps(describe_provenance(), indent=1) + "\n"
            write_atomically(folder / ENVIRONMENT, provenance)
            write_atomically(folder / CONFIG, dump_yaml(config.model_dump(mode="json")))
        except OSError as error:
            raise RagenError(f"'{folder}' cannot be written: {error.strerror}") from error
        yield


def _check_contents(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' is not a training run and not empty; choose another --out")


def _check_same(folder: Path, config: TrainConfig) -> None:
    there = load_train_config(folder)
    if config.iterations < there.iterations:
        raise RagenError(
            f"iterations is {config.iterations}, but the run in '{folder}' has {there.iterations}; a run "
            "can be made longer, not shorter"
        )
    differs = differences_of(
        there.model_dump(mode="json", exclude=_FREE),
        config.model_dump(mode="json", exclude=_FREE),
    )
    if differs is not None:
        raise RagenError(f"'{folder}' holds another run: {differs}; choose another --out")
