"""Write the pages of one or several runs: a table of their agents, and a viewer of episodes."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode, TurnRecord
from ragen_agents.rollout.claims import CheckedThought
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.analysis.ledger import Decision, Ledger
from ragen_bench.analysis.summary import (
    Explained,
    explain_run,
    instructive_agents,
    invalid_reply,
    most_instructive,
    summarise_ledgers,
)
from ragen_bench.analysis.thoughts import check_episode
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.comparison import Side, check_splits, pair_episodes
from ragen_bench.evaluation.run_table import Run, incomplete, summarise
from ragen_bench.runs.records import replay_spec
from ragen_bench.viewer.templates import new_site, page_templates, refuse_other_folder, tile_set, write_page
from ragen_envs.conversation import ConversationWrapper
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.oracle import Action, Budget
from ragen_envs.game.text import GRID, action_texts
from ragen_envs.games.frozen_lake import dynamics as lake
from ragen_envs.games.frozen_lake.env import FrozenLakeEnv


def _unfinished(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        which = f"{run.folder}: " if len(runs) > 1 else ""
        yield from (f"{which}{note}" for note in incomplete(run))


def _check_pair(a: Run, b: Run) -> None:
    if a.folder.resolve() == b.folder.resolve():
        raise RagenError(f"'{b.folder}' is given twice")
    check_splits(a, b)
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
    """Return the values of each agent for the page of two agents."""
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


def show_episode(episode: Episode, judged: Ledger | None) -> dict[str, Any]:
    """Return an episode as plain data.

    ``frames`` has the start of every turn and each action after it: ``turn`` (from 0, one beyond the
    last for the closing board), ``action``, ``reward``, ``effective``, ``slipped`` where the ice led
    elsewhere, and the board as rows of the game's standard symbols, or, for games without a board, its
    words. The first frame of a turn has ``best``, the oracle's actions, or None beyond its limit. Each turn
    has its decision of the ledger, if there is one, and the claims of its thought.
    """
    try:
        frames = list(_frames(episode))
    except RagenError:
        raise
    except ValueError as error:  # of actions that the game does not have, or without their rewards
        raise RagenError(f"{episode.key} does not replay; see ragen verify") from error
    decisions = [None] * len(episode.turns) if judged is None else judged.decisions
    thoughts = check_episode(episode) or [CheckedThought((), ())] * len(episode.turns)
    return {
        "index": episode.instance.index,
        "name": name_in_viewer(episode),
        "success": episode.success if episode.has_success else None,
        "end": episode.end.words,
        "return": round(episode.episode_return, 6),
        "optimum": None if episode.optimal_success is None else round(episode.optimal_success, 6),
        "key": episode.instance.key,
        "error": escape_unprintable(episode.error or ""),
        "system": episode.system,
        "closing": episode.closing,
        "turns": [
            {**_turn(turn), "decision": decision and _decision(decision), "claims": _claims(turn, thought)}
            for turn, decision, thought in zip(episode.turns, decisions, thoughts, strict=True)
        ],
        "frames": frames,
    }


def name_in_viewer(episode: Episode) -> str:
    """Return an episode's name in lists and addresses: the level, and from the second one the attempt."""
    level = str(episode.instance.index)
    return level if episode.attempt == 0 else f"{level}-{episode.attempt + 1}"


def first_frame(episode: Episode, turn: int) -> int:
    """Return the number of the frame with which a turn, counted from 0, begins."""
    return sum(1 + len(before.executed) for before in episode.turns[:turn])


def _decision(decision: Decision) -> dict[str, Any]:
    rounded = {name: round(getattr(decision, name), 6) for name in ("value", "after", "regret", "luck")}
    return {**rounded, "blunder": decision.blunder}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    return {
        "user": turn.user,
        "reply": escape_unprintable(turn.reply, kept="\n\t"),
        "reasoning": escape_unprintable(turn.reasoning or "", kept="\n\t"),
        "defects": list(turn.defects),
        "soft_defects": list(turn.soft_defects),
        "penalty": turn.penalty,
        "actions": list(turn.actions),
        "tokens": turn.reply_tokens,
    }


def _claims(turn: TurnRecord, thought: CheckedThought) -> list[Any]:
    """Return the span of each claim in the reply as shown, whether it is true, and the truth."""
    return [
        [_shown(turn.reply[: claim.start]), _shown(turn.reply[: claim.end]), claim.true, claim.fact]
        for claim in thought.claims
        if claim.true is not None
    ]


def _shown(text: str) -> int:
    """Return the length of a text as a script counts it, in UTF-16."""
    return len(escape_unprintable(text, kept="\n\t").encode("utf-16-le")) // 2


def _frames(episode: Episode) -> Iterator[dict[str, Any]]:
    env = make_env(replay_spec(episode))
    left = env.budget
    for number, turn in enumerate(episode.turns):
        yield {"turn": number, "best": _best(env, left), "board": _board(env)}
        for name, reward, effective in zip(turn.executed, turn.rewards, turn.effective, strict=True):
            slipped = _act(env, env.action_of(name))
            yield {
                "turn": number, "action": name, "reward": reward, "effective": effective,
                "slipped": slipped, "board": _board(env),
            }  # fmt: skip
        left = Budget(left.actions - len(turn.executed), left.turns - 1, left.actions_per_turn)
    if not episode.turns:
        yield {"turn": 0, "best": _best(env, left), "board": _board(env)}


def _act(env: ConversationWrapper, action: Action) -> bool:
    """Play an action and return whether the walker slipped to another cell than it leads to."""
    game: Any = env.unwrapped
    if not isinstance(game, FrozenLakeEnv) or isinstance(action, str):
        game.act(action)
        return False
    meant = lake.walk(game.position, action, game.height, game.width)
    game.act(action)
    return bool(game.position != meant)


def _best(env: ConversationWrapper, left: Budget) -> list[str] | None:
    """Return the oracle's actions for a turn, under what is left of the budget; None beyond its limit."""
    try:
        advice = env.unwrapped.oracle(left)  # type: ignore[attr-defined]
    except SolverLimitError:
        return None
    return list(action_texts(env.names, advice.actions))


def _board(env: ConversationWrapper) -> list[str]:
    return env.face.observation(env.unwrapped, GRID, env.face.vocabularies["standard"]).split("\n")
