"""A model in a ``vllm serve`` process, on this machine or another: token ids over HTTP."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from ragen_agents.bounded_http import bounded
from ragen_agents.engines.base import EngineError
from ragen_agents.engines.vllm import api as api
from ragen_agents.engines.vllm.api import Finished
from ragen_agents.engines.weights import TOLERANCE, ArrivalCheck, Digests
from ragen_envs.errors import RagenError

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
    """vLLM's copy of a model behind the root URL of a server; replies have no token beyond its vocabulary.

    A request has ``timeout`` seconds. What fails for a passing reason is asked again, until nothing has been
    answered for ``outage_timeout`` seconds; then an `EngineError` is raised.
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
