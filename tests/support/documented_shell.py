"""A folder like a checkout in which the commands of a page run, each in a forked process."""

import os
import re
import shutil
import socket
import string
import subprocess
import sys
import time
from contextlib import chdir
from unittest.mock import patch

from checkout import ROOT
from documented_blocks import commands, only_reads_settings, reason_of
from documented_sizes import small
from forked import LIMIT, start
from ragen_bench.__main__ import main
from visits import visited

from ragen_agents.starter import STARTER

INTERRUPTED, DOES_NOT_FIT = 130, 2
KEY = "sk-of-the-tests"
ENTRIES = ("random",)
"""Published entries that commands of the leaderboard find."""
PLAIN_RUN = "bench --agent random --agent starter --game Bandit --episodes 2".split()


class _TrainingBeginsError(Exception):
    """In place of training."""


class CommandError(AssertionError):
    """A documented command does not work, or nothing says why it does not run."""


class Shell:
    """Runs the commands of a page in order: variables hold for those that follow, ``cd`` in its block.

    Args:
        folder: Empty; becomes the checkout.
        url: Of an endpoint, with its ``/v1``.
        files: Written into the folder, by name.
        gguf: A GGUF file.
        cache: Of models.
    """

    def __init__(self, folder, url, files, gguf, cache):
        self.folder = self.cwd = folder
        self.ran, self.reasons = 0, []
        self._seen = []
        self._url, self._provided = url, set()
        self._environment = {
            "OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "RAGEN_CACHE": str(cache),
            "PIP_NO_INDEX": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": "",
        }  # fmt: skip
        (folder / "docs").mkdir()
        for name in ("ragen_agents", "benchmarks", "examples", "environments", "docs/examples"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "benchmarks" / "results", folder / "results")
        for name in ENTRIES:
            shutil.copytree(ROOT / "leaderboards" / name, folder / "leaderboards" / name)
        for name in ("path/to/a/model", "path/to/model"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(STARTER)
        shutil.copy(gguf, folder / "path" / "to" / "FILE.gguf")
        self.write(files)

    def write(self, files):
        """Write files into the folder, by name."""
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, "utf-8")

    def run_block(self, block):
        """Run the commands of a block, or keep the reasons why they do not run."""
        self.cwd = self.folder
        for command in commands(block.text):
            reason = block.reason or reason_of(command, self.cwd == self.folder)
            if reason:
                self.reasons.append(reason)
            elif command.words or command.variables:
                self.run(command)
                self.ran += 1

    def run(self, command):
        """Run one command, or raise `CommandError`."""
        words = [self._filled(word) for word in command.words]
        variables = {name: self._filled(value) for name, value in command.variables.items()}
        if not words:
            self._environment.update(variables)
            return
        if words[0] == "cd":
            self.cwd = self.cwd / words[1]
        elif words[0] == "export":
            self._environment.update(word.replace("…", KEY).split("=", 1) for word in words[1:])
        elif words == ["pip", "install", "-e", "."]:
            self._install(command)
        elif words[0] in ("ragen", "python"):
            words = small(words, _free_port())
            if (words, variables) in self._seen:  # small sizes made it one of those before
                return
            self._seen.append((words, variables))
            if only_reads_settings(command):
                self.read_settings(command)
            else:
                self._start(command, words, variables)
        else:
            raise CommandError(f"{command.line!r} neither runs in a test nor says why not")

    def _filled(self, word):
        """Return a word with variables and placeholders replaced."""
        word = string.Template(word).safe_substitute(self._environment)
        word = re.sub(r"^(URL|http://(localhost|127\.0\.0\.1):8000/v1)$", self._url, word)
        if re.match(r"RUN\b", word):
            word = re.sub("^RUN", str(self._latest_run(word.endswith("/best"))), word)
        return word.replace("/shared", str(self.folder / "shared"), 1) if "/shared" in word else word

    def _latest_run(self, is_training):
        """Return the latest run, of training or of `ragen bench`, which is made if the page has none."""
        lines = "metrics.jsonl" if is_training else "episodes.jsonl"
        runs = sorted(self.folder.glob(f"runs/*/{lines}"), key=lambda path: path.stat().st_mtime_ns)
        if runs:
            return runs[-1].parent.relative_to(self.folder)
        self._ragen([*PLAIN_RUN, "--out", "runs/plain"])
        return "runs/plain"

    def _start(self, command, words, variables):
        out = words[words.index("--out") + 1] if "--out" in words else None
        if out and (command.is_alternative or out in self._provided):
            shutil.rmtree(self.cwd / out, ignore_errors=True)
        self._provide([word for word in words if word != out])
        self._call(command.line, words, variables)

    def read_settings(self, command):
        """Run a command up to where it would train, and put a model where it would write one."""
        words = small([self._filled(word) for word in command.words], _free_port())
        out = words[words.index("--out") + 1] if "--out" in words else None
        self._provide([word for word in words if word != out])
        with (
            chdir(self.cwd),
            patch.dict(os.environ, self._environment),
            patch("ragen_bench.cli.train._train", side_effect=_TrainingBeginsError),
            patch("ragen_agents.sft.train", side_effect=_TrainingBeginsError),
        ):
            try:
                raise CommandError(f"{command.line!r} does not train, but ends with {main(words[1:])}")
            except _TrainingBeginsError:
                pass
        if out:
            made = self.folder / out / ("best" if "train" in words else "")
            shutil.rmtree(made, ignore_errors=True)
            shutil.copytree(STARTER, made)

    def _provide(self, words):
        """Make the runs and the models that a command reads and that other pages have made."""
        for word in words:
            found = re.search(r"(?:^|=)(runs/[\w-]+)(.*)", word)
            if not found or (self.folder / found[1]).exists():
                continue
            name, rest = found.groups()
            self._provided.add(name)
            if word.startswith("model=") or rest == "/best" or "--model" in words:
                shutil.copytree(STARTER, self.folder / name / rest.strip("/"))
            elif word.endswith("/train") or "report" in words:
                train = small(["ragen", "train", "bandit", "--out", name], 0)[1:]
                self._ragen(["iterations=2" if each == "iterations=1" else each for each in train])
            else:
                self._ragen([*PLAIN_RUN, "--out", name])

    def _ragen(self, words):
        self._call(" ".join(words), ["ragen", *words], {})

    def _call(self, line, words, variables):
        log, typed = self.folder / "log.txt", self.folder / "typed.txt"
        log.write_text("")
        typed.write_text("quit\n")  # what leaves a command that asks a person
        program = ["-m", "ragen_bench", *words[1:]] if words[0] == "ragen" else words[1:]
        environment = {**self._environment, **variables}
        began = time.monotonic()
        process = start(program, stdout=log, stdin=typed, cwd=self.cwd, environment=environment)
        try:
            was_visited = _serves(words) and visited(process, log) is not None
            process.join(LIMIT)
        finally:
            if process.is_alive():
                process.kill()
                process.join()
        said = log.read_text(errors="replace")
        print(f"{time.monotonic() - began:5.1f} s  {' '.join(words)}")
        if not _ended_well(process.exitcode, words, said, was_visited):
            raise CommandError(
                f"{line!r} ends with {process.exitcode}, as {' '.join(words)!r}:\n{said[-3000:]}"
            )

    def _install(self, command):
        """Install the package of a page as a user would, but where the tests' environment stays as it is."""
        target = self.folder / "installed"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--target", str(target), "."],
            cwd=self.cwd, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CommandError(f"{command.line!r} ends with {done.returncode}:\n{done.stderr}")
        self._environment["PYTHONPATH"] = str(target)


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _serves(words):
    """Whether a command serves pages until Ctrl-C."""
    return (words[1:2] == ["view"] and "--out" not in words) or "--browser" in words


def _ended_well(code, words, said, was_visited):
    if _serves(words):
        return was_visited and code in (0, INTERRUPTED)
    if "--plan" in words and "does not fit" in said:
        return code == DOES_NOT_FIT
    return code == 0
