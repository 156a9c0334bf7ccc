"""``ragen match``: play agents with and against each other, and print who did how well with whom."""

from ragen_bench.cli import run_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.console.formats import Format

DEFAULT_AGENTS = ["random", "noop", "oracle"]


def match(
    agent: options.MatchAgents = None,
    suite: options.SuiteName = "match",
    episodes: options.Episodes = None,
    game: options.Games = None,
    out: options.Out = None,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    max_reply_tokens: options.MaxReplyTokens = None,
    resume: options.Resume = True,
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
    """Play the games of several players, every agent on every seat with every agent on the others.

    Prints self-play and cross-play tables. A run directory that is there already is gone on with.
    """
    from ragen_bench.cli.endpoint_options import make_budget, make_remote
    from ragen_bench.cli.run_and_report import Storage, conduct
    from ragen_bench.config.agents import normalise_agents
    from ragen_bench.config.run_config import MatchConfig, agent_entries
    from ragen_bench.config.suites import adapt_suite, load_suite
    from ragen_bench.match.match_player import count_seats, play_match_run
    from ragen_envs.multi_agent import MULTI_AGENT_GAMES

    sampling = {"temperature": temperature, "max_tokens": max_reply_tokens}
    ids = [listed.text_id for listed in MULTI_AGENT_GAMES]
    chosen = adapt_suite(load_suite(suite), episodes, seed, game, sampling, ids)
    remote = make_remote(base_url, key_variable, stop, extra_body, timeout, tries, concurrency)
    agents = normalise_agents(agent or DEFAULT_AGENTS)
    seats = count_seats(chosen, agents)
    entries = agent_entries(agents, remote.settings)
    config = MatchConfig(agents=entries, suite=chosen, seats=seats)
    budget = make_budget(config, max_cost, max_tokens, max_time, prices)
    storage = Storage(out, resume, cache, no_cache)
    conduct(config, play_match_run, remote, budget, storage, style)
