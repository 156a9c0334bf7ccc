"""What ended a reply, and whether it is one: finished, cut off, or a fault that the server reports."""

import json
import sqlite3

import pytest
from endpoint_bench import GAMES, bench
from endpoint_server import completion, failure, plays
from ragen_bench.__main__ import main

pytestmark = pytest.mark.usefixtures("impatient")


def ended(text, reason, **choice):
    found = completion(text)
    found["choices"][0] |= {"finish_reason": reason, **choice}
    return found


@pytest.mark.parametrize(
    "fault",
    [
        {"reason": "error"},
        {"reason": "stop", "error": "upstream is gone"},
    ],
)
def test_a_reply_that_the_server_did_not_complete_is_no_result(fault, server, tmp_path):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    asked = set()

    def answer(body, _):
        prompt = str(body["messages"])
        if prompt in asked:
            return completion(plays(body))
        asked.add(prompt)
        return ended("<think>I was in the mid", **fault)

    server.answer = answer
    assert bench(server, tmp_path / "run", games=GAMES[1:2]) == expected


def test_an_unknown_reason_to_end_a_reply_is_named(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-2718281828")
    server.answer = lambda body, _: ended(plays(body), "odd sk-test-2718281828")
    bench(server, tmp_path / "run", "--max-retries", 1, code=2)
    assert "did not complete its reply: finish_reason 'odd [key]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "found", [failure("the model failed to load"), {"error": "the model failed to load"}]
)
def test_an_error_with_status_200_is_shown(found, server, tmp_path, capsys):
    server.answer = lambda *_: found
    bench(server, tmp_path / "run", "--max-retries", 1, code=2)
    said = "neither this request nor a small one: the server reports an error in its answer: the model"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("tail", ["", "</answer>"])
def test_a_stop_sequence_that_the_server_leaves_out_is_put_back(tail, server, tmp_path):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    server.answer = lambda body, _: completion(plays(body).removesuffix("</answer>") + tail)
    stop = ("--stop", "</answer>")
    assert bench(server, tmp_path / "run", *stop, games=GAMES[1:2]) == expected


@pytest.mark.parametrize("reason", [None, "STOP", "content_filter"])
def test_a_finished_reply_may_have_other_reasons(reason, server, tmp_path):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    server.answer = lambda body, _: ended(plays(body), reason)
    assert bench(server, tmp_path / "run", games=GAMES[1:2]) == expected


def test_a_reply_that_runs_out_of_the_context_is_an_overflow(server, tmp_path):
    server.answer = lambda body, _: (
        ended("<think>so", "model_context_window_exceeded")
        if len(body["messages"]) > 2
        else completion(plays(body))
    )
    found = bench(server, tmp_path / "run", games=GAMES[1:2])
    assert {e["end"] for e in found} <= {"overflow", "terminated"}
    assert "overflow" in {e["end"] for e in found}


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS"])
def test_a_reply_cut_off_by_its_limit(reason, server, tmp_path):
    def answer(body, _):
        found = completion(None, reasoning_content="hm")
        found["choices"][0]["finish_reason"] = reason
        found["usage"]["completion_tokens"] = 5000  # more than asked for, as some servers do
        return found

    server.answer = answer
    (first, *_) = bench(server, tmp_path / "run")
    assert first["turns"][0]["defects"] == ["empty", "truncated"]
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_prompts_that_fit_a_longer_context_are_played_again(server, tmp_path):
    long = failure("This model's maximum context length is 512 tokens. However, you requested 600")
    greedy = ["--temperature", 0]
    expected = bench(server, tmp_path / "whole", *greedy, "--no-cache", games=GAMES[1:2])
    server.answer = lambda body, _: (400, long) if len(body["messages"]) > 2 else completion(plays(body))
    found = bench(server, tmp_path / "run", *greedy, games=GAMES[1:2])
    assert "overflow" in {e["end"] for e in found}
    server.answer = lambda body, _: completion(plays(body))
    kept = sqlite3.connect(tmp_path / "run" / "responses.sqlite", isolation_level=None)
    stored = [json.loads(row) for (row,) in kept.execute("SELECT reply FROM replies")]
    assert stored
    assert not any(reply["overflow"] for reply in stored)
    old = json.dumps({**stored[0], "overflow": True})  # what earlier versions kept
    kept.execute("UPDATE replies SET reply = ?", (old,))
    kept.close()
    again = bench(server, tmp_path / "run", *greedy, "--retry-errors", games=GAMES[1:2])
    assert again == expected


@pytest.mark.parametrize(
    "message",
    [
        # vLLM with pictures, SGLang, text-generation-inference, Anthropic, xAI, Bedrock
        "The decoder prompt (length 600) is longer than the maximum model length of 512.",
        "Input length (600 tokens) exceeds the maximum allowed length (506 tokens). Use a shorter input",
        "Input validation error: `inputs` must have less than 512 tokens. Given: 600",
        "input length and `max_tokens` exceed context limit: 500 + 200 > 512, decrease input length",
        "This model's maximum prompt length is 512 but the request contains 600 tokens.",
        "Input is too long for requested model.",
    ],
)
def test_servers_say_in_many_ways_that_a_prompt_is_too_long(message, server, tmp_path):
    wrapped = failure(message) if len(message) % 2 else {"error": message}
    server.answer = lambda body, _: (400, wrapped) if len(body["messages"]) > 2 else completion(plays(body))
    found = bench(server, tmp_path / "run", games=GAMES[2:], episodes=8)
    assert {e["end"] for e in found} == {"overflow", "terminated"}
