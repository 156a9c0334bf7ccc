"""Evaluate agents and compare them: the functions behind ``ragen bench`` and ``ragen compare``."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ragen_agents.policies import CONTROLS
from ragen_bench.api.run import Run
from ragen_bench.config import agents as known_agents
from ragen_bench.config.agents import Agents, Remote, check_ability, default_agents, name_agents
from ragen_bench.config.run_config import ENTRY, RunConfig, agent_entries, default_directory
from ragen_bench.config.suites import Suite, adapt_suite, at_least_one, check_suite, load_suite
from ragen_bench.console.tables import Table
from ragen_bench.evaluation.comparison import Side, compare_sides, comparison_grid, read_side, side_of
from ragen_bench.evaluation.options import Endpoint, Limits, cache_file, make_budget, make_remote
from ragen_bench.evaluation.ray_cluster import RayCluster, check_placement, players_on
from ragen_bench.evaluation.runner import Player, play_missing, play_run
from ragen_envs.registration import text_ids


def evaluate(
    agents: Agents | None = None,
    *,
    suite: str | Path | Suite = "core",
    games: str | Sequence[str] = (),
    levels: str | Path | None = None,
    split: str | None = None,
    episodes: int | None = None,
    attempts: int = 1,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
    temperature: float | None = None,
    max_reply_tokens: int | None = None,
    out: str | Path | None = None,
    retry_errors: bool = False,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    headers: Mapping[str, str] | None = None,
    stop: Sequence[str] | None = None,
    extra_body: Mapping[str, Any] | None = None,
    tools: bool = False,
    system: Literal["role", "merge"] = "role",
    timeout: float | str = "3m",
    max_retries: int = 9,
    concurrency: int = 32,
    cache: str | Path | bool | None = None,
    cost_limit: float | None = None,
    token_limit: int | None = None,
    time_limit: float | str | None = None,
    prices: str | Path | None = None,
    backend: str = "local",
    gpus: float | None = None,
) -> Run:
    """Play agents on the levels of a suite, as ``ragen bench`` does, and return the run.

    An existing run directory is resumed: no episode is lost or played twice. It also works where an event
    loop runs already, as in a notebook, which ``await asyncio.to_thread(rb.evaluate, ...)`` does not block;
    cancelling that does not end the run, budgets do. Messages name options as the command line does:
    ``--out`` is ``out``.

    Args:
        agents: One agent, several, or a mapping from names to agents. An agent is a name of the command line
            ("random", "oracle", "starter", "openai:MODEL", "hf:NAME", "module:Agent"), the folder of a model
            or a GGUF file, a `Policy` or `AsyncPolicy`, a function of a `Request` that returns a text or a
            `Reply`, or a class or an object with such a method ``reply``. An async function replies to
            ``concurrency`` requests at once, another one to one after the other. A run knows an object by its
            name and its source, so give one with other settings another name. By default the controls and the
            starter.
        suite: A suite, its name, or the path of its YAML file.
        games: Play only these: games of the suite, or others by name or id.
        levels: File of levels that the only game plays instead of the suite's, all of them by default.
        split: "train", "validation" or "test", instead of the suite's; a leaderboard takes test levels.
        episodes: Levels per game, instead of the suite's.
        attempts: Attempts at each level, for pass@k and pass^k.
        settings: Settings of the conversation or the game, such as ``{"think": False}``.
        seed: Seed of the agents' sampling; the levels stay the same.
        temperature: Sampling temperature of language models, instead of the suite's; 0 is greedy.
        max_reply_tokens: Maximum tokens per reply, instead of the suite's.
        out: Run directory; by default under ``runs/``, named after suite, agents and settings.
        retry_errors: Play episodes again that ended in an error or exceeded the model's context.
        base_url: Endpoint of "openai:MODEL", such as http://localhost:8000/v1; OpenAI's by default.
        api_key_env: Environment variable with the endpoint's key.
        headers: Further headers of requests, each with the environment variable that holds its value.
        stop: Texts at which the replies of models end, here or behind an endpoint.
        extra_body: Merged into every request; None removes a field.
        tools: Whether the model acts through tool calls instead of text.
        system: "merge" puts the system message at the beginning of the first user message, for models
            without a system role.
        timeout: Maximum time per request: seconds, or a text such as "3m".
        max_retries: Maximum number of times a failed request is sent again.
        concurrency: Maximum number of concurrent episodes of endpoints and functions.
        cache: File in which replies of endpoints are cached; by default one in the run directory;
            False for none.
        cost_limit: Maximum cost of the run; needs ``prices``.
        token_limit: Maximum tokens of the run, prompts and replies together.
        time_limit: Stop after this time.
        prices: YAML file of the prices of a million tokens.
        backend: "local", or "ray" for the cluster at ``RAY_ADDRESS``.
        gpus: GPUs that each chunk of levels requests from Ray.

    Returns:
        The run; ``stopped`` says which limit ended it early, if one did.

    Raises:
        RagenError: An argument is wrong, or the run cannot continue.
        KeyboardInterrupt: Ctrl-C was pressed; the message says what is saved.
    """
    check_placement(backend, gpus)
    at_least_one("attempts", attempts)
    chosen = adapt_suite(
        suite if isinstance(suite, Suite) else load_suite(str(suite)),
        episodes,
        seed,
        [games] if isinstance(games, str) else list(games),
        {"temperature": temperature, "max_tokens": max_reply_tokens},
        settings or {},
        text_ids(),
        None if levels is None else str(levels),
        split,
    )
    check_suite(chosen)
    names, live = name_agents(default_agents(chosen.tasks) if agents is None else agents, concurrency)
    endpoint = Endpoint(
        base_url, api_key_env, headers, stop, extra_body, tools, system, timeout, max_retries, concurrency,
        cache,
    )  # fmt: skip
    remote = make_remote(endpoint, names, live)
    check_ability([name for name in names if name not in live], chosen.tasks)
    entries = agent_entries(names, remote.settings, live)
    config = RunConfig(agents=entries, suite=chosen, attempts=attempts)
    budget = make_budget(config, Limits(cost_limit, token_limit, time_limit, prices), live)
    folder = default_directory(config) if out is None else Path(out)

    def make_players(lacking: Iterable[str]) -> dict[str, Player]:
        given = set(lacking)
        players: dict[str, Player] = {name: live[name].policy for name in live if name in given}
        weights = {a.name: a.weights for a in entries if a.name in given and not a.live}
        if backend == "ray" and weights:  # a cluster is connected to only if there is work for it
            cluster = RayCluster(1, gpus or 0.0)
            return players | players_on(cluster, weights, chosen.sampling, remote)
        return players | known_agents.make_policies(weights, sampling=chosen.sampling, remote=remote)

    cached = cache_file(endpoint, folder)
    return Run(folder, play_missing(folder, config, play_run, make_players, budget, cached, retry_errors))


def compare(a: Run | str | Path, b: Run | str | Path) -> Table:
    """Compare two agents on the levels that both have played, as ``ragen compare`` does.

    Args:
        a: A run with one agent besides controls, or "RUN:AGENT".
        b: The same, or the name of an agent of A's run. A control that A's run lacks is played first, in a
            run directory beside it.

    Returns:
        A row for each game and measure; see `ragen_bench.evaluation.comparison.compare_sides` for the
        columns.

    Raises:
        RagenError: There is no such run or agent, or they cannot be compared.
    """
    return comparison(*find_sides(a, b))


def find_sides(a: Run | str | Path, b: Run | str | Path, checked: bool = True) -> tuple[Side, Side]:
    """Return the two sides of a comparison; see `compare`."""
    first = _side(a, checked=checked)
    is_control = b in CONTROLS and not Path(str(b)).is_dir()
    return first, _control_beside(first, str(b)) if is_control else _side(b, first, checked)


def comparison(a: Side, b: Side) -> Table:
    """Return the table of a comparison; see `compare`."""
    data, notes = compare_sides(a, b)
    grids = {
        str(measure).capitalize(): comparison_grid(rows, str(measure))
        for measure, rows in data.groupby("measure", sort=False)
    }
    return Table.of(data, grids, notes)


def _side(given: Run | str | Path, other: Side | None = None, checked: bool = True) -> Side:
    if isinstance(given, Run):
        return side_of(given.records, None, str(given.folder))
    if other is not None and given in [agent.name for agent in other.run.config.agents]:
        return Side(other.run, str(given))
    return read_side(str(given), other, checked)


def _control_beside(other: Side, control: str) -> Side:
    """Return a control on the levels of a run, which has played it or does so now."""
    run = other.run
    if control in [agent.name for agent in run.config.agents]:
        return Side(run, control)
    config = run.config.model_copy(update={"agents": agent_entries([control], Remote().settings)})
    folder = default_directory(config)
    if not (run.folder / ENTRY).is_file():  # beside entries there are only entries
        folder = run.folder.parent / folder.name
    played = evaluate(control, suite=config.suite, attempts=config.attempts, out=folder)
    return Side(played.records, control)
