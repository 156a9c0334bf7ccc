"""``ragen view``, ``explain``, ``intervene`` and ``export``: look at what agents did, and why."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from ragen_bench.cli.options import FormatOption, RunArgument, UncheckedOption, WideOption, expand_groups
from ragen_bench.cli.run_options import RunOptions
from ragen_bench.console.formats import Format, percent, print_table
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.analysis.ledger import Ledger
    from ragen_bench.analysis.summary import Explained
    from ragen_bench.api.run import Run


def view(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="A run directory, or several to see side by side.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the pages to a folder instead of serving them.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port of the server; 0 for any free one.")
    ] = 0,
    unchecked: UncheckedOption = False,
) -> None:
    """Show a run in a browser, or the agents of several runs side by side.

    For a run of ragen bench, the pages show boards, replies, and what the oracle would have done; for runs
    of ragen match and ragen train, they show conversations. For a task of ragen train-sweep, they show its
    test; its training run is in the subfolder train.

    To view several runs together, they must be runs of ragen bench with the same settings. If several of
    them have an agent of the same name, it is shown as RUN:AGENT.
    """
    from ragen_bench.viewer.templates import serve_folder

    if out is not None:
        _write(runs, out, not unchecked)
        print(out / "index.html")
        return
    with tempfile.TemporaryDirectory(prefix="ragen-view-") as folder:
        _write(runs, Path(folder) / "site", not unchecked)
        print("press Ctrl-C to stop", file=sys.stderr)
        serve_folder(Path(folder) / "site", port)


def _write(runs: list[Path], out: Path, checked: bool) -> None:
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.match_table import read_match_run
    from ragen_bench.evaluation.run_table import incomplete
    from ragen_bench.leaderboard.store import read_explainable
    from ragen_bench.training_sweeps import TASK, TEST
    from ragen_bench.viewer import transcripts
    from ragen_bench.viewer.run_pages import write_run_pages

    folders = [run / TEST if (run / TASK).is_file() and (run / TEST).is_dir() else run for run in runs]
    commands, title = [_command(folder, checked) for folder in folders], str(folders[0])
    if commands == ["train"]:
        samples = transcripts.read_training_samples(folders[0])
        transcripts.write_transcript_pages(title, ("Iteration", "Kind"), samples, out)
        return
    if commands == ["match"]:
        read = read_match_run(folders[0], checked)
        matches = transcripts.match_transcripts(read)
        transcripts.write_transcript_pages(title, ("Game", "Agent"), matches, out, incomplete(read))
        return
    for folder, command in zip(folders, commands, strict=True):
        if command != "bench":
            raise RagenError(
                f"'{folder}' is a run of ragen {command}; only runs of ragen bench can be viewed together"
            )
    read_runs = [read_explainable(folder, checked) for folder in folders]
    write_run_pages(read_runs, out, bar("judging"))


def _command(run: Path, checked: bool) -> Literal["bench", "match", "train"]:
    from ragen_bench.config.run_config import ENTRY, MatchConfig, load_config
    from ragen_bench.viewer.transcripts import SAMPLES

    if (run / SAMPLES).is_file():
        return "train"
    if (run / ENTRY).is_file():
        return "bench"
    return "match" if isinstance(load_config(run, checked), MatchConfig) else "bench"


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
    from ragen_bench.api.run import Run

    read = Run(run, checked=not unchecked)
    if thoughts:
        _explain_thoughts(read, style, wide)
        return
    table = read.explain()
    if style in (Format.TABLE, Format.MARKDOWN):
        table.notes = [*table.notes, *_worst_episodes(read.explained, read.agents)]
    print_table(table, style, {"run": str(run)}, wide)


def _explain_thoughts(read: "Run", style: Format, wide: bool) -> None:
    from ragen_bench.console.formats import plain_rows

    table, compared = read.thoughts(), read.thoughts(compare=True)
    facts = {"run": str(read.folder), "compared": plain_rows(compared)}
    print_table(table, style, facts, wide)
    if style in (Format.TABLE, Format.MARKDOWN) and not compared.empty:
        print()
        print_table(compared, style, wide=wide)


def _worst_episodes(explained: "Explained", agents: list[str]) -> Iterator[str]:
    from ragen_bench.analysis.summary import instructive_agents, most_instructive

    for agent in instructive_agents(agents):
        ledgers = most_instructive(explained, agent, _SHOWN)
        if ledgers:
            yield f"turns of {agent} to look at first:\n" + "\n".join(map(_line, ledgers))


def _line(ledger: "Ledger") -> str:
    from ragen_bench.analysis.summary import invalid_reply
    from ragen_bench.viewer.frames import name_in_viewer

    episode, turn = ledger.episode, ledger.worst
    name = name_in_viewer(episode)
    decision = ledger.decisions[turn]
    played = " || ".join(episode.turns[turn].executed) or "nothing"
    played += invalid_reply(episode.turns[turn])
    before, after = percent(decision.value), percent(decision.committed)
    lost = f" ({decision.blunder})" if decision.blunder else ""
    return (
        f"  {episode.task} level {name}, turn {turn + 1}: {before} -> {after}%{lost}\n"
        f"    played {played}; the oracle: {' || '.join(decision.plan)}"
    )


@expand_groups
def intervene(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_AGENT",
            help="RUN or RUN:AGENT, whose levels and settings are played again; or starter, the folder of a "
            "model, FILE.gguf or hf:NAME, on the games of core that can check thoughts.",
        ),
    ],
    *,
    write: Annotated[
        str, typer.Option(metavar="outcomes|places", help="Statements that are written into thoughts.")
    ] = "outcomes",
    options: RunOptions,
) -> None:
    """Write true and false statements into an agent's thoughts, and measure what that does to its success.

    The rules of the game write the outcomes of moves, while the model generates and chooses every action:
    all of them true, or the first of each reply false. Arms are paired by level and seed. An existing run
    directory is resumed.
    """
    from ragen_bench.api.intervene import intervention_table, play_arms
    from ragen_bench.cli.score import print_closing, saying_what_is_saved

    with saying_what_is_saved():
        run = play_arms(target, write, **options.arguments)
    print_table(intervention_table(run), options.style, {"run": str(run.folder)}, options.wide)
    failed = sum(episode.is_failure for episode in run.records.episodes)
    print_closing(run.folder, failed, run.stopped)


def export(
    run: RunArgument,
    kind: Annotated[
        Literal["parquet", "jsonl", "hf", "inspect"], typer.Option("--format", help="Format of the files.")
    ] = "parquet",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the files.",
            show_default="a folder of the run, named after the format",
        ),
    ] = None,
    unchecked: UncheckedOption = False,
) -> None:
    """Write a run's episodes in a format that other tools read.

    parquet, jsonl: two tables, a row for each episode and a row for each turn. hf: the Parquet tables with a
    card, which datasets.load_dataset(DIR) reads. inspect: logs of Inspect (inspect_ai), one for each agent
    and game; view them with inspect view --log-dir DIR.
    """
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.run_table import read_run

    read = read_run(run, not unchecked)
    target = out or run / kind
    if kind == "inspect":
        from ragen_bench.export.inspect_logs import write_inspect_logs

        print(*write_inspect_logs(read, target, bar("writing")), sep="\n")
        return
    from ragen_bench.export.flat_tables import write_tables

    print(*write_tables(read, target, kind), sep="\n")
