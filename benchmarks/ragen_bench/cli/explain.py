"""``ragen explain``: what each agent's turns cost, by the exact oracle."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragen_bench.cli.options import FormatOption, RunArgument, UncheckedOption, WideOption
from ragen_bench.console.formats import Format, percent, print_table

if TYPE_CHECKING:
    from ragen_bench.analysis.ledger import Ledger
    from ragen_bench.analysis.summary import Explained

_SHOWN: Final = 5
"""Episodes named for each agent."""


def explain(
    run: RunArgument,
    thoughts: Annotated[
        bool, typer.Option("--thoughts", help="Check by the rules what the agents' thoughts claim.")
    ] = False,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
    unchecked: UncheckedOption = False,
) -> None:
    """Show where agents lost, according to the exact oracle: regret, blunders, luck-corrected success."""
    if thoughts:
        _explain_thoughts(run, style, wide, not unchecked)
        return
    from ragen_bench.analysis.summary import decision_grid, explain_run, summarise_ledgers
    from ragen_bench.config.own_levels import own_level_notes
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.notes import all_error_notes
    from ragen_bench.evaluation.run_table import incomplete
    from ragen_bench.leaderboard.store import read_explainable

    read = read_explainable(run, not unchecked)
    with bar("explaining") as tick:
        explained = explain_run(read, tick)
    data = summarise_ledgers(read, explained)
    notes = [*own_level_notes(read.config.suite.tasks), *explained.left_out]
    notes += incomplete(read.missing, len(read.config.keys), read.torn)
    agents = [agent.name for agent in read.config.agents]
    notes += all_error_notes(read)
    if style in (Format.TABLE, Format.MARKDOWN):
        notes += list(_worst_episodes(explained, agents))
    print_table(
        data, decision_grid(data), style, f"Decisions, {run}", notes, {"run": str(run)}, wide
    )


def _explain_thoughts(run: Path, style: Format, wide: bool, checked: bool) -> None:
    from ragen_bench.api.run import Run
    from ragen_bench.console.formats import plain_rows

    read = Run(run, checked=checked)
    table, compared = read.thoughts(), read.thoughts(compare=True)
    facts = {"run": str(run), "compared": plain_rows(compared)}
    tables = [table] if style in (Format.CSV, Format.JSON) or compared.empty else [table, compared]
    for each in tables:
        ((title, grid),) = each.grids.items()
        print_table(each, grid, style, title, each.notes, facts, wide)


def _worst_episodes(explained: "Explained", agents: list[str]) -> Iterator[str]:
    from ragen_bench.analysis.summary import instructive_agents, most_instructive

    for agent in instructive_agents(agents):
        found = most_instructive(explained, agent, _SHOWN)
        if found:
            yield f"turns of {agent} to look at first:\n" + "\n".join(map(_line, found))


def _line(found: "Ledger") -> str:
    from ragen_bench.analysis.summary import invalid_reply
    from ragen_bench.viewer.frames import name_in_viewer

    episode, turn = found.episode, found.worst
    name = name_in_viewer(episode)
    decision = found.decisions[turn]
    played = " ".join(episode.turns[turn].executed) or "nothing"
    played += invalid_reply(episode.turns[turn])
    before, after = percent(decision.value), percent(decision.committed)
    lost = f" ({decision.blunder})" if decision.blunder else ""
    return (
        f"  {episode.task} level {name}, turn {turn + 1}: {before} -> {after}%{lost}\n"
        f"    played {played}; the oracle: {' '.join(decision.plan)}"
    )
