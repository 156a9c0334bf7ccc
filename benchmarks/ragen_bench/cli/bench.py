"""``ragen bench``: play agents on a suite and print the table."""

import sys
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.options import RAY, BackendOption
from ragen_bench.cli.run_options import (
    BenchAgents,
    BudgetOptions,
    EndpointOptions,
    RunOptions,
    SuiteName,
)
from ragen_envs.errors import install_hint

if TYPE_CHECKING:
    from ragen_bench.config.agents import Remote
    from ragen_bench.config.run_config import RunConfig
    from ragen_bench.evaluation.runner import MakePlayers, Player


@expand_groups
def bench(
    agent: BenchAgents = None,
    suite: SuiteName = "core",
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
    attempts: Annotated[
        int,
        typer.Option(
            min=1, max=1024, metavar="N", help="Attempts at each level, for pass@N and pass^N."
        ),
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
    from ragen_bench.cli.endpoint_options import make_budget, make_remote
    from ragen_bench.cli.run_and_report import run_and_report
    from ragen_bench.config.agents import check_sight, make_policies, normalise_agents
    from ragen_bench.config.run_config import make_config
    from ragen_bench.config.suites import adapt_suite, check_suite, load_suite
    from ragen_bench.evaluation.ray_cluster import check_placement
    from ragen_bench.evaluation.runner import play_run
    from ragen_envs.registration import text_ids

    check_placement(backend, gpus)
    chosen = adapt_suite(
        load_suite(suite),
        options.episodes,
        options.seed,
        options.game,
        options.sampling,
        options.settings,
        text_ids(),
    )
    check_suite(chosen)
    agents = normalise_agents(agent or _default_agents())
    remote = make_remote(endpoint, agents)
    check_sight(agents, chosen.tasks)
    config = make_config(chosen, agents, remote.settings, attempts)
    budget = make_budget(config, limits)
    players = (
        _on_ray(config, remote, gpus or 0.0)
        if backend == "ray"
        else partial(make_policies, sampling=chosen.sampling, remote=remote)
    )
    run_and_report(config, play_run, players, budget, options, endpoint)


def _on_ray(config: "RunConfig", remote: "Remote", gpus: float) -> "MakePlayers[Player]":
    """Return what makes players on a cluster, which is connected to where there is work left."""

    def make(agents: Iterable[str]) -> "dict[str, Player]":
        from ragen_bench.evaluation.ray_cluster import RayCluster, players_on

        weights = {agent.name: agent.weights for agent in config.agents}
        missing = {name: weights[name] for name in agents}
        if not missing:
            return {}
        return players_on(RayCluster(1, gpus), missing, config.suite.sampling, remote)

    return make


def _default_agents() -> list[str]:
    """Return the controls and the starter, which is left out where its packages are missing."""
    if all(map(find_spec, ("torch", "transformers"))):
        return ["random", "starter", "oracle"]
    hint = install_hint("models")
    print(f"note: skipping the starter model, which needs torch; {hint}", file=sys.stderr)
    return ["random", "oracle"]
