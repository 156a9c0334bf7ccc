"""An endpoint that is not what it should be is noticed at the first request."""

import socket
import time

import pytest
from endpoint_bench import GAMES, bench, records
from endpoint_server import completion, failure, plays

pytestmark = pytest.mark.usefixtures("impatient")


def test_a_server_that_is_not_there_is_told_at_once(server, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/v1"
    started = time.monotonic()
    bench(server, tmp_path / "run", "--max-retries", 9, code=2)
    assert time.monotonic() - started < 60  # nine retries take at least two minutes
    shown = capsys.readouterr().err
    assert "cannot be reached" in shown
    assert "attempt 2" not in shown


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (401, failure("Incorrect API key"), "does not accept the key: HTTP 401"),
        (403, failure("no"), "the endpoint refused the request: HTTP 403"),
        (402, failure("Insufficient balance"), "no credit left"),
        (429, failure("You exceeded your quota", "insufficient_quota"), "no credit left"),
        (
            404,
            failure("The model `m` does not exist", "model_not_found"),
            "/v1/chat/completions: The model `m` does not exist",
        ),
        (400, failure("Unsupported parameter: 'max_tokens'"), "refuses these settings: HTTP 400"),
        # FastAPI, text-generation-inference, a proxy
        (
            422,
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
            """HTTP 422: [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]; --extra""",
        ),
        (404, {"detail": "Not Found"}, "/v1/chat/completions: Not Found; "),
        (400, {"error": "`seed` must be positive"}, "HTTP 400: `seed` must be positive; --extra"),
        (400, b"no route for this model", "HTTP 400: no route for this model; --extra"),
    ],
)
def test_an_error_that_stops_the_run_is_one_line(status, body, named, server, tmp_path, capsys):
    server.answer = lambda *_: (status, body)
    bench(server, tmp_path / "run", code=2)
    error = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert len(error) == 1
    assert named in error[0]
    assert records(tmp_path / "run") == []


PAGE = (
    200,
    b"<!DOCTYPE html><title>Sign in</title>",
    [("Content-Type", "text/html; charset=utf-8")],
)


@pytest.mark.parametrize(
    ("end", "hint"),
    [
        ("", "; the base URL usually ends in /v1: try --base-url {url}/v1\n"),
        (
            "/v1",
            "--base-url is the address of an API, such as http://localhost:8000/v1, and that no",
        ),
    ],
)
def test_a_web_page_at_first_contact_ends_the_run_at_once(end, hint, server, tmp_path, capsys):
    server.answer = lambda *_: PAGE
    url = server.url.removesuffix("/v1") + end
    bench(server, tmp_path / "run", "--base-url", url, "--concurrency", 1, code=2)
    assert len(server.bodies) == 1
    error = [line for line in capsys.readouterr().err.splitlines(keepends=True) if "error: " in line]
    assert len(error) == 1
    assert f"openai:m at {url} answered with a web page instead of JSON; " in error[0]
    assert hint.format(url=url) in error[0]
    assert records(tmp_path / "run") == []


def test_a_web_page_after_an_answer_is_a_fault_like_others(server, tmp_path):
    expected = bench(server, tmp_path / "whole", games=GAMES[1:2])
    server.bodies.clear()
    server.answer = lambda body, _: PAGE if len(server.bodies) == 2 else (200, completion(plays(body)))
    assert bench(server, tmp_path / "run", "--concurrency", 1, games=GAMES[1:2]) == expected


def test_a_context_too_small_for_any_prompt_ends_the_run(server, tmp_path, capsys):
    long = "This model's maximum context length is 512 tokens. However, you requested 33000 tokens"
    server.answer = lambda *_: (400, failure(long))
    bench(server, tmp_path / "run", "--max-reply-tokens", 32000, code=2)
    shown = capsys.readouterr().err
    assert "rejects even the prompt 'Hello' as too long: HTTP 400: This model's maximum" in shown
    assert "lower --max-reply-tokens" in shown
    assert records(tmp_path / "run") == []


def test_a_first_prompt_that_alone_is_too_long_is_a_record(server, tmp_path):
    long = "This model's maximum context length is 512 tokens. However, you requested 600 tokens"
    server.answer = lambda body, _: (
        completion("Hello!") if body["messages"][0]["content"] == "Hello" else (400, failure(long))
    )
    found = bench(server, tmp_path / "run", games=GAMES[1:2])
    assert {e["end"] for e in found} == {"overflow"}


def test_where_a_redirect_leads_does_not_show_the_key(server, tmp_path, capsys, monkeypatch):
    key = "sk-test-1618033988"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.answer = lambda *_: (302, {}, [("Location", f"http://login/?key={key}")])
    bench(server, tmp_path / "run", code=2)
    shown = capsys.readouterr().err
    assert "redirects to http://login/?key=[key] (HTTP 302)" in shown
    assert key not in shown
