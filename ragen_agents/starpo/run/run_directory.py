"""The directory of a training run: its name, its config, its lock."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from ragen_agents.model_files.source import local_folder, model_source, weights_digest
from ragen_agents.run_files import CONFIG, ENVIRONMENT
from ragen_agents.run_files.files import exclusive_lock, read_text, write_atomically, writing
from ragen_agents.run_files.records import TRAINING, describe_provenance
from ragen_agents.run_files.yaml_files import differences_of, dump_yaml, load_yaml, validate
from ragen_agents.starpo.config import TrainConfig, parts_of, resources_of
from ragen_agents.starpo.parts.registry import is_builtin, qualified_name
from ragen_envs.errors import RagenError

_LOCK: Final = ".lock"
_OWN_PARTS: Final = "own_parts"
"""Key of the environment file for the parts that the caller passed to the trainer or registered."""


def with_weights(config: TrainConfig) -> TrainConfig:
    """Return a config with the hash of its model's files, by which a run knows what it started from."""
    folder = Path(model_source(config.model))
    if config.model.startswith("hf:"):
        return config
    digest = weights_digest(folder)
    if config.weights not in (None, digest):
        raise RagenError(
            f"weights is {config.weights:.12}…, but the files of the model '{config.model}' have the hash "
            f"{digest:.12}…; restore the model, or leave weights out to train the one that is there"
        )
    return config.model_copy(update={"weights": digest})


def config_digest(config: TrainConfig) -> str:
    """Return a hash of the config without the fields that may change when the run is resumed."""
    return hashlib.sha256(json.dumps(_fixed(config), sort_keys=True).encode()).hexdigest()


def _fixed(config: TrainConfig) -> dict[str, Any]:
    """Return the fields that stay when a run is resumed, made longer or fitted to another machine."""
    return config.model_dump(mode="json", exclude={"iterations": True, **resources_of(config)})


def own_parts(config: TrainConfig, **passed: object | None) -> dict[str, str]:
    """Return ``module:name`` of each part that a caller has passed or registered, by kind or setting."""
    registered = {k: part.function for k, part in parts_of(config).items() if not is_builtin(part)}
    parts = {**passed, **registered}
    return {kind: qualified_name(part) for kind, part in parts.items() if part is not None}


def default_run_dir(config: TrainConfig, parts: Mapping[str, str] | None = None) -> Path:
    """Return a path under ``runs/`` that depends on the config and the names of the caller's parts only.

    The same command, or the same script, therefore resumes its run.
    """
    game = re.sub(r"\W+", "-", config.game.split("/")[-1].removesuffix("Text-v0"))
    method = f"{config.advantage.estimator}-{config.filter.kind}-seed{config.seed}"
    digest = config_digest(config)
    if parts:
        digest = hashlib.sha256(f"{digest} {json.dumps(parts)}".encode()).hexdigest()
    return Path("runs") / f"train-{game}-{method}-{digest[:8]}"


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a YAML file."""
    data = load_yaml(read_text(path), str(path), aliases=False)
    if not isinstance(data, dict):
        raise RagenError(f"{path} must be a mapping with {', '.join(TrainConfig.model_fields)}")
    return data


def load_train_config(folder: Path) -> TrainConfig:
    """Read the config of a training run."""
    if not (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' is not a training run: it has no {CONFIG}")
    settings = read_settings(folder / CONFIG)
    if "suite" in settings:
        raise RagenError(
            f"'{folder}' holds a run of ragen bench or ragen match, not a training run; choose another "
            "run directory"
        )
    return validate(TrainConfig, settings, str(folder / CONFIG))


@contextmanager
def open_run_dir(folder: Path, config: TrainConfig, parts: Mapping[str, str]) -> Iterator[None]:
    """Make a run directory, or check that it holds this run; hold its lock until the end of the block."""
    with ExitStack() as resources:
        with writing(folder):
            _check_contents(folder)
            folder.mkdir(parents=True, exist_ok=True)
            resources.enter_context(exclusive_lock(folder / _LOCK))
            if (folder / CONFIG).exists():
                _check_same(folder, config)
                _check_parts(folder, parts)
            model = local_folder(config.model)
            described = describe_provenance({} if model is None else {config.model: model}, TRAINING)
            if parts:
                described[_OWN_PARTS] = dict(parts)
            provenance = json.dumps(described, indent=1) + "\n"
            write_atomically(folder / ENVIRONMENT, provenance)
            write_atomically(folder / CONFIG, dump_yaml(config.model_dump(mode="json")))
        yield


def _check_contents(folder: Path) -> None:
    if not folder.is_dir() or (folder / CONFIG).exists():
        return
    # What a run that was killed before its config was in place leaves behind.
    ours = {_LOCK, ENVIRONMENT, *(Path(name).stem + ".tmp" for name in (CONFIG, ENVIRONMENT))}
    if any(path.name not in ours for path in folder.iterdir()):
        raise RagenError(f"'{folder}' is not a training run and not empty; choose another run directory")


def _check_same(folder: Path, config: TrainConfig) -> None:
    earlier = load_train_config(folder)
    if config.iterations < earlier.iterations:
        raise RagenError(
            f"iterations is {config.iterations}, but the run in '{folder}' has {earlier.iterations}; a run "
            "can be made longer, not shorter"
        )
    differs = differences_of(_fixed(earlier), _fixed(config))
    if differs is not None:
        raise RagenError(f"'{folder}' holds another run: {differs}; choose another run directory")


def _check_parts(folder: Path, parts: Mapping[str, str]) -> None:
    """Check that a run goes on with a reward and an environment of the caller's if it began with them."""
    if not (folder / ENVIRONMENT).exists():
        return
    earlier = json.loads(read_text(folder / ENVIRONMENT)).get(_OWN_PARTS, {})
    for kind in ("reward", "env"):
        if (kind in earlier) != (kind in parts):
            began, goes_on = (given.get(kind, f"no {kind} of your own") for given in (earlier, parts))
            raise RagenError(
                f"'{folder}' was trained with {began}, but continues with {goes_on}; continue it as "
                "before, or choose another run directory"
            )
