"""A reproduction as one HTML page: claims, table, curves, and episodes to step through."""

import base64
from collections.abc import Iterator
from pathlib import Path

import jinja2

from ragen_agents.rollout import Episode
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.console.formats import Grid
from ragen_bench.reproduction.reproduction_config import Column
from ragen_bench.runs.directory import EPISODES
from ragen_bench.runs.records import read_records
from ragen_bench.sweeps.state import TaskState
from ragen_bench.sweeps.work import TEST


def render_page(
    title: str,
    scale: str,
    notes: list[str],
    claims: Grid,
    table: Grid,
    second_table: tuple[str, Grid] | None,
    drawing: str | None,
    episodes: list[tuple[str, list[Episode]]],
) -> str:
    """Return the page; it runs no script and asks for nothing elsewhere."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ragen_bench"), autoescape=True)
    source = None
    if drawing is not None:
        source = "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode()
    return environment.get_template("reproduction.html.j2").render(
        title=title, scale=scale, notes=notes, claims=claims, table=table,
        second_table=second_table, drawing=source, episodes=episodes,
    )  # fmt: skip


def sample_episodes(
    root: Path, states: list[TaskState], columns: list[Column]
) -> list[tuple[str, list[Episode]]]:
    """Return a solved and an unsolved episode of each cell's first seed, where its replies are there.

    Results that are kept have no replies; only the folder in which a task was done has them.
    """
    found = []
    for state in states:
        task = state.task
        path = root / (state.source or task).path / TEST / EPISODES
        if task.seed == 0 and state.result is not None and path.exists():
            tests = [column.test for column in columns if column.train == task.game]
            found.append((f"{task.game}, {task.cell}", list(_first_of_each(path, tests))))
    return found


def _first_of_each(path: Path, tests: list[str]) -> Iterator[Episode]:
    episodes = [
        episode for episode in read_records(path, Episode).episodes if episode.task in tests[:1]
    ]
    for solved in (True, False):
        first = next((episode for episode in episodes if episode.success is solved), None)
        if first is not None:
            turns = [
                t.model_copy(update={"reply": escape_unprintable(t.reply, kept="\n\t")})
                for t in first.turns
            ]
            yield first.model_copy(update={"turns": tuple(turns)})
