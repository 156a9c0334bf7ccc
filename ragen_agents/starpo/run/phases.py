"""Seconds spent in each phase of an iteration."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """A stopwatch per phase."""

    def __init__(self) -> None:
        self.running: str | None = None
        """The phase that has begun and not ended; after an error, the one that it ended."""
        self.restart()

    def restart(self) -> None:
        """Forget all phases and start the total."""
        self.seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def add(self, phase: str, seconds: float) -> None:
        """Add seconds to a phase."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time inside the block to a phase."""
        self.running, started = phase, time.perf_counter()
        yield
        self.running = None
        self.add(phase, time.perf_counter() - started)

    def metrics(self) -> dict[str, float]:
        """Return the seconds of each phase and the total, as ``seconds/...``."""
        seconds = {f"seconds/{name}": value for name, value in self.seconds.items()}
        return {**seconds, "seconds/total": time.perf_counter() - self._started}
