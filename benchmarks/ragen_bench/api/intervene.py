"""Measure what true and false statements in thoughts are worth: the functions behind ``ragen intervene``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_agents.policies.python_agent import is_python_agent
from ragen_bench.api.evaluate import evaluate
from ragen_bench.api.run import Run
from ragen_bench.config.agents import OPENAI, AgentLike, Remote, make_policies, weights_of
from ragen_bench.config.suites import Suite, adapt_suite, load_suite
from ragen_bench.console.formats import Cells, Grid, grid_of, percent_interval, percents
from ragen_bench.console.tables import Table
from ragen_bench.evaluation.comparison import Side, compare_sides, pair_episodes, read_side
from ragen_bench.evaluation.notes import all_error_notes
from ragen_bench.evaluation.run_table import mean
from ragen_bench.runs.directory import EPISODES
from ragen_bench.stats.paired import holm
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.game.claims import MOVE, PLACE, ClaimingFace
from ragen_envs.registration import text_ids

if TYPE_CHECKING:
    from ragen_agents.policies.language_models import LanguageModelPolicy

KINDS: Final = {"outcomes": MOVE, "places": PLACE}
"""Statements that can be written into thoughts, and their kind of claim."""
_ARMS: Final = {"true": "all true", "false": "first false"}
"""The arms beside the untouched one, and how the table calls them."""
_NOTE: Final = (
    "all true: what a true thought would be worth; first false: what a lie costs. The rules write the "
    "statements, the model chooses all actions. changed: episodes whose first reply differs from the "
    "untouched one"
)


def intervene(target: str | Path, write: str = "outcomes", **options: Any) -> Table:
    """Measure how true and false statements in its thoughts change an agent's success.

    Args:
        target: A model that runs in this process, or "RUN" or "RUN:AGENT" for its agent, levels and settings.
        write: "outcomes" of moves, or "places".
        **options: Those of `ragen_bench.evaluate`: games, episodes, settings, seed, out and others.

    Returns:
        A row for each game and arm; see `intervention_table`.

    Raises:
        RagenError: The agent is not a model that runs in this process, or an option is wrong.
    """
    return intervention_table(play_arms(target, write, **options))


def play_arms(target: str | Path, write: str = "outcomes", **options: Any) -> Run:
    """Play an agent untouched, with true and with false statements; arguments are those of `intervene`."""
    if write not in KINDS:
        raise RagenError(f"cannot write '{write}'; write {' or '.join(KINDS)}")
    agent, suite, stop = str(target), load_suite("core"), []
    folder = Path(agent if Path(agent).is_dir() else agent.partition(":")[0])
    if (folder / EPISODES).is_file():
        side = read_side(agent)
        agent, suite = side.agent, side.run.config.suite
        stop = next(entry.stop for entry in side.run.config.agents if entry.name == agent)
        options = {"attempts": side.run.config.attempts, **options}
    decoding = {"temperature": options.get("temperature"), "max_tokens": options.get("max_reply_tokens")}
    games = options.pop("games", ())
    games = [games] if isinstance(games, str) else list(games)
    suite = adapt_suite(suite, None, None, games, decoding, {}, text_ids())
    tasks = {
        name: task
        for name, task in suite.tasks.items()
        if isinstance(make(task.env, **task.settings).face, ClaimingFace)
    }
    if not tasks:
        raise RagenError(f"{', '.join(suite.tasks)}: the thoughts of no game here can be checked")
    from ragen_agents.policies.language_models import Intervened

    policy = _language_model(agent, suite, stop)
    name = f"{Path(agent).name.replace(':', '_')}-{(weights_of(agent) or 'hub')[:8]}"
    arms: dict[str, AgentLike] = {
        f"{name}+{write}-{arm}": Intervened(policy, arm == "true", KINDS[write]) for arm in _ARMS
    }
    suite = suite.model_copy(update={"tasks": tasks})
    return evaluate({name: policy, **arms}, suite=suite, **options)


def _language_model(agent: str, suite: Suite, stop: list[str]) -> "LanguageModelPolicy":
    from ragen_agents.policies.language_models import LanguageModelPolicy

    elsewhere = agent.startswith(OPENAI) or is_python_agent(agent)
    remote = Remote(EndpointSettings(stop=stop))
    policy = None if elsewhere else make_policies([agent], suite.sampling, remote)[agent]
    if not isinstance(policy, LanguageModelPolicy):
        raise RagenError(
            f"agent '{agent}' does not generate in this process, so nothing can be written into its "
            "thoughts; use starter, the folder of a model, FILE.gguf or hf:NAME"
        )
    return policy


def intervention_table(run: Run) -> Table:
    """Compare the success of a run's arms with the untouched model, paired by level.

    Columns: ``game``, ``arm``, ``n`` episodes, the success of the ``untouched`` model and of the arm,
    ``success``, their ``difference`` with its 95% interval ``low`` and ``high``, its ``p``, and ``p_holm``,
    adjusted over all rows; ``changed``, the share of episodes whose first reply differs.
    """
    untouched, *arms = (Side(run.records, agent) for agent in run.agents)
    rows = []
    for side in arms:
        data, _ = compare_sides(side, untouched)
        for row in data[data["measure"] == "success"].to_dict("records"):
            pairs = pair_episodes(side, untouched, row["game"])
            changed = [[t.reply for t in a.turns[:1]] != [t.reply for t in b.turns[:1]] for a, b in pairs]
            rows.append(
                {
                    "game": row["game"], "arm": side.agent.rpartition("-")[2], "n": row["n"],
                    "untouched": row["b"], "success": row["a"],
                    **{name: row[name] for name in ("difference", "low", "high", "p")},
                    "changed": mean(changed),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows).sort_values("game", kind="stable", ignore_index=True)
    table.insert(9, "p_holm", holm(table["p"].to_numpy()))
    notes = [_NOTE, *all_error_notes(run.records)]
    return Table.of(table, {f"Interventions, {run.folder}": _grid(table)}, notes)


def _grid(data: pd.DataFrame) -> Grid:
    columns: dict[str, Cells] = {
        "game": "game",
        "statements": lambda row: _ARMS[row["arm"]],
        "untouched %": percents("untouched"),
        "success %": percents("success"),
        "difference, points\n[95% CI]": lambda row: percent_interval(
            row["difference"], row["low"], row["high"]
        ),
        "p Holm": lambda row: f"{row['p_holm']:.3g}",
        "changed %": percents("changed"),
        "n": "n",
    }
    return grid_of(data, columns, left=2, hideable=("n", "changed %"))
