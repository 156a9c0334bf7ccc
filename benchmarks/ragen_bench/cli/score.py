"""``ragen bench``, ``match`` and ``sweep``: play agents and print the tables."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.options import RAY, BackendOption, ByOption, expand_groups
from ragen_bench.cli.run_options import (
    BenchAgents,
    BudgetOptions,
    EndpointOptions,
    MatchAgents,
    RunOptions,
    SuiteName,
)
from ragen_bench.console.formats import Format, plain_rows, print_table
from ragen_envs.errors import RagenError, install_hint

if TYPE_CHECKING:
    from ragen_bench.config.run_config import BaseConfig

STOPPED: Final = 3
"""Exit code of a run that stopped at its budget."""


@expand_groups
def bench(
    agent: BenchAgents = None,
    suite: SuiteName = "core",
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Play the levels of this file, or corridors, with the one --game: all of them unless "
            "--episodes is given.",
            show_default="those of the suite",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="train, validation or test levels.", show_default="that of the suite: test"
        ),
    ] = None,
    by: ByOption = None,
    attempts: Annotated[
        int, typer.Option(min=1, max=1024, metavar="N", help="Attempts at each level, for pass@N and pass^N.")
    ] = 1,
    backend: BackendOption = "local",
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            rich_help_panel=RAY,
            help="GPUs that each chunk of levels requests from Ray: a whole number, or a fraction.",
            show_default="0",
        ),
    ] = None,
) -> None:
    """Play agents on the frozen levels of a suite and print the table.

    An existing run directory is resumed: no episode is lost or played twice.
    """
    from ragen_bench.api.evaluate import evaluate
    from ragen_bench.cli.show import print_run

    with saying_what_is_saved():
        run = evaluate(
            agent or None,
            suite=suite,
            levels=levels,
            split=split,
            attempts=attempts,
            **options.arguments,
            **vars(endpoint.parsed),
            **vars(limits),
            backend=backend,
            gpus=gpus,
        )
    try:
        failed = print_run(run.folder, options.style, options.wide, by)
    except RagenError as error:
        raise RagenError(f"{error}; all episodes are in {run.folder}") from error
    print_closing(run.folder, failed, run.stopped)


DEFAULT_AGENTS = ["random", "noop", "oracle"]


@expand_groups
def match(
    agent: MatchAgents = None,
    suite: SuiteName = "match",
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
) -> None:
    """Play multi-agent games: every agent in every seat, with every agent in the other seats.

    Prints self-play and cross-play tables. An existing run directory is resumed.
    """
    from ragen_bench.cli.show import print_run
    from ragen_bench.config.agents import make_policies, normalise_agents
    from ragen_bench.config.run_config import MatchConfig, agent_entries, default_directory
    from ragen_bench.config.suites import adapt_suite, load_suite
    from ragen_bench.evaluation.match_player import count_seats, play_match_run
    from ragen_bench.evaluation.options import Limits, cache_file, make_budget, make_remote
    from ragen_bench.evaluation.runner import play_missing
    from ragen_envs.multi_agent import MULTI_AGENT_GAMES

    ids = [listed.text_id for listed in MULTI_AGENT_GAMES]
    chosen = adapt_suite(
        load_suite(suite),
        options.episodes,
        options.seed,
        options.game,
        options.sampling,
        options.settings,
        ids,
    )
    agents = normalise_agents(agent or DEFAULT_AGENTS)
    asked = endpoint.parsed
    remote = make_remote(asked, agents)
    seats = count_seats(chosen, agents)
    entries = agent_entries(agents, remote.settings)
    config = MatchConfig(agents=entries, suite=chosen, seats=seats)
    budget = make_budget(config, Limits(**vars(limits)))
    policies = partial(make_policies, sampling=chosen.sampling, remote=remote)
    folder = options.out or default_directory(config)

    with saying_what_is_saved():
        stopped = play_missing(
            folder, config, play_match_run, policies, budget, cache_file(asked, folder), options.retry_errors
        )
    print_closing(folder, print_run(folder, options.style, options.wide), stopped)


@expand_groups
def sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP", help="diversity, freshness, granularity, or the path of a YAML file."
        ),
    ],
    agent: BenchAgents = None,
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, metavar="N", help="Attempts at each level.", show_default="the sweep's"
        ),
    ] = None,
    level_seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="S", help="Seed of the levels that are drawn now.", show_default="the date"
        ),
    ] = None,
) -> None:
    """Play agents, without training, with different granularity, forms of the levels, or freshness.

    Points are compared on the same levels, beside random play and the optimum. A
    training run stands for its checkpoints. ragen train-sweep trains instead.

    An existing run directory is resumed: no episode is lost or played twice.
    """
    from ragen_bench.api.sweep import sweep as play_sweep

    with saying_what_is_saved():
        run = play_sweep(
            name,
            agent or None,
            attempts=attempts,
            level_seed=level_seed,
            **options.arguments,
            **vars(endpoint.parsed),
            **vars(limits),
        )
    table, shares = run.table(), run.shares()
    facts = {"run": str(run.folder), "shares": plain_rows(shares)}
    print_table(table, options.style, facts, options.wide)
    if options.style in (Format.TABLE, Format.MARKDOWN) and shares.grids:
        print()
        print_table(shares, options.style, wide=options.wide)
    for path in run.write_charts():
        print(f"chart: {path}", file=sys.stderr)
    if not find_spec("matplotlib"):
        print(f"note: charts need matplotlib; {install_hint('train')}", file=sys.stderr)
    print_closing(run.folder, int(table["errors"].sum()), run.stopped)


@contextmanager
def saying_what_is_saved() -> Iterator[None]:
    """Let Ctrl-C end the command with a message that says what is saved of the run in the block."""
    from ragen_bench.evaluation.runner import RunInterrupt

    try:
        yield
    except RunInterrupt as interrupt:
        raise InterruptedCommandError(str(interrupt)) from None


def print_closing(folder: Path, failed: int, stopped: str | None) -> None:
    """Print the directory of a run and what to do next, below its table.

    Args:
        folder: The directory.
        failed: Number of its episodes or matches that failed.
        stopped: The limit that ended it early, or None.
    """
    from ragen_bench.config.run_config import load_config

    print(f"run: {folder}", file=sys.stderr)
    for line in _closing_lines(folder, load_config(folder), failed):
        print(line, file=sys.stderr)
    if stopped is not None:
        print(f"budget reached: {stopped}; finished episodes are kept, and the same command with a "
              "larger budget resumes the run", file=sys.stderr)  # fmt: skip
        raise typer.Exit(STOPPED)


def _closing_lines(folder: Path, config: "BaseConfig", failed: int) -> Iterator[str]:
    """Yield the commands that show more of a run, each after its name, and how many episodes failed."""
    from ragen_agents.policies import CONTROLS
    from ragen_bench.config.extensions import ragen_for
    from ragen_bench.config.run_config import MatchConfig

    run, is_match = shlex.quote(str(folder)), isinstance(config, MatchConfig)
    ragen = ragen_for(task.env for task in config.suite.tasks.values())
    if not is_match:
        yield f"explain: {ragen} explain {run}"
    yield f"view: {ragen} view {run}"
    if not is_match and len(config.agents) > 1:
        names = [agent.name for agent in config.agents]
        one = next((name for name in names if name not in CONTROLS), names[1])
        other = next(name for name in names if name != one)
        yield f"compare: {ragen} compare {run}:{shlex.quote(one)} :{shlex.quote(other)}"
    yield f"verify: {ragen} verify {run}"
    if failed:
        one, many = ("match", "matches") if is_match else ("episode", "episodes")
        yield (
            f"{failed} {many if failed > 1 else one}{' had a seat that' if is_match else ''} ended in an "
            "error or exceeded the model's context; use --retry-errors to retry"
        )
