"""``ragen bench``: play agents on a suite and print the table."""

from ragen_bench.cli import run_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.console.formats import Format

DEFAULT_AGENTS = ["random", "starter", "oracle"]


def bench(
    agent: options.BenchAgents = None,
    suite: options.SuiteName = "core",
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
    """Play agents on the frozen levels of a suite and print the table.

    A run directory that is there already is gone on with: nothing is lost or played twice.
    """
    from ragen_bench.cli.endpoint_options import make_budget, make_remote
    from ragen_bench.cli.run_and_report import Storage, conduct
    from ragen_bench.config.agents import check_sight, normalise_agents
    from ragen_bench.config.run_config import make_config
    from ragen_bench.config.suites import adapt_suite, check_suite, load_suite
    from ragen_bench.evaluation.runner import play_run
    from ragen_envs.registration import text_ids

    sampling = {"temperature": temperature, "max_tokens": max_reply_tokens}
    chosen = adapt_suite(load_suite(suite), episodes, seed, game, sampling, text_ids())
    check_suite(chosen)
    remote = make_remote(base_url, key_variable, stop, extra_body, timeout, tries, concurrency)
    agents = normalise_agents(agent or DEFAULT_AGENTS)
    check_sight(agents, chosen.tasks)
    config = make_config(chosen, agents, remote.settings)
    budget = make_budget(config, max_cost, max_tokens, max_time, prices)
    storage = Storage(out, resume, cache, no_cache)
    conduct(config, play_run, remote, budget, storage, style)
