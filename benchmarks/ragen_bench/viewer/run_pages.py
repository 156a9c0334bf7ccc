"""Write the pages of one or several runs: a table of their agents, and a viewer of episodes."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode
from ragen_bench.analysis.ledger import Ledger
from ragen_bench.analysis.summary import (
    Explained,
    explain_run,
    instructive_agents,
    invalid_reply,
    most_instructive,
    summarise_ledgers,
)
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.comparison import Side, pair_episodes
from ragen_bench.evaluation.run_table import Run, incomplete, summarise
from ragen_bench.viewer.frames import first_frame, name_in_viewer, show_episode
from ragen_bench.viewer.templates import new_site, page_templates, refuse_other_folder, tile_set, write_page
from ragen_envs.errors import RagenError


def _unfinished(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        which = f"{run.folder}: " if len(runs) > 1 else ""
        yield from (f"{which}{note}" for note in incomplete(run))


def _check_pair(a: Run, b: Run) -> None:
    if a.folder.resolve() == b.folder.resolve():
        raise RagenError(f"'{b.folder}' is given twice")
    pairs = [
        pair_episodes(Side(a, one), Side(b, other), task)
        for one, task in a.samples
        for other, same in b.samples
        if task == same
    ]
    if not any(pairs):
        raise RagenError(f"{a.folder} and {b.folder} have no level in common")


def _distinct_names(runs: Sequence[Run]) -> dict[tuple[int, str], str]:
    """Return a name for each agent by the number of its run and its name there."""
    entries = [(i, agent.name) for i, run in enumerate(runs) for agent in run.config.agents]
    counts = Counter(name for _, name in entries)
    return {(i, name): name if counts[name] == 1 else str(Side(runs[i], name)) for i, name in entries}


def _joined(runs: Sequence[Run], names: dict[tuple[int, str], str]) -> Run:
    first = runs[0]
    agents = [
        entry.model_copy(update={"name": names[i, entry.name]})
        for i, run in enumerate(runs)
        for entry in run.config.agents
    ]
    tasks = {name: task for run in runs for name, task in run.config.suite.tasks.items()}
    suite = first.config.suite.model_copy(update={"tasks": tasks})
    samples = {
        (names[i, agent], task): {
            key: episode.model_copy(update={"agent": names[i, agent]}) for key, episode in sample.items()
        }
        for i, run in enumerate(runs)
        for (agent, task), sample in run.samples.items()
    }
    config = first.config.model_copy(update={"agents": agents, "suite": suite})
    return Run(first.folder, config, samples, torn=any(run.torn for run in runs))


_LISTED: Final = 5
"""Turns that the first page names for each agent."""


def write_run_pages(runs: Sequence[Run], out: Path, track: Track) -> None:
    """Write the pages of runs, in the place of older ones."""
    for run in runs:
        if not run.samples:
            raise RagenError(f"'{run.folder}' has no episodes yet")
    for a, b in combinations(runs, 2):
        _check_pair(a, b)
    refuse_other_folder(out)
    names = _distinct_names(runs)
    joined = _joined(runs, names) if len(runs) > 1 else runs[0]
    controls = frozenset(name for (_, own), name in names.items() if own in CONTROLS)
    explained = explain_run(joined, track)
    notes = [*own_level_notes(joined.config.suite.tasks), *_unfinished(runs), *explained.left_out]
    title = ", ".join(str(run.folder) for run in runs)
    with new_site(out) as new:
        _Pages(title, joined, controls, explained, notes, new).write()


class _Pages:
    def __init__(
        self, title: str, run: Run, controls: Collection[str], explained: Explained, notes: Sequence[str],
        out: Path,
    ) -> None:  # fmt: skip
        self._run, self._controls, self._explained, self._notes = run, controls, explained, notes
        names = dict.fromkeys(agent for agent, _ in self._run.samples)
        self._slugs = {name: _slug(number, name) for number, name in enumerate(names)}
        played = {task for _, task in run.samples}
        self._games = [task for task in run.config.suite.tasks if task in played]
        templates = page_templates()
        templates.globals.update(base="run_base.html.j2", run=title)
        self._write = partial(write_page, templates, out)

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
            agent: [self._lesson(each) for each in most_instructive(self._explained, agent, _LISTED)]
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
        samples = {name: list(self._run.samples[name, game].values()) for name in self._players(game)}
        values = beside_values(samples, {name: f"../{self._link(name, game)}" for name in samples})
        self._write(f"beside/{game}.html", "beside.html", game=game, agents=values)

    def _viewer(self, agent: str, game: str, episodes: Sequence[Episode]) -> None:
        ledgers = {judged.episode.key: judged for judged in self._explained.ledgers.get((agent, game), ())}
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

    def _lesson(self, judged: Ledger) -> dict[str, Any]:
        episode, turn = judged.episode, judged.worst
        link, name = self._link(episode.agent, episode.task), name_in_viewer(episode)
        return {
            "link": f"{link}#{name}/{first_frame(episode, turn)}",
            "task": episode.task,
            "name": name,
            "turn": turn + 1,
            "decision": judged.decisions[turn],
            "played": episode.turns[turn].executed,
            "invalid": invalid_reply(episode.turns[turn]),
        }

    def _link(self, agent: str, game: str) -> str:
        return f"episodes/{self._slugs[agent]}/{game}.html"


def viewer_values(episodes: Sequence[Episode], ledgers: Mapping[Any, Ledger]) -> dict[str, Any]:
    """Return the values of the viewer's template for one agent's episodes of a game."""
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


def beside_values(samples: Mapping[str, Sequence[Episode]], links: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the values of each agent for the page that shows two; None where success is not defined."""
    return [
        {
            "name": name,
            "link": links[name],
            "solved": {
                e.instance.index: e.success if e.has_success else None for e in sample if e.attempt == 0
            },
        }
        for name, sample in samples.items()
    ]


def _slug(number: int, name: str) -> str:
    """Return a folder's name for an agent, whose own may hold slashes and colons."""
    return f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-.')[:40] or 'agent'}"
