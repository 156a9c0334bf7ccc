"""A model in a ``vllm serve`` process, on this machine or another: token ids over HTTP."""

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ragen_agents.bounded_http import bounded
from ragen_agents.engines import vllm_api as api
from ragen_agents.engines.base import EngineError
from ragen_agents.engines.vllm_api import Finished
from ragen_agents.engines.weight_digests import ArrivalCheck, digests_of
from ragen_agents.engines.weights import TOLERANCE
from ragen_envs.errors import RagenError

WEIGHTS: Final = "weights-for-server"
"""Folder that holds new weights while the server reads them."""
CONCURRENCY: Final = 256
"""Requests in flight at most; vLLM decodes as many together by default."""
MAX_ANSWER: Final = 1 << 24
"""Most bytes of an answer; a token with its log-probability takes about 150."""
FIRST_DELAY: Final = 0.5
"""Seconds before the second try; doubled for each further one."""
LONGEST_DELAY: Final = 10.0
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MAX_MESSAGE: Final = 300

_log = logging.getLogger("ragen.engines")

AnswerT = TypeVar("AnswerT", bound=BaseModel)
T = TypeVar("T")


class _TroubleError(Exception):
    """This try has failed; the next may not."""


class ServedModel:
    """vLLM's copy of a model behind a URL; see `VllmModel`.

    What fails for a passing reason is asked again, until nothing has been answered for so long that it
    cannot be one.

    Args:
        url: Of the server's root.
        folder: Where WEIGHTS is made; the server must see it under the same path.
        vocabulary: Number of tokens; a reply has no other.
        context: Tokens that a prompt and its reply may have together.
        timeout: Seconds that one request may take, > 0.
        outage_timeout: Seconds without an answer after which an `EngineError` is raised, >= 0.

    Raises:
        RagenError: There is no such server, or not with the settings that are needed.
    """

    needs_weights = False

    def __init__(
        self,
        url: str,
        folder: Path,
        vocabulary: int,
        context: int,
        timeout: float,
        outage_timeout: float,
    ) -> None:
        self._url, self._folder = url, folder.absolute() / WEIGHTS
        self._vocabulary = vocabulary
        self._timeout, self._outage_timeout = timeout, outage_timeout
        self._silent_since: float | None = None
        self._loop = asyncio.new_event_loop()
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._client = _client(url)
        self._tasks: set[asyncio.Task[Finished]] = set()
        self._arrival = ArrivalCheck()
        try:
            self.precision = self._check(context)
        except RagenError:
            self.close()
            raise

    def add(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> None:
        """Queue a request; it is sent when the next ``step`` waits."""
        self._tasks.add(self._loop.create_task(self._reply(name, ids, fields)))

    def step(self) -> list[Finished]:
        """Wait for replies, and return those that are there."""
        waiting = asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        done, self._tasks = self._loop.run_until_complete(waiting)
        errors = [error for task in done if (error := task.exception())]
        if errors:
            raise errors[0]
        return [task.result() for task in done]

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats."""
        body = {"token_ids": list(ids), "sampling_params": api.scoring_fields()}
        asking = self._ask(api.GENERATE, body, api.Scored, lambda found: found.scores(ids))
        return self._loop.run_until_complete(asking)

    def reload(self, weights: Iterable[tuple[str, Tensor]], label: str) -> None:
        """Write the weights to a folder and let the server read it; see `VllmModel`."""
        self._forget()
        try:
            sent = digests_of(_save(weights, self._folder), self._vocabulary)
            for route, body in api.reloading(self._folder, label):
                self._loop.run_until_complete(self._ask(route, body, api.Done, lambda _: None))
            asking = self._ask(api.CHECKSUMS, api.hashing(), api.Checksums, lambda found: found)
            self._arrival.check(sent, self._loop.run_until_complete(asking).checksums, label)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def sleep(self, keep_weights: bool) -> None:
        """Do nothing: the server has a device of its own."""

    def close(self) -> None:
        """Close the connections; the server keeps running."""
        self._forget()
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def _forget(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._loop.run_until_complete(asyncio.wait(self._tasks))
            for task in self._tasks:
                if not task.cancelled():
                    task.exception()  # seen, or asyncio complains of it
        self._tasks, self._silent_since = set(), None

    def _check(self, context: int) -> str:
        """Check the server's version and settings; returns its arithmetic."""
        patience, self._outage_timeout = self._outage_timeout, 0.0
        try:
            version = self._get(api.VERSION, api.ServerVersion).version
            api.check_supported(version, f"serves at {self._url}")
            served = self._get(api.SETTINGS, api.ServerInfo).model
        finally:
            self._outage_timeout = patience
        precision = served.dtype.removeprefix("torch.")
        for name, found, wanted in (
            ("dtype", precision, tuple(TOLERANCE)),
            ("logprobs-mode", served.logprobs_mode, ("processed_logprobs",)),
        ):
            if found not in wanted:
                raise RagenError(
                    f"the server at {self._url} has {name} {found}; start it with --{name} "
                    + " or ".join(wanted)
                )
        if served.max_model_len < context:
            raise RagenError(
                f"the server at {self._url} reads {served.max_model_len} tokens, the model {context}; start "
                f"it with --max-model-len {context}"
            )
        return precision

    def _get(self, route: str, kind: type[AnswerT]) -> AnswerT:
        return self._loop.run_until_complete(
            self._ask(route, None, kind, lambda found: found, "GET")
        )

    async def _reply(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> Finished:
        body = {"token_ids": list(ids), "sampling_params": fields}
        most = int(fields["max_tokens"])
        return await self._ask(
            api.GENERATE, body, api.Generated, lambda g: g.finished(name, most, self._vocabulary)
        )

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
                found = read(kind.model_validate_json(self._content(route, response)))
            except TimeoutError:
                self._bear(f"{route}: no answer in {self._timeout:g} s")
            except (_TroubleError, ValueError, httpx2.HTTPError) as error:
                self._bear(f"{route}: {_line(error)}")
            else:
                self._silent_since = None
                return found
            await asyncio.sleep(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(number, 10)))
        raise AssertionError("unreachable")

    def _content(self, route: str, response: httpx2.Response) -> bytes:
        status = response.status_code
        if status == 200:
            return response.content or b"{}"
        said = f"HTTP {status}: {_message(response)}"
        if status in _PASSING and (status != 500 or route == api.GENERATE):
            raise _TroubleError(said)
        raise EngineError(
            f"the server at {self._url} refuses {route}: {said}; it must be started with {api.SERVE}"
        )

    def _bear(self, trouble: str) -> None:
        """Note that a try has failed, and give up if there were only such for too long."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            if self._outage_timeout:
                _log.warning(
                    "%s%s; trying again for %g s", self._url, trouble, self._outage_timeout
                )
        if now - self._silent_since >= self._outage_timeout:
            raise EngineError(f"the server does not answer: {self._url}{trouble}")


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=url,
        timeout=None,  # requests are timed as a whole
        limits=httpx2.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bounded(MAX_ANSWER)]},
        trust_env=False,
    )


def _save(weights: Iterable[tuple[str, Tensor]], folder: Path) -> dict[str, Tensor]:
    """Write weights as a model folder's, and return them; those that share memory are written each."""
    tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in weights}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise EngineError(f"'{folder}' cannot be written: {_line(error)}") from error
    return tensors


def _message(response: httpx2.Response) -> str:
    """Return what a server says of its refusal, if it says it as vLLM does."""
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
