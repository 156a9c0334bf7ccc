"""Training runs as directories: their configs, from presets, files and the command line."""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from ragen_agents.model_source import model_source
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_bench.config.agents import weights_of
from ragen_bench.config.run_config import CONFIG, differences_of
from ragen_bench.config.yaml_files import dump_yaml, load_yaml, validate
from ragen_bench.runs.directory import ENVIRONMENT, write_atomically
from ragen_bench.runs.provenance import describe_environment
from ragen_envs.errors import RagenError
from ragen_envs.registration import text_ids

DEFAULT_PRESET: Final = "starpo-s"
_FREE: Final = {"iterations", "server", "shard"}
"""Fields that may change when a run goes on: it can be made longer, its server may move, and it may be
split between processes or not."""


def make_train_config(
    what: str, preset: str | None, scale: str | None, overrides: Sequence[str]
) -> TrainConfig:
    """Return the config that a command line asks for.

    Args:
        what: Name of a game, such as "sokoban", id of a conversation env, or path of a YAML file.
        preset: Key of ``PRESETS``. None: the default one for a game, and none at all for a file, whose
            fields then have their own defaults.
        scale: Key of ``SCALES``. None: laptop for a game with the starter model, else none.
        overrides: ``field=value`` with dots for sections, such as "update.learning_rate=1e-4".

    Raises:
        RagenError: Something of it is unknown or wrong.
    """
    for name, value, known in (("preset", preset, PRESETS), ("scale", scale, SCALES)):
        if value is not None and value not in known:
            raise RagenError(f"unknown {name} '{value}'; known are {', '.join(known)}")
    is_file = what.endswith((".yaml", ".yml"))
    asked = merged(
        _read(Path(what)) if is_file else {"game": game_id(what)}, *map(read_override, overrides)
    )
    if not is_file:
        preset = preset or DEFAULT_PRESET
        if scale is None and asked.get("model", "starter") == "starter":
            scale = "laptop"
    return layered_config(SCALES[scale] if scale else {}, PRESETS[preset] if preset else {}, asked)


def layered_config(*layers: dict[str, Any]) -> TrainConfig:
    """Return the config of settings laid over one another, with the hash of its model's weights.

    Raises:
        RagenError: A field is unknown or wrong, or there is no such game or model.
    """
    config = validate(TrainConfig, merged(*layers), "config")
    game = config.game if config.game in text_ids() else game_id(config.game)
    model_source(config.model)  # refuses folders that do not exist
    weights = None if config.model.startswith("hf:") else weights_of(config.model)
    return config.model_copy(update={"game": game, "weights": weights})


def game_id(name: str) -> str:
    """Return the id of the conversation env that a short name stands for.

    Raises:
        RagenError: There is no such game.
    """

    def squeezed(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    short: dict[str, str] = {}
    for text_id in text_ids():  # the suite's own come first, and keep their names
        short.setdefault(squeezed(text_id.split("/")[1].removesuffix("Text-v0")), text_id)
    found = name if name in text_ids() else short.get(squeezed(name))
    if found is None:
        raise RagenError(f"unknown game '{name}'; known are {', '.join(short)}")
    return found


def config_digest(config: TrainConfig) -> str:
    """Return a hash of everything that decides a run; what may change when it goes on is left out."""
    data = config.model_dump(mode="json", exclude=_FREE)
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def default_train_directory(config: TrainConfig) -> Path:
    """Return a path under ``runs/`` that depends on the config only, so that a command resumes."""
    game = config.game.split("/")[1].removesuffix("Text-v0")
    how = f"{config.advantage.estimator}-{config.filter.kind}-seed{config.seed}"
    return Path("runs") / f"train-{game}-{how}-{config_digest(config)[:8]}"


def load_train_config(folder: Path) -> TrainConfig:
    """Read the config of a training run.

    Raises:
        RagenError: There is none.
    """
    try:
        return validate(TrainConfig, _read(folder / CONFIG), str(folder / CONFIG))
    except RagenError as error:
        if (folder / CONFIG).exists():
            raise
        raise RagenError(f"'{folder}' is not a training run: it has no {CONFIG}") from error


@contextmanager
def train_directory(folder: Path, config: TrainConfig) -> Iterator[None]:
    """Make a run directory, or check that it holds this run; holds its lock meanwhile.

    Raises:
        RagenError: It holds something else, is in use, or cannot be written.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / CONFIG).exists():
            raise RagenError(
                f"'{folder}' is not a training run and not empty; choose another --out"
            )
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise RagenError(f"'{folder}' cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RagenError(f"'{folder}' is in use by another ragen train") from None
        if (folder / CONFIG).exists():
            _check_same(folder, config)
        environment = json.dumps(describe_environment(), indent=1) + "\n"
        write_atomically(folder / ENVIRONMENT, environment)
        write_atomically(folder / CONFIG, dump_yaml(config.model_dump(mode="json")))
        yield


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


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RagenError(f"'{path}' cannot be read: {error}") from error
    data = load_yaml(text, str(path), aliases=False)
    if not isinstance(data, dict):
        raise RagenError(f"{path} must be a mapping with {', '.join(TrainConfig.model_fields)}")
    return data


def read_override(text: str) -> dict[str, Any]:
    """Return ``section.field=value`` as nested settings.

    Raises:
        RagenError: It has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RagenError(
            f"'{text}' must have the form field=value, such as update.mini_batch_size=16"
        )
    try:
        data: Any = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RagenError(f"the value in '{text}' is not YAML") from error
    if isinstance(data, str):
        with suppress(ValueError):  # YAML 1.1 reads 1e-4 as text
            data = float(data)
    for part in reversed(name.split(".")):
        data = {part: data}
    return dict(data)
