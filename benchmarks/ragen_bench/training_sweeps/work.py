"""Run one task of a sweep in this process: ``python -m ragen_bench.training_sweeps.work FOLDER``.

The folder holds ``task.json``. An interrupted task is resumed; the result is written last. The process exits
when its standard input is closed, so it does not outlive the process that started it.

Where vLLM generates in the trainer's process, a task trains in a process of its own, ``work FOLDER --train``:
only its end frees all of the device's memory, which the vLLM that is tested with needs.
"""

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from ragen_agents.allocator import keep_freed_memory
from ragen_agents.policies import CONTROLS, VLLM
from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import InUseError, exclusive_lock, new_folder
from ragen_bench.config.extensions import import_from_environment
from ragen_bench.console.log_handler import logs_on_stderr
from ragen_bench.training_sweeps import TASK, TEST
from ragen_bench.training_sweeps.results import (
    TRAIN,
    Outcome,
    TaskResult,
    curves_of,
    outcome_of,
    parse_task,
    read_result,
    write_result,
)
from ragen_bench.training_sweeps.task_process import BUSY
from ragen_bench.training_sweeps.tasks import POLICY, SweepTask
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.sweeps")
MODEL: Final = Path("model")
TRAIN_ONLY: Final = "--train"
_HASHES: Final = "hashes.json"
"""File in checkpoints of earlier versions."""


def main(folder: Path, train_only: bool = False) -> int:
    """Run the task of a folder, or only its training, and return the exit code."""
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    os.chdir(folder)  # names in records are then those inside the folder, wherever it lies
    try:
        with logs_on_stderr(), nullcontext() if train_only else exclusive_lock(Path(".lock")):
            return _run_task(_train if train_only else _do)
    except InUseError:
        return BUSY


def _run_task(do: Callable[[SweepTask], object]) -> int:
    keep_freed_memory()
    try:
        import_from_environment()
        do(parse_task(Path(TASK)))
    except (RagenError, OSError) as error:
        _LOG.error("%s", error)
        return 2
    return 0


def _end_with_standard_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def _do(task: SweepTask) -> None:
    if read_result(Path(), task) is not None:
        return  # another command has done it meanwhile
    from ragen_agents.run_files.records import TRAINING, describe_provenance, read_metrics
    from ragen_bench.config.agents import weights_of

    agents, ended = task.agents, None
    started = time.perf_counter()
    if task.seed is not None:
        if task.supervised is None and task.train.engine == "vllm" and not MODEL.exists():
            _train_apart()
        ended = _train(task)
        agents = {POLICY: f"{VLLM if task.train.engine == 'vllm' else ''}{MODEL}"}
    trained = time.perf_counter()
    outcomes = _test(task, agents)
    tested = time.perf_counter()
    metrics = read_metrics(TRAIN) if task.iterations else []
    if metrics:
        started = trained - sum(line.get("seconds/total", 0.0) for line in metrics)
    result = TaskResult(
        task=task,
        outcomes=outcomes,
        curves=curves_of(metrics),
        iterations=[line["iteration"] for line in metrics],
        ended=ended,
        weights=weights_of(agents[POLICY]) if task.seed is not None else task.train.weights,
        seconds={"train": trained - started, "test": tested - trained},
        made_with=describe_provenance(packages=TRAINING),
    )
    write_result(Path(), result)
    for rest in (TRAIN / "checkpoints", TRAIN / "best"):
        shutil.rmtree(rest, ignore_errors=True)


def _train_apart() -> None:
    """Train in a process of its own, and end as it does if it fails; it says why."""
    arguments = [sys.executable, "-m", "ragen_bench.training_sweeps.work", ".", TRAIN_ONLY]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE) as process:
        code = process.wait()
    if code:
        raise SystemExit(code if code > 0 else 2)


def _train(task: SweepTask) -> str | None:
    """Train the model that is tested; return why training ended early, or None."""
    early = Path("ended.txt")
    if MODEL.exists():
        return early.read_text(encoding="utf-8") if early.exists() else None
    if task.supervised is not None:
        from ragen_agents.sft import train

        train(task.supervised, MODEL)
        return None
    ended = _starpo(task)
    if ended is not None:
        early.write_text(ended, encoding="utf-8")
    _export()
    return ended


def _starpo(task: SweepTask) -> str | None:
    from ragen_agents.starpo import Trainer, TrainingFailedError
    from ragen_agents.starpo.callbacks import ReportMetrics
    from ragen_bench.training.progress_view import TrainingView

    with TrainingView(task.train) as view:
        trainer = Trainer(task.train, TRAIN, callbacks=[ReportMetrics(view.report)])
        try:
            trainer.run()
        except TrainingFailedError as error:
            return str(error)
    return None


def _export() -> None:
    """Copy the last weights, without what only training needs. The copy is atomic."""
    from ragen_agents.starpo.run.checkpoint import STATE, TENSORS, latest
    from ragen_agents.starpo.run.run_state import CHECKPOINTS

    last = latest(TRAIN / CHECKPOINTS)
    assert last is not None  # however a run ends, it saves its state
    with new_folder(MODEL) as work:
        only_training = shutil.ignore_patterns(STATE, TENSORS, _HASHES)
        shutil.copytree(last, work, ignore=only_training, dirs_exist_ok=True)


def _test(task: SweepTask, agents: dict[str, str]) -> dict[str, dict[str, Outcome]]:
    from ragen_bench.config.agents import Remote, make_policies
    from ragen_bench.config.run_config import RunConfig, agent_entries
    from ragen_bench.evaluation.run_table import read_run
    from ragen_bench.evaluation.runner import play_missing, play_run
    from ragen_bench.evaluation.spending import Budget

    remote = Remote()
    entries = agent_entries(list(agents.values()), remote.settings)
    config = RunConfig(agents=entries, suite=task.suite)
    policies = partial(make_policies, sampling=task.suite.sampling, remote=remote)
    play_missing(TEST, config, play_run, policies, Budget(), None, retry_errors=TEST.exists())
    run = read_run(TEST)
    _check_played(run.samples)
    return {
        name: {test: outcome_of(list(run.samples[agent, test].values())) for test in task.suite.tasks}
        for name, agent in agents.items()
    }


def _check_played(samples: Mapping[tuple[str, str], Mapping[int | None, Episode]]) -> None:
    """Refuse tests in which an episode of a model ended in an error, which says nothing about the model.

    The task fails, and plays these episodes again when it is retried. A control that fails would do so again.
    """
    for (agent, test), sample in samples.items():
        failed = [episode for episode in sample.values() if episode.error is not None]
        if failed and agent not in CONTROLS:
            raise RagenError(
                f"{len(failed)} of {len(sample)} episodes of '{agent}' on {test} ended in an error: "
                f"{failed[0].error}"
            )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), TRAIN_ONLY in sys.argv[2:]))
