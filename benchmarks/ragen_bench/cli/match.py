"""``ragen match``: play agents with and against each other and print the cross-play tables."""

from functools import partial
from pathlib import Path

from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.run_options import (
    BudgetOptions,
    EndpointOptions,
    MatchAgents,
    RunOptions,
    SuiteName,
)

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
    from ragen_bench.cli.run_and_report import run_and_report
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
    replies = cache_file(asked, folder)

    def play() -> tuple[Path, str | None]:
        return folder, play_missing(
            folder, config, play_match_run, policies, budget, replies, options.retry_errors
        )

    run_and_report(play, lambda folder: print_run(folder, options.style, options.wide))
