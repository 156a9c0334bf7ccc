"""Agents behind an endpoint: really over HTTP, through faults and kills."""

import asyncio
import json
import logging
import os
import random
import signal
import time

import pytest
import yaml
from endpoint_bench import GAMES, bench, everything, records, table, words
from endpoint_server import FAULTS, EndpointServer, completion, failure, plays
from forked import start
from ragen_bench.__main__ import main
from ragen_bench.runs.records import read_records

from ragen_agents.policies.endpoint.policy import Gate
from ragen_agents.rollout import Episode

pytestmark = pytest.mark.usefixtures("impatient")
KEY = "sk-test-3141592653589793"


# --- faults --------------------------------------------------------------------------------------


def test_faults_change_nothing(server, tmp_path, capsys):
    expected = bench(server, tmp_path / "calm", "--agent", "random", episodes=12)
    with EndpointServer(faults=0.3) as faulty:
        # Another server is another endpoint of the run's config, and nothing else.
        found = bench(faulty, tmp_path / "faulty", "--agent", "random", "--timeout", "1s",
                      episodes=12)  # fmt: skip
        assert set(faulty.hit) == set(FAULTS)
    assert found == expected
    assert table(tmp_path / "faulty", capsys) == table(tmp_path / "calm", capsys)
    assert main(["verify", str(tmp_path / "faulty")]) == 0


def test_an_empty_answer_after_other_faults_is_retried(server, tmp_path):
    busy = [(500, failure("busy")), (429, failure("slow down")), (500, failure("busy"))]
    answers = [completion("first"), *busy, {**completion(""), "choices": []}]
    server.answer = lambda body, _: answers.pop(0) if answers else completion(plays(body))
    bench(server, tmp_path / "run", "--concurrency", 1, episodes=2, games=GAMES[:1])
    assert not answers
    assert all(turn["reply"] for episode in records(tmp_path / "run") for turn in episode["turns"])


@pytest.mark.parametrize("concurrency", [1, 3])
def test_results_do_not_depend_on_concurrency(concurrency, server, tmp_path):
    def answer(body, _):
        return completion(f"{plays(body)}{body['seed']}")

    server.answer = answer
    expected = bench(server, tmp_path / "a", episodes=4)
    assert bench(server, tmp_path / "b", "--concurrency", concurrency, episodes=4) == expected


def test_killed_at_several_moments_each_episode_is_there_once(tmp_path):
    import asyncio

    async def answer(body, _):
        await asyncio.sleep(0.02)
        return completion(plays(body))

    rng, kills, out = random.Random(1), 0, tmp_path / "killed"
    with EndpointServer(answer) as server:
        what = {"episodes": 24, "games": GAMES[1:]}
        run = words(server, out, "--concurrency", "4", **what)
        while kills < 2:
            target = _lines(out) + rng.randint(0, 6)
            process = start(["-m", "ragen_bench", *run], stdout=os.devnull)
            while process.is_alive() and (not out.exists() or _lines(out) < target):
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            process.join()
            assert process.exitcode == -9, "ended before it was killed"
            kills += 1
        assert 0 < _lines(out) < 48
        found = bench(server, out, **what)
        assert found == bench(server, tmp_path / "whole", **what)
    assert len(read_records(out / "episodes.jsonl", Episode).episodes) == 48
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_real_ctrl_c_keeps_what_was_said(sent, tmp_path):
    import asyncio

    async def answer(body, _):
        await asyncio.sleep(0.02)
        return completion(plays(body))

    with EndpointServer(answer) as server:
        what = {"episodes": 32, "games": GAMES[1:]}
        out = tmp_path / "run"
        command = ["-m", "ragen_bench", *words(server, out, "--concurrency", "4", **what)]
        process = start(command, stdout=os.devnull, stderr=tmp_path / "error")
        while process.is_alive() and not _lines(out):
            time.sleep(0.002)
        os.kill(process.pid, sent)
        process.join(300)
        error = (tmp_path / "error").read_text()
        assert process.exitcode == 128 + sent
        assert "the same command resumes" in error
        assert "Traceback" not in error
        assert 0 < _lines(out) < 64
        assert bench(server, out, **what) == bench(server, tmp_path / "whole", **what)


def _lines(out):
    path = out / "episodes.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("kind", ["hang", "reset", "500"])
def test_an_endpoint_that_stops_answering_ends_in_one_line(kind, server, tmp_path, capsys):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    server.bodies.clear()
    server.answer = lambda body, _: _until(server, 12, kind, body)
    server.kinds = (kind,)
    bench(server, tmp_path / "run", "--max-retries", 1, "--timeout", "2s" if kind != "hang" else "0.5s",
          "--concurrency", 2, games=GAMES[1:2], code=2)  # fmt: skip
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "answers neither this request nor a small one" in error[0]
    assert "the same command resumes" in error[0]
    kept = len(records(tmp_path / "run"))
    assert 0 < kept < 8
    server.answer, server.faults = lambda body, _: completion(plays(body)), 0.0
    assert bench(server, tmp_path / "run", games=GAMES[1:2]) == expected


def _until(server, count, kind, body):
    """Answer a few requests well, and misbehave for ever after."""
    if len(server.bodies) >= count:
        server.faults = 1.0
    return completion(plays(body))


def test_nobody_waits_for_a_slow_reply(tmp_path):
    """The first reply comes when all other episodes have ended, which lock-step never sees."""
    import asyncio

    async def answer(body, _):
        if server.slow is None:
            server.slow = body["messages"]
            while _lines(tmp_path / "run") < 7:
                await asyncio.sleep(0.01)
        return completion(plays(body))

    with EndpointServer(answer) as server:
        server.slow = None
        assert len(bench(server, tmp_path / "run", games=GAMES[1:2])) == 8


def test_a_server_that_takes_few_requests_is_asked_less(server, tmp_path):
    import asyncio

    expected = bench(server, tmp_path / "whole")
    state = {"open": 0, "refused": 0}

    async def answer(body, _):
        if state["open"] >= 3:
            state["refused"] += 1
            return 429, failure("slow down"), [("Retry-After", "0.02")]
        state["open"] += 1
        await asyncio.sleep(0.01)
        state["open"] -= 1
        return completion(plays(body))

    with EndpointServer(answer) as busy:
        assert bench(busy, tmp_path / "busy", "--concurrency", 24, "--max-retries", 49) == expected
        assert 0 < state["refused"] < len(busy.bodies) / 2


def test_a_request_that_is_cancelled_in_a_pause_gives_its_place_to_the_next():
    async def cancelled():
        gate = Gate(1)
        gate.slow_down(time.monotonic(), 0.05)
        paused, next_one = (asyncio.create_task(_enter(gate)) for _ in range(2))
        await asyncio.sleep(0.01)
        paused.cancel()
        await asyncio.wait_for(next_one, 5)
        return paused.cancelled()

    async def _enter(gate):
        async with gate.place():
            pass

    assert asyncio.run(cancelled())


# --- whom an error concerns ----------------------------------------------------------------------


def test_a_base_url_without_v1_is_named(server, tmp_path, capsys):
    server.answer = lambda *_: (404, b"")
    url = server.url.removesuffix("/v1")
    bench(server, tmp_path / "run", "--base-url", url, code=2)
    assert (
        f"error: openai:m: HTTP 404 from {url}/chat/completions; the base URL usually ends in /v1: try "
        f"--base-url {url}/v1\n"
    ) in capsys.readouterr().err


@pytest.mark.parametrize(("games", "named"), [(GAMES[:1], "1 game ·"), (GAMES[:2], "2 games ·")])
def test_the_games_of_an_agent_are_counted(games, named, server, tmp_path, capsys):
    bench(server, tmp_path / "run", games=games)
    assert f"{named} openai:m" in capsys.readouterr().err


def test_a_price_that_is_missing_is_named_as_it_is_written(server, tmp_path, capsys):
    prices = tmp_path / "prices.yaml"
    prices.write_text("other: {input: 1, output: 1}\n")
    more = ["--cost-limit", "1", "--prices", str(prices)]
    assert main(words(server, tmp_path / "run", *more)) == 2
    assert f"'{prices}' has no price for 'm'; add m: {{input: …" in capsys.readouterr().err


def test_prompts_that_outgrow_the_context_are_records(server, tmp_path):
    long = "This model's maximum context length is 512 tokens. However, you requested 600 tokens"
    server.answer = lambda body, _: (
        (400, failure(long)) if len(body["messages"]) > 2 else completion(plays(body))
    )
    found = bench(server, tmp_path / "run", games=GAMES[1:2])
    assert {e["end"] for e in found} <= {"overflow", "terminated"}
    assert any(e["end"] == "overflow" and len(e["turns"]) == 1 for e in found)
    assert main(["verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_request_that_alone_fails_is_a_record(status, server, tmp_path, capsys):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    poison = expected[3]["turns"][0]["user"]
    server.answer = lambda body, _: (
        (status, failure("not this one"))
        if body["messages"][-1]["content"] == poison
        else completion(plays(body))
    )
    found = bench(server, tmp_path / "run", "--max-retries", 1, games=GAMES[1:2])
    assert found[3]["end"] == "error"
    assert found[3]["error"].startswith("RequestFailedError: ")
    assert found[3]["error"].endswith(f"HTTP {status}: not this one")
    assert [e for e in found if e["end"] != "error"] == [*expected[:3], *expected[4:]]
    assert main(["verify", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    assert "errors" in shown.out
    assert "1 episode ended in an error or exceeded the model's context; use --retry" in shown.err
    server.answer = lambda body, _: completion(plays(body))
    assert bench(server, tmp_path / "run", "--max-retries", 1, games=GAMES[1:2]) == found
    again = bench(server, tmp_path / "run", "--max-retries", 1, "--retry-errors", games=GAMES[1:2])
    assert again == expected
    assert main(["verify", str(tmp_path / "run")]) == 0
    kept = (tmp_path / "run" / "errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["error"] for line in kept] == [found[3]["error"]]


@pytest.mark.parametrize("status", [302, 308])
def test_prompts_go_to_no_other_host(status, server, tmp_path, capsys):
    with EndpointServer() as other:
        target = f"{other.url}/chat/completions"
        server.answer = lambda *_: (status, {}, [("Location", target)])
        bench(server, tmp_path / "run", code=2)
        assert other.bodies == []
    error = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert len(error) == 1
    assert f"redirects to {target}" in error[0]
    assert "redirects are not followed" in error[0]


def test_a_reply_in_parts_is_read_whole(server, tmp_path):
    def answer(body, _):
        text = plays(body)
        parts = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
        return completion(parts)

    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    server.answer = answer
    assert bench(server, tmp_path / "run", games=GAMES[1:2]) == expected


def test_what_a_server_says_cannot_act_on_the_terminal(server, tmp_path, capsys):
    server.answer = lambda *_: (401, failure("no \x1b[2J \u202e key"))
    bench(server, tmp_path / "run", code=2)
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "no ⟨U+001B⟩[2J ⟨U+202E⟩ key" in shown


# --- the key -------------------------------------------------------------------------------------


def _echo(status):
    def answer(body, headers):
        told = f"you sent {headers['authorization']} and {KEY}"
        if status == 200:
            return completion(f"{plays(body)} {told}", reasoning_content=told)
        return status, failure(told) if status != 404 else told.encode()

    return answer


@pytest.mark.parametrize("status", [200, 401, 500])
def test_the_key_is_shown_nowhere(status, server, tmp_path, capsys, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answer = _echo(status)
    out = tmp_path / "run"
    code = main(words(server, out, "--max-retries", 1, games=GAMES[:1]))
    assert code == (0 if status == 200 else 2)
    if status == 200:
        assert main(["verify", str(out)]) == main(["show", str(out)]) == 0
        assert "[key]" in records(out)[0]["turns"][0]["reply"]
        assert "[key]" in records(out)[0]["turns"][0]["reasoning"]
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err + caplog.text
    assert KEY.encode() not in everything(tmp_path)


def test_another_variable_may_hold_the_key(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    seen = []
    server.answer = lambda body, h: seen.append(h["authorization"]) or completion(plays(body))
    bench(server, tmp_path / "run", "--api-key-env", "MY_KEY", games=GAMES[:1])
    assert set(seen) == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--base-url", f"https://me:{KEY}@host/v1"], "must have no user, password"),
        (["--base-url", "host:80"], "http or https URL"),
        (["--base-url", "https://api.openai.com/v1", "--api-key-env", "NONE"], "variable NONE"),
        (["--extra-body", json.dumps({"user": KEY})], "the key is part of the settings"),
        (["--extra-body", '{"model": "other"}'], "'model' is set by the harness"),
        (["--concurrency", "0"], "concurrency is 0"),
        (
            ["--cost-limit", "1"],
            "of 'm': pass --prices FILE with the line m: {input: …, output: …}",
        ),
        (["--token-limit", "0"], "--token-limit is 0"),
        (["--cache", "x", "--no-cache"], "contradict"),
        (["--agent", "starter", "--suite", "PICTURES"], "is text-only"),
    ],
)
def test_wrong_words(more, named, server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    more = [str(picture_suite(tmp_path)) if word == "PICTURES" else word for word in more]
    games = () if "--suite" in more else GAMES
    bench_words = words(server, tmp_path / "run", *more, games=games)
    assert main(bench_words) == 2
    error = capsys.readouterr().err
    assert named in error
    assert KEY not in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("body", [{"api_key": KEY}, {"a": [{"Authorization": f"Bearer {KEY}"}]}])
def test_secrets_in_the_body_are_not_recorded(body, server, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(words(server, out, "--extra-body", json.dumps(body))) == 2
    error = capsys.readouterr().err
    assert "extra_body has the field" in error
    assert KEY not in error
    assert not out.exists()


@pytest.mark.parametrize(
    "option", [["--api-key-env", KEY], ["--api-key-env", "gsk_2a"], ["--header", f"A: {KEY}"],
               ["--header", f"A={KEY}"]],
)  # fmt: skip
def test_a_key_in_the_place_of_a_name_is_not_repeated(option, server, tmp_path, capsys):
    assert main([*words(server, tmp_path / "run"), *option]) == 2
    error = capsys.readouterr().err
    assert option[1].split("=")[-1].removeprefix("A: ") not in error
    assert option[0] in error


# --- what is asked, what is kept -----------------------------------------------------------------


def test_requests_say_what_the_config_says(server, tmp_path):
    extra = {"max_tokens": None, "max_completion_tokens": 77, "chat": {"think": True}}
    more = [
        "--temperature",
        "0.7",
        "--max-reply-tokens",
        "77",
        "--stop",
        "</answer>",
        "--seed",
        "5",
    ]
    found = bench(server, tmp_path / "run", *more, "--extra-body", json.dumps(extra), episodes=3)
    bodies = server.bodies
    assert len(bodies) == sum(len(e["turns"]) for e in found)
    assert len({body["seed"] for body in bodies}) == len(bodies)
    assert all(0 <= body["seed"] < 1 << 31 for body in bodies)
    for body in bodies:
        del body["seed"], body["messages"]
        assert body == {
            "model": "m", "temperature": 0.7, "stop": ["</answer>"], "max_completion_tokens": 77,
            "chat": {"think": True},
        }  # fmt: skip
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["agents"][0]["endpoint"]["extra_body"] == extra
    bench(server, tmp_path / "run", *more, episodes=3, code=2)


def test_thoughts_are_kept_and_missing_token_counts_estimated(server, tmp_path, capsys):
    def answer(body, _):
        full = completion(plays(body), reasoning="Ünd so, " * 10)
        return {"choices": full["choices"]}

    server.answer = answer
    found = bench(server, tmp_path / "run")
    turns = [turn for e in found for turn in e["turns"]]
    assert {turn["reasoning"] for turn in turns} == {"Ünd so, " * 10}
    assert all(turn["tokens_estimated"] and turn["prompt_tokens"] > 50 for turn in turns)
    assert "token counts of openai:m are estimates" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_thoughts_in_parts_of_the_content_are_kept(server, tmp_path):
    """As Mistral's reasoning models send them."""

    def answer(body, _):
        found = completion(plays(body))
        thought = [
            {"type": "text", "text": "I go "},
            {"type": "text", "text": "down."},
            {"type": "reference"},
        ]
        text = {"type": "text", "text": found["choices"][0]["message"]["content"]}
        parts = [{"type": "thinking", "thinking": thought, "closed": True}, text]
        found["choices"][0]["message"]["content"] = parts
        return found

    server.answer = answer
    turns = [turn for e in bench(server, tmp_path / "run") for turn in e["turns"]]
    assert {turn["reasoning"] for turn in turns} == {"I go down."}
    assert all(turn["reply"].startswith("<") for turn in turns)


def test_thoughts_that_only_the_total_counts_are_counted(server, tmp_path, capsys):
    def answer(body, _):
        found = completion(plays(body))
        found["usage"]["total_tokens"] = 300 + 20 + 900
        return found

    server.answer = answer
    more = ["--concurrency", 1, "--token-limit", 5000]
    found = bench(server, tmp_path / "run", *more, games=GAMES[:1], code=3)
    assert {turn["reply_tokens"] for e in found for turn in e["turns"]} == {920}
    assert len(server.bodies) == 5  # 1220 tokens each
    assert "tokens are used" in capsys.readouterr().err


def test_records_of_the_first_version_are_read_but_not_taken_for_new_ones(server, tmp_path, capsys):
    bench(server, tmp_path / "run")
    path = tmp_path / "run" / "episodes.jsonl"
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    for episode in episodes:
        episode["schema_version"] = 1
        del episode["random_success"], episode["random_return"]
        for turn in episode["turns"]:
            del turn["picture"], turn["reasoning"], turn["tokens_estimated"]
            del turn["soft_defects"]
    path.write_text("".join(json.dumps(episode) + "\n" for episode in episodes))
    (tmp_path / "run" / "episodes.sha256").unlink()
    assert main(["show", str(tmp_path / "run")]) == 0
    # Nobody can leave out the exact baselines by calling a record an old one.
    assert main(["verify", str(tmp_path / "run")]) == 1
    assert "random_success: recorded None, recomputed 0." in capsys.readouterr().err


# --- pictures ------------------------------------------------------------------------------------


def picture_suite(folder):
    settings = {"observation": "image", "history": "last"}
    tasks = {
        "Sokoban": {"env": "ragen/SokobanText-v0", "settings": settings},
        "Bandit": {"env": "ragen/BanditText-v0", "settings": settings},
    }
    path = folder / "pictures.yaml"
    path.write_text(yaml.safe_dump({"name": "see", "version": 1, "episodes": 4, "tasks": tasks}))
    return path


def test_boards_are_sent_and_kept_as_pictures(server, tmp_path, capsys):
    import base64
    import io

    from PIL import Image

    out = tmp_path / "run"
    more = ["--agent", "oracle", "--suite", picture_suite(tmp_path)]
    found = bench(server, out, *more, episodes=4, games=())
    last = max(server.bodies, key=lambda body: len(body["messages"]))["messages"]
    users = [m["content"] for m in last if m["role"] == "user"]
    assert [m["role"] for m in last] == ["system", "user", "assistant", "user"]
    sent = {json.dumps(m) for body in server.bodies for m in body["messages"]}
    assert len({json.loads(m)["content"][1]["image_url"]["url"] for m in sent if "url" in m}) > 8
    url = users[0][1]["image_url"]["url"]
    image = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    assert image.size == (288, 288)
    assert "#" not in users[0][0]["text"] + last[0]["content"]
    shown = {turn["picture"] for e in found if e["agent"] == "openai:m" for turn in e["turns"]}
    assert {path.stem for path in (out / "pictures").iterdir()} == shown
    assert main(["verify", str(out)]) == 0

    cached = [*more, "--cache", tmp_path / "cache"]
    for name in ("first", "second"):
        assert bench(server, tmp_path / name, *cached, episodes=4, games=()) == found
        assert main(["verify", str(tmp_path / name)]) == 0

    one = next((out / "pictures").iterdir())
    image.rotate(90).save(one)
    assert main(["verify", str(out)]) == 1
    assert one.name in capsys.readouterr().err
    one.unlink()
    assert main(["verify", str(out)]) == 1
    assert "no file" in capsys.readouterr().err


# --- a real model --------------------------------------------------------------------------------


def test_a_served_model_plays_as_the_one_in_process(tmp_path):
    """Greedy replies of the starter over HTTP are those of ``--agent starter``."""
    pytest.importorskip("torch")
    from ragen_agents.policies import Request, Sampling, make_policy

    model = make_policy("starter", Sampling(0.0, 200))

    def answer(body, _):
        (reply,) = model.act([Request(body["messages"], body["seed"], None)])
        found = completion(reply.text)
        found["choices"][0]["finish_reason"] = "length" if reply.cut_off else "stop"
        found["usage"] = {"prompt_tokens": reply.prompt_tokens,
                          "completion_tokens": reply.reply_tokens}  # fmt: skip
        return found

    with EndpointServer(answer) as server:
        out = tmp_path / "run"
        found = bench(server, out, "--agent", "starter", "--temperature", "0", episodes=3)
    by_agent = {}
    for episode in found:
        by_agent.setdefault(episode.pop("agent"), []).append(episode)
    assert by_agent["openai:m"] == by_agent["starter"]
    assert main(["verify", str(out)]) == 0
