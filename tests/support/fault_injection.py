"""Run a command of `ragen` in a process that meets a fault: it is killed, or has no space left."""

import errno
import fcntl
import json
import os
import random
import re
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from forked import context
from hypothesis import strategies as st

SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
"""Sent from outside, after a share of the time that the command takes without a fault."""
SWALLOWED = re.compile(r"Exception ignored in: (?:(?!ignored in).)*?\nKeyboardInterrupt: \n", re.DOTALL)
"""Python prints a Ctrl-C that arrives in a callback of its garbage collector, and goes on."""
OPERATIONS = ("crash", "power loss", "I/O error")
"""At one of the calls that make files last: flushing to the disk, and renaming."""
OTHERS = ("no space", "clock")
KINDS = (*SIGNALS, *OPERATIONS, *OTHERS)

CRASHED = 137
_ENOUGH = resource.RLIM_INFINITY
_LASTING = ("fsync", "replace", "rename", "truncate")


@dataclass(frozen=True)
class Fault:
    """What one start of the command meets."""

    kind: str
    at: float
    """When: as a share of the time, the calls or the bytes of the command without a fault."""


def sequences(kinds=KINDS):
    """A strategy: up to three faults, each for one start; a start without any follows."""
    fault = st.builds(Fault, st.sampled_from(kinds), st.floats(0, 1))
    return st.lists(fault, min_size=1, max_size=3)


@dataclass(frozen=True)
class Usual:
    """What the command takes without a fault."""

    seconds: float
    calls: int
    """To functions that make files last."""
    bytes: int
    """Of the largest file that it leaves."""


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """The exit status, or the negative number of the signal."""
    said: str
    """Standard error."""


class Calm:
    """A command without faults: its words, what it leaves, and what it takes."""

    def __init__(self, words, left, usual):
        self.words, self.left, self.usual = words, left, usual


def run(words, scratch, fault=None, usual=None, **environment):
    """Run a command to its end in a forked process; returns how it ended, and what it took."""
    log = Path(scratch) / "log"
    if not log.exists():
        os.mkfifo(log)  # which no limit of files cuts off
    pipe = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
    log.with_suffix(".json").write_text("{}")
    process = context().Process(target=_child, args=(words, str(log), fault, usual, environment))
    process.start()
    if fault is not None and fault.kind in SIGNALS:
        process.join(fault.at * usual.seconds)
        if process.is_alive():
            os.kill(process.pid, getattr(signal, fault.kind))
    process.join(300)
    assert process.exitcode is not None, f"{words} did not end"
    os.write(pipe, b"\n")
    said = SWALLOWED.sub("", os.read(pipe, 1 << 20).decode(errors="replace"))
    os.close(pipe)
    calls = json.loads(log.with_suffix(".json").read_text() or "{}")
    if fault is not None and fault.kind == "power loss":
        _lose(calls.get("flushed", {}), fault)
    sizes = [path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file()]
    usual = Usual(calls.get("seconds", 0.0), calls.get("count", 0), max(sizes))
    return Ended(process.exitcode, said), usual


def _child(words, log, fault, usual, environment):
    os.environ.update(environment)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for number in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY), number)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    import torch
    from ragen_bench.__main__ import main

    from ragen_agents.policies.endpoint import policy

    torch.set_num_threads(1)
    policy.FIRST_DELAY = 0.01
    lasting = _Lasting(Path(log).with_suffix(".json"), fault, usual)
    if fault is not None and fault.kind == "no space":
        # Small limits are more frequent: most files are much smaller than the largest.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(fault.at**2 * usual.bytes), _ENOUGH))
    if fault is not None and fault.kind == "clock":
        _leap(fault)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main(words)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_ENOUGH, _ENOUGH))
    lasting.write()
    os._exit(code)


class _Lasting:
    """Counts the calls that make files last, and breaks one of them."""

    def __init__(self, path, fault, usual):
        self._path, self._count, self._flushed = path, 0, {}
        self._began = time.monotonic()
        self._real = {name: getattr(os, name) for name in _LASTING}
        kind = None if fault is None else fault.kind
        self._kind = kind if kind in OPERATIONS else None
        self._last = None if self._kind is None else int(fault.at * usual.calls)
        for name in _LASTING:
            setattr(os, name, self._wrapped(name))

    def _wrapped(self, name):
        def call(*arguments, **keywords):
            self._count += 1
            if self._last is not None and self._count > self._last:
                if self._kind != "I/O error":
                    self.write()
                    os._exit(CRASHED)
                if self._count == self._last + 1:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            found = self._real[name](*arguments, **keywords)
            if name == "fsync":
                handle = arguments[0] if isinstance(arguments[0], int) else arguments[0].fileno()
                self._flushed[os.readlink(f"/proc/self/fd/{handle}")] = os.fstat(handle).st_size
            return found

        return call

    def write(self):
        seconds = time.monotonic() - self._began
        told = {"count": self._count, "seconds": seconds, "flushed": self._flushed}
        self._path.write_text(json.dumps(told))


def _lose(flushed, fault):
    """Cut what was written after the last flush from files that only grow, as a loss of power may."""
    for path, size in flushed.items():
        if path.endswith((".jsonl", ".sha256")) and os.path.isfile(path):
            there = os.stat(path).st_size
            if there > size:
                os.truncate(path, size + int(fault.at * (there - size)))


def _leap(fault):
    """Let the clock leap by up to a day, back and forth; the monotonic clock cannot."""
    rng, real = random.Random(fault.at), time.time
    time.time = lambda: real() + rng.uniform(-86_400, 86_400)
