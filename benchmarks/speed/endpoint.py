"""Measure what the harness adds to a server's time, with many episodes in flight and a server that waits.

    python benchmarks/speed/endpoint.py [IN_FLIGHT ...] [--seconds 2] [--waves 4]

IN_FLIGHT episodes are played at the same time (256 by default), in WAVES times as many in all, and the
server answers each request after SECONDS. The overhead is the share of the places
in flight that are empty while all episodes are open: the time that a place spends in the harness and
on the way, not at the server.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from multiprocessing.connection import Connection

from ragen_bench.__main__ import main

REPLY = "<think>so</think><answer>Right || Down</answer>"
ANSWER = json.dumps(
    {
        "choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 400, "completion_tokens": 20},
    }
).encode()
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n"


def serve(seconds: float, pipe: Connection) -> None:
    """Answer every request after some seconds; sends the port, then on request when each was here."""
    stays: list[tuple[float, float]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(v for k, v in _fields(head) if k == "content-length")
            await reader.readexactly(int(length))
            came = time.monotonic()
            await asyncio.sleep(seconds)
            writer.write(HEAD.encode() + ANSWER)
            stays.append((came, time.monotonic()))

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        pipe.send(stays)

    asyncio.run(run())


def _fields(head: bytes) -> list[tuple[str, str]]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return [(k.lower(), v) for k, v in (line.split(": ", 1) for line in lines if line)]


def measure(in_flight: int, seconds: float, waves: int) -> None:
    """Play and print."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(seconds, theirs))
    process.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    with tempfile.TemporaryDirectory() as folder:
        command = f"bench --agent openai:m --base-url {url} --game Sokoban --out {folder}/run"
        more = f"--concurrency {in_flight} --episodes"
        main([*command.split()[:-1], f"{folder}/warm", *more.split(), str(in_flight)])
        before, cpu = _memory(), time.process_time()
        ours_from = time.monotonic()
        main([*command.split(), *more.split(), str(waves * in_flight)])
        cpu = time.process_time() - cpu
    ours.send(None)
    stays = [stay for stay in ours.recv() if stay[0] > ours_from]
    process.terminate()
    # All places are taken from the first answers until nothing is left to begin.
    begin, end = stays[0][1] + seconds, sorted(came for came, _ in stays)[-2 * in_flight]
    held = sum(max(0.0, min(left, end) - max(came, begin)) for came, left in stays)
    print(f"{len(stays)} requests, {in_flight} episodes in flight, {seconds:g} s each at the server")
    print(f"overhead: {1 - held / (end - begin) / in_flight:.1%} of the time")
    print(f"processor: {1000 * cpu / len(stays):.2f} ms a request")
    print(f"peak memory: {before} MiB after {in_flight} episodes, {_memory()} MiB after all")


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("in_flight", nargs="*", type=int, default=[256])
    parser.add_argument("--seconds", type=float, default=2.0, help="of a request at the server")
    parser.add_argument("--waves", type=int, default=4, help="episodes, in multiples of IN_FLIGHT")
    args = parser.parse_args()
    for each in args.in_flight:
        measure(each, args.seconds, args.waves)
