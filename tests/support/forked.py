"""Python programs in forked processes: real ones, without the seconds that each would spend on imports."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import chdir, suppress
from multiprocessing import forkserver
from pathlib import Path

PRELOAD = [
    "torch", "transformers", "ragen_agents.starpo.trainer", "ragen_bench.cli.app",
    "ragen_bench.api.evaluate", "ragen_bench.cli.score", "ragen_bench.cli.show",
    "ragen_bench.evaluation.match_table", "ragen_agents.policies.endpoint.policy", "warm",
]  # fmt: skip
LIMIT = 240
"""Seconds that a program may take."""


def context():
    """Return the multiprocessing context whose server has imported what the programs need."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOAD)
    # Python 3.11 does not pass this process's path on, so `warm` has to be in the working directory.
    with chdir(Path(__file__).parent):
        forkserver.ensure_running()
    return made


def start(words, *, stdout, stderr=None, stdin=None, cwd=".", environment=None):
    """Start what follows ``python`` in a command.

    Args:
        words: ``-m MODULE …`` or ``SCRIPT …``.
        stdout: File to append to.
        stderr: File to append to; ``stdout`` by default.
        stdin: File to read; none by default.
        cwd: Working directory.
        environment: Variables to set.

    Returns:
        The `multiprocessing.Process`; its exit code is that of the program.
    """
    streams = [str(path) for path in (stdin or os.devnull, stdout, stderr or stdout)]
    arguments = ([str(word) for word in words], streams, str(cwd), dict(environment or {}))
    process = context().Process(target=_child, args=arguments)
    process.start()
    return process


def run(*programs, timeout=LIMIT, cwd="."):
    """Run programs side by side: each the words after ``python`` and the variables to set.

    Returns:
        For each a `subprocess.CompletedProcess` with what it has written.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [(Path(folder, f"{n}.out"), Path(folder, f"{n}.err")) for n in range(len(programs))]
        for path in sum(files, ()):
            path.touch()
        processes = [
            start(words, stdout=out, stderr=err, cwd=cwd, environment=environment)
            for (words, environment), (out, err) in zip(programs, files, strict=True)
        ]
        try:
            for process in processes:
                process.join(timeout)
        finally:
            for process in processes:
                process.kill()
                process.join()
        return [
            subprocess.CompletedProcess(
                words, process.exitcode, *(path.read_text(errors="replace") for path in written)
            )
            for (words, _), process, written in zip(programs, processes, files, strict=True)
        ]


def _child(words, streams, cwd, environment):
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.update(environment)
    os.chdir(cwd)
    for number, path in enumerate(streams):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        os.dup2(os.open(path, flags, 0o600), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)  # the server's cannot write to a pipe
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    paths = environment.get("PYTHONPATH", "").split(":")
    sys.path[:0] = [os.path.abspath(path) for path in paths if path]
    code = 1
    try:
        import torch

        torch.set_num_threads(1)
        code = _program(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _program(words):
    if words[:2] == ["-m", "ragen_bench"]:
        from ragen_bench.__main__ import main

        return main(words[2:])
    if words[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
    return 0
