"""Rollouts by ``vllm serve`` processes, on this machine or others: token ids over HTTP.

A `ServedModel` speaks to one server; a `ServedEngine` shares out requests, for all processes of a run.
"""

import asyncio
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2
import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import save_file

from ragen_agents.bounded_http import bounded
from ragen_agents.engines.base import Completion, EngineError, TokenRequest
from ragen_agents.engines.vllm import api as api
from ragen_agents.engines.vllm.api import UNLABELLED, Finished, sampling_fields
from ragen_agents.engines.weights import (
    TOLERANCE,
    ArrivalCheck,
    Digests,
    check_scores,
    digests_of,
    named_weights,
    probe,
    probed,
)
from ragen_envs.errors import RagenError, first_line

if TYPE_CHECKING:
    from ragen_agents.starpo.processes import RunProcesses

CONCURRENCY: Final = 256
"""Requests in flight at most; vLLM decodes as many together by default."""
MAX_ANSWER: Final = 1 << 24
"""Most bytes of an answer; a token with its log-probability takes about 150."""
FIRST_DELAY: Final = 0.5
"""Seconds before the second try; doubled for each further one."""
LONGEST_DELAY: Final = 10.0
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MAX_MESSAGE: Final = 300
WEIGHTS: Final = "weights-for-server"
"""Folder that holds the weights which the servers have."""
_RESTARTS: Final = 3
"""Most times that a server may lose one version of the weights. One that always dies is no help."""
_WAIT: Final = 0.2
"""Seconds between two looks at a server that another process gives the weights."""

_log = logging.getLogger("ragen.engines")

AnswerT = TypeVar("AnswerT", bound=BaseModel)
T = TypeVar("T")


class _TroubleError(Exception):
    """This try has failed; the next may not."""


class ServedModel:
    """vLLM's copy of a model behind a URL.

    What fails for a passing reason is asked again, until nothing has been answered for so long that it
    cannot be one.

    Args:
        url: Of the server's root.
        vocabulary: Number of tokens; a reply has no other.
        timeout: Seconds that one request may take, > 0.
        outage_timeout: Seconds without an answer after which an `EngineError` is raised, >= 0.
    """

    def __init__(self, url: str, vocabulary: int, timeout: float, outage_timeout: float) -> None:
        self.url = url
        self.precision = ""
        """Arithmetic, a key of ``weights.TOLERANCE``; known once ``check`` was called."""
        self._vocabulary = vocabulary
        self._timeout, self._outage_timeout = timeout, outage_timeout
        self._silent_since: float | None = None
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._client = httpx2.AsyncClient(
            base_url=url,
            timeout=None,  # requests are timed as a whole
            limits=httpx2.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY),
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [bounded(MAX_ANSWER)]},
            trust_env=False,
        )
        self._arrival = ArrivalCheck()

    async def check(self, context: int) -> None:
        """Check the version and the settings of the server, which must be there at once."""
        patience, self._outage_timeout = self._outage_timeout, 0.0
        try:
            version = (await self._get(api.VERSION, api.ServerVersion)).version
            api.check_supported(version, f"serves at {self.url}")
            served = await self._get(api.SETTINGS, api.ServerInfo)
        finally:
            self._outage_timeout = patience
        self.precision = served.dtype.removeprefix("torch.")
        for name, value, wanted in (
            ("dtype", self.precision, tuple(TOLERANCE)),
            ("logprobs-mode", served.logprobs_mode, ("processed_logprobs",)),
        ):
            if value not in wanted:
                raise RagenError(
                    f"the server at {self.url} has {name} {value}; start it with --{name} "
                    + " or ".join(wanted)
                )
        if served.max_model_len < context:
            raise RagenError(
                f"the server at {self.url} reads {served.max_model_len} tokens, but conversations may take "
                f"{context}; start it with --max-model-len {context}"
            )

    async def reply(self, ids: Sequence[int], fields: dict[str, Any]) -> Finished:
        """Return the reply to a prompt; the fields are those of `sampling_fields`."""
        body = {"token_ids": list(ids), "sampling_params": fields}
        most = int(fields["max_tokens"])
        return await self._ask(
            api.GENERATE, body, api.Generated, lambda answer: answer.finished(most, self._vocabulary)
        )

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats."""
        body = {"token_ids": list(ids), "sampling_params": api.SCORING}
        return await self._ask(api.GENERATE, body, api.Scored, lambda answer: answer.scores(ids))

    async def load(self, folder: Path, label: str, sent: Digests) -> None:
        """Load the weights in a folder into the server, which aborts and forgets its requests.

        Raises:
            EngineError: They did not arrive.
        """
        for route, body in api.reloading(folder, label):
            await self._ask(route, body, api.Done, lambda _: None)
        answer = await self._ask(api.CHECKSUMS, api.HASHING, api.Checksums, lambda answer: answer)
        self._arrival.check(sent, answer.checksums, label)

    async def label(self) -> str:
        """Return the label of the weights that the server has."""
        return (await self._get(api.LABEL, api.WeightInfo)).weight_version

    def forget_outage(self) -> None:
        """Count the next failure as the first of its outage."""
        self._silent_since = None

    async def close(self) -> None:
        """Close the connections; the server keeps running."""
        await self._client.aclose()

    async def _get(self, route: str, kind: type[AnswerT]) -> AnswerT:
        return await self._ask(route, None, kind, lambda answer: answer, "GET")

    async def _ask(
        self,
        route: str,
        body: dict[str, Any] | None,
        kind: type[AnswerT],
        read: Callable[[AnswerT], T],
        method: str = "POST",
    ) -> T:
        """Send a request until it is answered with something that can be read."""
        for number in count():
            try:
                async with self._room, asyncio.timeout(self._timeout):
                    response = await self._client.request(method, route, json=body)
                answer = read(kind.model_validate_json(self._content(route, response)))
            except EngineError:  # a refusal, and a ValueError too
                raise
            except TimeoutError:
                self._bear(f"{route}: no answer in {self._timeout:g} s")
            except (_TroubleError, ValueError, httpx2.HTTPError) as error:
                self._bear(f"{route}: {_line(error)}")
            else:
                self._silent_since = None
                return answer
            await asyncio.sleep(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(number, 10)))
        raise AssertionError("unreachable")

    def _content(self, route: str, response: httpx2.Response) -> bytes:
        status = response.status_code
        if status == 200:
            return response.content or b"{}"
        message = f"HTTP {status}: {_message(response)}"
        if status in _PASSING and (status != 500 or route == api.GENERATE):
            raise _TroubleError(message)
        raise EngineError(
            f"the server at {self.url} refuses {route}: {message}; it must be started with {api.SERVE}"
        )

    def _bear(self, trouble: str) -> None:
        """Note that a try has failed, and give up if there were only such for too long."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            if self._outage_timeout:
                _log.warning("%s%s; trying again for %g s", self.url, trouble, self._outage_timeout)
        if now - self._silent_since >= self._outage_timeout:
            raise EngineError(f"the server does not answer: {self.url}{trouble}")


def _message(response: httpx2.Response) -> str:
    """Return the message of a refusal, if it has the form of vLLM's."""
    try:
        return _line(json.loads(response.content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase


def _line(what: object) -> str:
    if isinstance(what, ValidationError):
        first = what.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"the answer is not vLLM's: {where} {first['msg']}".strip()[:_MAX_MESSAGE]
    text = " ".join(str(what).split()) or type(what).__name__
    return text[:_MAX_MESSAGE]


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
    weights. They are labelled with their version and ``run``; another run's must differ. A prompt and its
    reply together have ``context`` tokens at most.
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
        """Return the reply to a request.

        It depends on prompt, seed and weights only, so it is that of a server that is gone meanwhile.
        """
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
        """Wait for work and return what it returns; an interrupt cancels it.

        Raises:
            BaseException: What the work raised.
        """
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
