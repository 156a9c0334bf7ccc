"""A server on loopback for tests, OpenAI-compatible by default, with faults: plain asyncio, in a thread."""

import asyncio
import hashlib
import json
import random
import threading
from http import HTTPStatus

FAULTS = (
    "hang", "reset", "half_reset", "429", "500", "503", "truncated", "wrong_types", "huge", "nul",
    "broken_utf8", "no_choices", "error_200", "html",
)  # fmt: skip


def plays(body):
    """The reply of a server's model: a function of the last message alone."""
    text = body["messages"][-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    if "Arms: " in text:
        return f"<think>one</think><answer>{text.split('Arms: ')[1].split(',')[0]}</answer>"
    rng = random.Random(hashlib.sha256(text.encode()).digest())
    moves = " || ".join(rng.choices(["Up", "Down", "Left", "Right"], k=3))
    return f"<think>so</think><answer>{moves}</answer>"


def chat(body, headers):
    assert headers["request"] == "POST /v1/chat/completions HTTP/1.1", headers["request"]
    return completion(plays(body))


def completion(text, **message):
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 300, "completion_tokens": 20}}


def failure(message, code=None):
    return {"error": {"message": message, "code": code, "type": "invalid_request_error"}}


class EndpointServer:
    """Answers ``/v1/chat/completions``; a context manager.

    Args:
        answer: A function, async or not, of a request's body and headers, whose "request" is the
            request line; returns an object, or a status, an object and headers. By default it
            answers chat completions.
        faults: Share of requests, drawn at random, that meet a fault.
        kinds: The faults, one after another.
        after: Bytes that are sent together with each answer, after it.
    """

    def __init__(self, answer=None, faults=0.0, kinds=FAULTS, seed=0, after=b""):
        self.after = after
        self.answer = answer or chat
        self.faults, self.kinds = faults, kinds
        self.bodies, self.hit = [], []
        self.answered = []
        """The bodies that were answered as they should."""
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(60)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _stop(self):
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer):
        try:
            while True:
                headers, body = await _read(reader)
                self.bodies.append(body)
                if self._rng.random() < self.faults:
                    kind = self.kinds[len(self.hit) % len(self.kinds)]
                    self.hit.append(kind)
                    if not await _misbehave(kind, writer):
                        return
                    continue
                found = self.answer(body, headers)
                found = await found if asyncio.iscoroutine(found) else found
                answer = found if isinstance(found, tuple) else (200, found)
                await _send(writer, *answer, after=self.after)
                self.answered.append(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
    length = int(headers.get("content-length", 0))
    return {**headers, "request": head[0]}, json.loads(await reader.readexactly(length) or "null")


async def _send(writer, status, found, headers=(), after=b""):
    data = found if isinstance(found, bytes) else json.dumps(found).encode()
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(data)}"]
    headers = {"Content-Type": "application/json", **dict(headers)}
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data + after)
    await writer.drain()


async def _misbehave(kind, writer):
    """Do the fault; returns whether the connection may be used again."""
    good = json.dumps(completion("<answer>Up</answer>")).encode()
    if kind == "hang":
        await asyncio.sleep(3600)
    elif kind == "reset":
        writer.transport.abort()
        return False
    elif kind == "half_reset":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + good[:50])
        await writer.drain()
        writer.transport.abort()
        return False
    elif kind.isdigit():
        await _send(writer, int(kind), failure("later"), [("Retry-After", "0")])
    else:
        await _send(writer, 200, {
            "truncated": good[:60],
            "wrong_types": {**completion(""), "choices": [{"message": {"content": 42}}]},
            "huge": completion("x" * 5_000_000),
            "nul": b"\x00" * 300,
            "broken_utf8": good.replace(b"Up", b"\xff\xfe\xc3"),
            "no_choices": {**completion(""), "choices": []},
            "error_200": failure("upstream is gone"),
            "html": b"<html>please log in</html>",
        }[kind])  # fmt: skip
    return True
