"""One vLLM for all trainers of a process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragen_agents.engines.vllm import local
from ragen_agents.engines.vllm.local import LocalModel, LocalSettings


class SharedVllm:
    """Starts vLLM for the first trainer and hands the same to all others, until `close`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """How long the start took."""
        self._model: LocalModel | None = None
        self._load = local.load_local
        local.load_local = self._shared

    @property
    def model(self) -> LocalModel:
        """The model in vLLM."""
        assert self._model is not None
        return self._model

    def _shared(self, source: str | Path, settings: LocalSettings) -> LocalModel:
        if self._model is None:
            started = time.perf_counter()
            self._model = self._load(source, settings)
            self.seconds = time.perf_counter() - started
            self._close = self._model.close
            self._model.close = lambda: None  # type: ignore[method-assign]
        return self._model

    def described(self) -> dict[str, Any]:
        """Return which attention backends and which model runner vLLM took, as far as it says."""
        try:
            (found,) = self.model._engine.collective_rpc(_described)
        except Exception as error:  # no reason to fail: only names are missing
            return {"runner": f"unknown: {error}"[:100]}
        return dict(found)

    def close(self) -> None:
        """End vLLM."""
        if self._model is not None:
            self._close()


def _described(worker: Any) -> dict[str, Any]:
    """Return the names of what a worker of vLLM computes with."""
    runner = worker.model_runner
    groups = [group for groups in getattr(runner, "attn_groups", []) for group in groups]
    return {
        "runner": f"{type(runner).__module__}.{type(runner).__qualname__}",
        "attention": sorted({group.backend.get_name() for group in groups}),
        "precision": str(worker.model_config.dtype),
        "max_model_len": int(worker.model_config.max_model_len),
    }


@contextmanager
def losing_weights(model: LocalModel) -> Iterator[None]:
    """Have vLLM load none of the weights that it is sent."""
    real = model._engine.collective_rpc

    def lossy(method: Any, **arguments: Any) -> Any:
        if method != "reload_weights":
            return real(method, **arguments)
        for _ in arguments["kwargs"]["weights_iterator"]:
            pass
        return [None]

    model._engine.collective_rpc = lossy
    try:
        yield
    finally:
        model._engine.collective_rpc = real
