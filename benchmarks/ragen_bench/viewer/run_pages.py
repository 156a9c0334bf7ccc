"""The pages of one or several runs: a table of their agents, and a viewer for each agent and game."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import new_folder
from ragen_bench.analysis.ledger import Ledger
from ragen_bench.analysis.summary import (
    Explained,
    explain_run,
    instructive_agents,
    invalid_reply,
    most_instructive,
    summarise_ledgers,
)
from ragen_bench.config.suite_versions import check_playable
from ragen_bench.evaluation.run_table import Run, summarise
from ragen_bench.viewer.frames import first_frame, name_in_viewer, show_episode
from ragen_bench.viewer.joined_runs import JoinedRuns, join_runs
from ragen_bench.viewer.templates import page_templates, write_assets
from ragen_bench.viewer.tile_pictures import tile_set
from ragen_envs.game.errors import RagenError

_MARK: Final = "style.css"
"""By which a folder is known to hold pages."""
_LISTED: Final = 5
"""Turns that the first page names for each agent."""


def write_run_pages(runs: Sequence[Run], out: Path, tick: Callable[[int, int], None]) -> None:
    """Write the pages of runs, in the place of older ones.

    Args:
        runs: At least one; each has episodes.
        out: The folder to write.
        tick: Called after each episode that was judged, with their number and total.

    Raises:
        RagenError: A run is empty or of another suite version, the runs cannot be compared, a record does
            not replay, or the folder holds something else or cannot be written.
    """
    for run in runs:
        check_playable(f"'{run.folder}' is a run", run.config.suite_version)
        if not run.samples:
            raise RagenError(f"'{run.folder}' has no episodes yet")
    joined = join_runs(runs)
    refuse_other_folder(out)
    explained = explain_run(joined.run, tick)
    try:
        with new_folder(out) as new:
            write_assets(new)
            _Pages(joined, explained, new).write()
    except OSError as error:
        raise RagenError(f"'{out}' cannot be written: {error.strerror}") from error


def refuse_other_folder(out: Path) -> None:
    """Raise `RagenError` if a path holds something that pages must not replace."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / _MARK).is_file())):
        raise RagenError(f"'{out}' contains something other than a site; choose another --out")


class _Pages:
    def __init__(self, joined: JoinedRuns, explained: Explained, out: Path) -> None:
        self._run, self._out, self._controls = joined.run, out, joined.controls
        self._explained = explained
        self._notes = [*joined.unfinished, *explained.left_out]
        names = dict.fromkeys(agent for agent, _ in self._run.samples)
        self._slugs = {name: _slug(number, name) for number, name in enumerate(names)}
        self._games = [
            task
            for task in self._run.config.suite.tasks
            if any(t == task for _, t in self._run.samples)
        ]
        self._templates = page_templates()
        self._templates.globals.update(base="run_base.html.j2", run=joined.title)

    def write(self) -> None:
        """Write the first page and all viewers."""
        results = summarise(self._run).to_dict("records")
        judged = {
            (row["game"], row["agent"]): row
            for row in summarise_ledgers(self._run, self._explained).to_dict("records")
        }
        rows = [
            {**judged[row["game"], row["agent"]], **row,
             "link": self._link(row["agent"], row["game"])}
            for row in results
        ]  # fmt: skip
        lessons = {
            agent: [
                self._lesson(found) for found in most_instructive(self._explained, agent, _LISTED)
            ]
            for agent in instructive_agents(self._slugs, self._controls)
        }
        shared = [game for game in self._games if len(self._players(game)) > 1]
        self._write(
            "index.html", "run.html", rows=rows, lessons=lessons, besides=shared,
            notes=self._notes,
        )  # fmt: skip
        for (agent, game), sample in self._run.samples.items():
            self._viewer(agent, game, list(sample.values()))
        for game in shared:
            self._beside(game)

    def _players(self, game: str) -> list[str]:
        return [name for name in self._slugs if (name, game) in self._run.samples]

    def _beside(self, game: str) -> None:
        samples = {name: self._run.samples[name, game].values() for name in self._players(game)}
        links = {name: f"../{self._link(name, game)}" for name in samples}
        values = beside_values({name: list(sample) for name, sample in samples.items()}, links)
        self._write(f"beside/{game}.html", "beside.html", game=game, agents=values)

    def _viewer(self, agent: str, game: str, episodes: Sequence[Episode]) -> None:
        ledgers = {
            found.episode.key: found for found in self._explained.ledgers.get((agent, game), ())
        }
        here = self._link(agent, game)
        self._write(
            here,
            "episodes.html",
            game=game,
            **viewer_values(episodes, ledgers),
            agent_links={f"../../{self._link(name, game)}": name for name in self._players(game)},
            beside=f"../../beside/{game}.html" if len(self._players(game)) > 1 else None,
            game_links={
                f"../../{self._link(agent, name)}": name
                for name in self._games
                if (agent, name) in self._run.samples
            },
            here=(f"../../{here}",),
        )

    def _lesson(self, found: Ledger) -> dict[str, Any]:
        episode, turn = found.episode, found.worst
        link, name = self._link(episode.agent, episode.task), name_in_viewer(episode)
        return {
            "link": f"{link}#{name}/{first_frame(episode, turn)}",
            "task": episode.task,
            "name": name,
            "turn": turn + 1,
            "decision": found.decisions[turn],
            "played": episode.turns[turn].executed,
            "invalid": invalid_reply(episode.turns[turn]),
        }

    def _link(self, agent: str, game: str) -> str:
        return f"episodes/{self._slugs[agent]}/{game}.html"

    def _write(self, path: str, template: str, **values: Any) -> None:
        page = self._templates.get_template(f"{template}.j2")
        text = page.render(root="../" * path.count("/"), page=path, **values)
        (self._out / path).parent.mkdir(parents=True, exist_ok=True)
        (self._out / path).write_text(text, encoding="utf-8")


def viewer_values(episodes: Sequence[Episode], ledgers: Mapping[Any, Ledger]) -> dict[str, Any]:
    """Return what the viewer's template shows of one agent's episodes of a game.

    Args:
        episodes: At least one.
        ledgers: By the key of their episode; some may be missing.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    defects = sorted({name for turn in turns for name in turn.defects})
    return {
        "data": {
            "tiles": tile_set(episodes[0].env_id),
            "episodes": [show_episode(e, ledgers.get(e.key)) for e in episodes],
        },
        "defects": defects,
        "soft_defects": sorted({n for turn in turns for n in turn.soft_defects} - set(defects)),
    }


def beside_values(
    samples: Mapping[str, Sequence[Episode]], links: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what the page of two agents knows of each agent.

    Args:
        samples: The episodes of one game, by agent.
        links: The viewer of each agent's, from that page.
    """
    return [
        {
            "name": name,
            "link": links[name],
            "solved": {e.instance.index: e.success for e in sample if e.attempt == 0},
        }
        for name, sample in samples.items()
    ]


def _slug(number: int, name: str) -> str:
    """Return a folder's name for an agent, whose own may hold slashes and colons."""
    return f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-.')[:40] or 'agent'}"
