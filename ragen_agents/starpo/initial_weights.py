"""The hash of the model that a run starts from."""

from pathlib import Path

from ragen_agents.model_files.source import model_source, weights_digest
from ragen_agents.starpo.config import TrainConfig
from ragen_envs.game.errors import RagenError


def with_weights(config: TrainConfig) -> TrainConfig:
    """Return a config with the hash of its model's files, by which a run knows what it started from.

    Raises:
        RagenError: There is no such model, or the config has the hash of another one.
    """
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
