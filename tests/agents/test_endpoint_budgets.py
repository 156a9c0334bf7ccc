"""Endpoints with a budget, and the cache of replies that were paid for."""

import json

import pytest
from endpoint_bench import GAMES, bench, words
from endpoint_server import EndpointServer, completion, plays
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import load_config

pytestmark = pytest.mark.usefixtures("impatient")


def test_a_budget_stops_a_run_that_a_larger_one_ends(server, tmp_path, capsys):
    expected = bench(server, tmp_path / "whole")
    server.bodies.clear()
    out, prices = tmp_path / "run", tmp_path / "prices.yaml"
    prices.write_text("m: {input: 1000, output: 10000}\n")
    few = ["--concurrency", "2", "--prices", prices]
    bench(server, out, *few, "--token-limit", 3200, code=3)
    assert len(server.bodies) in (10, 11)  # 320 tokens each; one more may be in flight
    shown = capsys.readouterr()
    assert "tokens are used; finished episodes are kept" in shown.err
    assert "missing" in shown.out
    bench(server, out, *few, "--token-limit", 3200, code=3)
    assert len(server.bodies) in (10, 11)
    bench(server, out, *few, "--cost-limit", 10, code=3)  # 0.5 each
    assert len(server.bodies) in (20, 21)
    assert "of 10 is spent" in capsys.readouterr().err
    usage = (out / "usage.jsonl").read_bytes()
    (out / "usage.jsonl").write_bytes(usage[:-5])
    assert bench(server, out, *few, "--cost-limit", 1000) == expected
    assert main(["verify", str(out)]) == 0


def test_time_over_is_a_clean_stop(tmp_path, capsys):
    server = EndpointServer(faults=1.0, kinds=("hang",))
    with server:
        bench(server, tmp_path / "run", "--time-limit", "0.2s", code=3)
        assert "0.2 s are over" in capsys.readouterr().err
        server.faults = 0.0
        assert len(bench(server, tmp_path / "run")) == 24


def test_a_cache_asks_for_nothing_twice(server, tmp_path):
    greedy = ["--temperature", "0", "--cache", tmp_path / "cache"]
    expected = bench(server, tmp_path / "a", *greedy)
    asked = len(server.bodies)
    assert bench(server, tmp_path / "b", *greedy) == expected
    assert len(server.bodies) == asked
    bench(server, tmp_path / "c", *greedy, "--max-reply-tokens", "99")
    assert len(server.bodies) == 2 * asked
    (tmp_path / "cache").write_bytes(b"no database" * 100)
    assert main(words(server, tmp_path / "d", *greedy)) == 2


def test_replies_are_kept_unless_that_is_refused(server, tmp_path):
    for name, *options in (("sampled",), ("greedy", "--temperature", "0"), ("none", "--no-cache")):
        bench(server, tmp_path / name, *options, games=GAMES[:1])
        kept = (tmp_path / name / "responses.sqlite").exists()
        assert kept == (name != "none")


def test_a_budget_below_one_episode_has_a_table_and_says_why_it_ended(server, tmp_path, capsys):
    limits = ["--concurrency", "1", "--token-limit", 200]
    bench(server, tmp_path / "run", *limits, "--by", "solution_length", games=GAMES[1:2], code=3)
    assert "of 200 tokens are used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--token-limit", 0), ("--time-limit", "0"), ("--timeout", "ten")],
)
def test_limits_that_cannot_be_are_named_by_their_option(option, value, server, tmp_path, capsys):
    assert main(words(server, tmp_path / "run", option, value, games=GAMES[:1])) == 2
    assert f"error: {option} is " in capsys.readouterr().err


def test_small_budgets_buy_each_reply_once(server, tmp_path):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    bodies = sorted(map(json.dumps, server.bodies))
    cost = sum(line["prompt_tokens"] + line["reply_tokens"] for line in usage(tmp_path / "whole"))
    server.bodies.clear()
    out = tmp_path / "run"
    for limit in range(1500, cost, 1500):
        bench(server, out, "--token-limit", limit, games=GAMES[1:2], code=3)
        spent = sum(line["prompt_tokens"] + line["reply_tokens"] for line in usage(out))
        if limit > 1500:  # the cost of a reply is known
            assert limit <= spent < limit + 2 * 320
    assert bench(server, out, games=GAMES[1:2]) == expected
    assert sorted(map(json.dumps, server.bodies)) == bodies


def usage(out):
    return [json.loads(line) for line in (out / "usage.jsonl").read_text().splitlines()]


def test_a_run_is_resumed_at_another_address(server, tmp_path, capsys):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    asked, out = len(server.bodies), tmp_path / "run"
    with EndpointServer() as first:
        bench(first, out, "--token-limit", 2000, games=GAMES[1:2], code=3)
        spent = len(first.bodies)
    server.bodies.clear()
    assert bench(server, out, games=GAMES[1:2]) == expected
    assert f"was played at {first.url} and continues at {server.url}" in capsys.readouterr().err
    assert len(server.bodies) == asked - spent
    endpoint = load_config(out).agents[0].endpoint
    assert (endpoint.base_url, endpoint.also_at) == (first.url, [server.url])
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize("kind", ["wrong_types", "no_choices"])
def test_answers_that_are_of_no_use_and_probes_are_counted(kind, server, tmp_path):
    server.faults, server.kinds = 0.3, (kind,)
    bench(server, tmp_path / "run", "--max-retries", "0", games=GAMES[:1])
    probes = [body for body in server.answered if body["messages"][-1]["content"] == "Hello"]
    assert probes
    counted = sum(line["prompt_tokens"] + line["reply_tokens"] for line in usage(tmp_path / "run"))
    assert counted == 320 * (len(server.answered) + len(server.hit))


def test_withheld_replies_do_not_end_a_run_with_a_limit(server, tmp_path):
    def withhold(body, _):
        begun = len(body["messages"]) > 2
        return {**completion(""), "choices": []} if begun else completion(plays(body))

    server.answer = withhold
    expected = bench(server, tmp_path / "free", games=GAMES[1:2])
    assert bench(server, tmp_path / "limited", "--token-limit", 10**6, games=GAMES[1:2]) == expected
