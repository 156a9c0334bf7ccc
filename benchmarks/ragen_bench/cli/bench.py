"""``ragen bench``: play agents on a suite and print the table."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli import bench_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.formats import Format

STOPPED = 3
"""Exit code of a run that stopped at its budget."""
DEFAULT_AGENTS = ["random", "starter", "oracle"]


def bench(
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="random, noop, oracle, starter, the folder of a saved model, hf:NAME, "
            "openai:MODEL behind an endpoint, or package.module:Agent; may be given several times.  "
            "[default: random, starter, oracle]"
        ),
    ] = None,
    suite: Annotated[str, typer.Option(help="Name of a suite, or path of its YAML file.")] = "core",
    episodes: Annotated[
        int | None, typer.Option(metavar="N", help="Levels of each game, instead of the suite's.")
    ] = None,
    game: Annotated[
        list[str] | None,
        typer.Option(help="Only this game of the suite, or the text id of any; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run directory.  [default: under runs/]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of the agents' draws, not the levels'.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Of language models, instead of the suite's; 0 is greedy."),
    ] = None,
    max_reply_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most tokens of one reply, instead of the suite's."),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with a run directory that is there, or refuse to.")
    ] = True,
    style: FormatOption = Format.TABLE,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = "OPENAI_API_KEY",
    stop: options.Stop = None,
    extra_body: options.ExtraBody = None,
    timeout: options.Timeout = "3m",
    tries: options.Tries = 10,
    concurrency: options.Concurrency = 32,
    cache: options.CacheFile = None,
    no_cache: options.NoCache = False,
    max_cost: options.MaxCost = None,
    max_tokens: options.MaxTokens = None,
    max_time: options.MaxTime = None,
    prices: options.Prices = None,
) -> None:
    """Play agents on the frozen levels of a suite and print the table.

    A run directory that is there already is gone on with: nothing is lost or played twice.
    """
    from ragen_agents.policies import BudgetReachedError
    from ragen_bench.agents import check_sight, normalise_agents
    from ragen_bench.cli.show import print_run
    from ragen_bench.configs import CONFIG, default_directory, make_config
    from ragen_bench.playing import play_missing
    from ragen_bench.remote import cache_file, make_budget, make_remote
    from ragen_bench.suites import adapt_suite, check_suite, load_suite
    from ragen_envs.errors import RagenError

    sampling = {"temperature": temperature, "max_tokens": max_reply_tokens}
    chosen = adapt_suite(load_suite(suite), episodes, seed, game, sampling)
    check_suite(chosen)
    remote = make_remote(base_url, key_variable, stop, extra_body, timeout, tries, concurrency)
    agents = normalise_agents(agent or DEFAULT_AGENTS)
    check_sight(agents, chosen.tasks)
    config = make_config(chosen, agents, remote.settings)
    budget = make_budget(config, max_cost, max_tokens, max_time, prices)
    folder = out or default_directory(config)
    if not resume and (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' holds a run already; leave --no-resume out to go on with it")
    replies = cache_file(cache, no_cache, folder, chosen.sampling)
    try:
        play_missing(folder, config, remote, budget, replies)
        reached = None
    except BudgetReachedError as stopped:
        reached = stopped
    except KeyboardInterrupt:
        print(f"\ninterrupted; what is done is in {folder}, and the same command goes on",
              file=sys.stderr)  # fmt: skip
        raise typer.Exit(130) from None
    print_run(folder, style)
    print(f"run: {folder}", file=sys.stderr)
    if reached is not None:
        print(f"budget reached: {reached}; what is played is kept, and the same command with a "
              "larger budget goes on", file=sys.stderr)  # fmt: skip
        raise typer.Exit(STOPPED)
