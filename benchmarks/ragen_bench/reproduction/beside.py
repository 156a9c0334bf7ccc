"""Add agents that were only benchmarked to a table, such as an endpoint's model beside trained ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragen_agents.policies import CONTROLS
from ragen_bench.config.suites import SamplingSettings, Task
from ragen_bench.evaluation.run_table import Run, read_run
from ragen_bench.reproduction.reproduction_config import Reproduction
from ragen_bench.training_sweeps.results import Outcome, outcome_of
from ragen_bench.training_sweeps.sweep_config import core_tasks
from ragen_bench.training_sweeps.tasks import Choice, conversation_settings
from ragen_envs.errors import RagenError

ZERO_SHOT: Final = "zero-shot"
"""Design of such rows in the table."""


@dataclass(frozen=True)
class Beside:
    """An agent's outcomes under the conversation settings of a cell."""

    agent: str
    """Agent, with the cell where the cells of the table have several settings."""
    cell: str
    """The first cell with these settings."""
    test: str
    outcome: Outcome
    sampling: SamplingSettings


def read_beside(folders: Sequence[Path], exhibit: Reproduction, choice: Choice) -> list[Beside]:
    """Return the agents, but no controls, of runs of ``ragen bench`` with tests of a table."""
    agents: dict[tuple[str, str], Beside] = {}
    for folder in folders:
        run = read_run(folder)
        played = _of_run(run, exhibit, choice)
        if not played and all(agent.name in CONTROLS for agent in run.config.agents):
            raise RagenError(f"--beside is '{folder}', which has controls only; the table has its own")
        if not played:
            raise RagenError(_nothing(folder, exhibit, choice))
        for one in played:
            if (one.agent, one.test) in agents:
                raise RagenError(f"--beside is '{folder}', but another run has '{one.agent}' too")
            agents[one.agent, one.test] = one
    return list(agents.values())


def _of_run(run: Run, exhibit: Reproduction, choice: Choice) -> list[Beside]:
    if run.config.suite.split != "test":
        return []
    agents = []
    tests, levels = _tests(exhibit, choice), choice.levels
    several = len({cell for cell, _, _ in tests}) > 1
    for cell, test, wanted in tests:
        for name, task in run.config.suite.tasks.items():
            for agent in run.config.agents:
                episodes = run.samples.get((agent.name, name), {})
                first = [episodes[i] for i in range(levels) if i in episodes]
                if task == wanted and agent.name not in CONTROLS and len(first) == levels:
                    shown = f"{agent.name} (as {cell})" if several else agent.name
                    outcome, sampling = outcome_of(first), run.config.suite.sampling
                    agents.append(Beside(shown, cell, test, outcome, sampling))
    return agents


def _tests(exhibit: Reproduction, choice: Choice) -> list[tuple[str, str, Task]]:
    """Return every test of a table: the first cell with its settings, its name, and the task."""
    every: list[tuple[str, str, Task]] = []
    sweep = exhibit.load_sweep()
    for test in dict.fromkeys(column.test for column in exhibit.columns):
        for name, cell in sweep.cells.items():
            settings = conversation_settings(sweep, choice.scale, cell)
            task = Task(env=core_tasks()[test].env, settings=settings)
            if all(task != other for _, _, other in every):
                every.append((name, test, task))
    return every


def _nothing(folder: Path, exhibit: Reproduction, choice: Choice) -> str:
    tests = [
        f"{test} with {task.settings}" if task.settings else test for _, test, task in _tests(exhibit, choice)
    ]
    return (
        f"--beside is '{folder}', but no agent of that run has played the first {choice.levels} test levels "
        f"of a test of {exhibit.name}: {', '.join(tests)}"
    )
