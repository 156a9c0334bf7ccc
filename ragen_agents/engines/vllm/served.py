"""Rollouts by vLLM servers, which the processes of a run share."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from ragen_agents.engines.base import Completion, EngineError, TokenRequest
from ragen_agents.engines.vllm.api import UNLABELLED, sampling_fields
from ragen_agents.engines.vllm.server import ServedModel
from ragen_agents.engines.weights import Digests, check_scores, digests_of, named_weights, probe, probed
from ragen_envs.errors import RagenError, first_line

if TYPE_CHECKING:
    from ragen_agents.starpo.processes import RunProcesses

WEIGHTS: Final = "weights-for-server"
"""Folder that holds the weights which the servers have."""
_RESTARTS: Final = 3
"""Most times that a server may lose one version of the weights. One that always dies is no help."""
_WAIT: Final = 0.2
"""Seconds between two looks at a server that another process gives the weights."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Sent:
    """The written weights, as far as every process knows them."""

    digests: Digests = field(default_factory=dict)
    probe: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """The model's log-probabilities of the probe, which a server's are compared with."""


class ServedEngine:
    """Generates on servers, of which each has its own copy of the model.

    The first process writes every version of the weights to a folder once, which the servers must see under
    the same path, and each server reads it there, also after it was started anew. An episode stays on one
    server, whose prefix cache has its turns. Exactly one process ``leads`` each server: it gives it the
    weights, labelled with their version and ``run``, which differs from other runs'. A prompt and its reply
    have ``context`` tokens at most.
    """

    def __init__(
        self,
        servers: Sequence[ServedModel],
        leads: bool,
        folder: Path,
        stop_token_ids: frozenset[int],
        max_tokens: int,
        context: int,
        run: str,
        processes: "RunProcesses",
    ) -> None:
        self.version = 0
        self._servers, self._leads = list(servers), leads
        self._folder = folder.absolute() / WEIGHTS
        self._stop_token_ids, self._max_tokens = stop_token_ids, max_tokens
        self._run, self._processes = run, processes
        self._label = ""
        self._sent = _Sent()
        self._restarts: Counter[str] = Counter()
        self._has_written = False
        self._tasks: set[asyncio.Task[Completion]] = set()
        self._loop = BackgroundLoop()
        self._restoring = asyncio.Lock()
        try:
            processes.together(lambda: self._loop.run(self._check(context)))
        except RagenError:
            self.close()
            raise

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Send requests."""
        self._loop.run(self._send(requests))

    def poll(self) -> list[Completion]:
        """Wait for replies, and return those that are there."""
        if not self._tasks:
            return []
        done = self._loop.run(self._take_done())
        errors = [error for task in done if (error := task.exception())]
        if errors:
            raise errors[0]
        return [task.result() for task in done]

    def sync(self, model: Any, version: int) -> None:
        """Hand the first process's model over to every server, once, and check that it arrived.

        All processes call this together; those but the first may pass anything.

        Raises:
            EngineError: A server does not have the weights; it is raised in every process.
        """
        self._forget()
        self.version, self._label = version, f"{self._run}{version}"
        self._restarts.clear()
        written = self._processes.together(lambda: self._write(model))
        self._sent = self._processes.from_first(written)
        self._processes.together(lambda: self._loop.run(self._load_all()))

    def release(self) -> None:
        """Do nothing: the servers have devices of their own."""

    def close(self) -> None:
        """Close the connections, and remove the weights; the servers keep running."""
        self._forget()
        for server in self._servers:
            self._loop.run(server.close())
        self._loop.close()
        if self._has_written:  # not what another run, whose directory this is, has written
            shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self) -> None:
        self._loop.run(self._cancel())
        for server in self._servers:
            server.forget_outage()

    def _write(self, model: Any) -> _Sent:
        """Write a model's weights as a model folder's, in the servers' arithmetic; in the first process."""
        if not self._processes.is_first:
            return _Sent()
        self._has_written = True
        weights = named_weights(model, getattr(torch, self._servers[0].precision))
        tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in weights}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            save_file(tensors, self._folder / "model.safetensors", {"format": "pt"})
        except (OSError, SafetensorError) as error:
            raise EngineError(f"'{self._folder}' cannot be written: {first_line(error)}") from error
        vocabulary = model.config.get_text_config().vocab_size
        return _Sent(digests_of(tensors, vocabulary), probe(model), probed(model))

    async def _send(self, requests: Sequence[TokenRequest]) -> None:
        self._tasks |= {asyncio.create_task(self._completion(request)) for request in requests}

    async def _take_done(self) -> set[asyncio.Task[Completion]]:
        done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return done

    async def _cancel(self) -> None:
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # seen, or asyncio complains of them

    async def _check(self, context: int) -> None:
        for server in self._servers:
            await server.check(context)
        dtypes = {server.precision for server in self._servers}
        if len(dtypes) > 1:
            raise RagenError(
                f"the servers have different dtypes, {' and '.join(sorted(dtypes))}; start all with one"
            )

    async def _load_all(self) -> None:
        if self._leads:
            await asyncio.gather(*map(self._load, self._servers))

    async def _load(self, server: ServedModel) -> None:
        await server.load(self._folder, self._label, self._sent.digests)
        scored = await server.score(self._sent.probe)
        check_scores(self._sent.scores, scored, server.precision, self.version)

    async def _completion(self, request: TokenRequest) -> Completion:
        """Return the reply to a request, which does not depend on the server that gives it."""
        server = self._servers[request.key % len(self._servers)]
        fields = sampling_fields(request.seed, request.temperature, self._max_tokens, self._stop_token_ids)
        while True:
            reply = await server.reply(request.ids, fields)
            if self._is_ours(reply.label):
                return Completion(request.key, reply.ids, reply.logprobs, reply.finish, self.version)
            async with self._restoring:
                await self._restore(server)

    def _is_ours(self, label: str) -> bool:
        """Return whether weights are those that were sent, not those that a server starts with."""
        if label not in (self._label, UNLABELLED):
            raise EngineError(
                f"a reply was written by weights '{label}', but '{self._label}' was sent; a server serves "
                "one run"
            )
        return label == self._label

    async def _restore(self, server: ServedModel) -> None:
        """Wait until a server that was started anew has the weights again, or give it them."""
        while not self._is_ours(await server.label()):
            if not self._processes.acquire(server.url):
                await asyncio.sleep(_WAIT)
                continue
            try:
                if not self._is_ours(await server.label()):
                    self._count_restart(server.url)
                    await self._load(server)
            finally:
                self._processes.release(server.url)

    def _count_restart(self, url: str) -> None:
        self._restarts[url] += 1
        if self._restarts[url] > _RESTARTS:
            raise EngineError(
                f"the server {url} lost version {self.version} of the weights {self._restarts[url]} times: "
                "something restarts it"
            )


class BackgroundLoop:
    """Runs asynchronous work, also where the caller's thread has a running loop, as in a notebook."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="engine-requests", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work, whose result is returned or error raised; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # does nothing unless the wait itself was interrupted
            raise

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
