"""Models without a system role, templates that edit texts, and servers with habits of their own."""

import json
import logging

import pytest
from installed import require

require("openai", "transformers")

from chat_templates import CHATML, tokenizer_with  # noqa: E402
from endpoint_bench import bench, words  # noqa: E402
from endpoint_server import EndpointServer, completion, failure, plays  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402

from ragen_agents.chat_template import ChatTemplate  # noqa: E402

GAME = ("Bandit",)
EDITS_CONTENT = """
{%- for message in messages -%}
{%- set text = message.content | replace('/think', '') | replace('/no_think', '') -%}
<|{{ message.role }}|>{{ text }}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""
NO_SYSTEM_ROLE = """
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif -%}
<start>{{ message.role }}
{{ message.content | trim }}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<start>model
{%- endif -%}
"""
CHAT = [
    {"role": "system", "content": "Reply as <think>your reasoning</think><answer>Up</answer>."},
    {"role": "user", "content": "Arms: A, B"},
]


def test_a_server_without_the_system_role_is_named_and_can_be_asked(tmp_path, capsys):
    def answer(body, headers):
        if any(message["role"] == "system" for message in body["messages"]):
            return 400, failure("System role not supported")
        assert headers["request"] == "POST /v1/chat/completions HTTP/1.1"
        return completion(plays(body))

    with EndpointServer(answer) as server:
        assert main(words(server, tmp_path / "run", games=GAME)) == 2
        said = capsys.readouterr().err
        assert "refuses system messages: HTTP 400: System role not supported" in said
        assert "--system merge" in said
        played = bench(server, tmp_path / "run", "--system", "merge", games=GAME)
        first = server.bodies[-1]["messages"]
    assert [message["role"] for message in first] == ["user"]
    asked = [f"{each['system']}\n\n{each['turns'][0]['user']}" for each in played]
    assert first[0]["content"] in asked
    assert {episode["end"] for episode in played} == {"terminated"}
    assert main(["verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("demonstrations", [0, 2])
def test_a_template_without_the_system_role_gets_the_text(demonstrations, caplog, monkeypatch):
    monkeypatch.setattr(ChatTemplate, "_checked", set())
    caplog.set_level(logging.INFO)
    template = ChatTemplate(tokenizer_with(NO_SYSTEM_ROLE))
    shown = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
    ] * demonstrations
    chat = [CHAT[0], *shown, CHAT[1]]
    text = template.tokenizer.decode(template.prompt(chat))
    first = (shown or CHAT[1:])[0]["content"]
    assert text.startswith(f"<start>user\n{CHAT[0]['content']}\n\n{first}<|im_end|>")
    assert "System role not supported; the system message begins the first user" in caplog.text
    assert "changes the prompt" not in caplog.text


def test_a_template_that_edits_texts_is_shown_once(caplog, monkeypatch):
    monkeypatch.setattr(ChatTemplate, "_checked", set())
    for _ in range(2):
        ChatTemplate(tokenizer_with(EDITS_CONTENT)).prompt(CHAT)
    (record,) = caplog.records
    assert f"changes the prompt: '{CHAT[0]['content']}' becomes '" in record.getMessage()
    assert "<think>your reasoning<><answer>" in record.getMessage()
    caplog.clear()
    ChatTemplate(tokenizer_with(CHATML)).prompt(CHAT)
    assert not caplog.records


@pytest.mark.parametrize("end", ["", "/", "/chat/completions", "/chat/completions?api-version=1"])
def test_addresses_may_have_a_path_a_query_and_headers(end, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "azure-secret-1")
    query = end.partition("?")[1:]
    seen = []

    def answer(body, headers):
        seen.append(headers)
        return completion(f"{plays(body)} azure-secret-1")

    with EndpointServer(answer) as server:
        server.url += end
        bench(server, tmp_path / "run", "--header", "api-key=MY_KEY", games=GAME, episodes=2)
    assert {each["api-key"] for each in seen} == {"azure-secret-1"}
    path = f"POST /v1/chat/completions{''.join(query)} HTTP/1.1"
    assert {each["request"] for each in seen} == {path}
    written = [p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert b"azure-secret-1" not in b"".join(written)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--header", "api-key"], "--header must be NAME=ENVIRONMENT_VARIABLE, without a value"),
        (["--header", "a b=HOME"], "'a b' is not the name of a header"),
        (["--header", "api-key=NOT_SET"], "set the environment variable NOT_SET"),
        (["--base-url", "http://127.0.0.1:1/v1?api_key=x"], "must have no user, password, key"),
        (["--system", "no"], "system"),
    ],
)
def test_wrong_options_are_refused(option, said, tmp_path, capsys):
    command = ["bench", "--agent", "openai:m", "--base-url", "http://127.0.0.1:1/v1", "--game"]
    assert main([*command, "Bandit", "--out", str(tmp_path / "run"), *option]) == 2
    assert said in capsys.readouterr().err


def test_a_stray_tool_call_does_not_hide_the_text(tmp_path):
    stray = {"id": "x", "type": "function", "function": {"name": None, "arguments": None}}

    def answer(body, headers):
        return completion(plays(body), tool_calls=[stray])

    with EndpointServer(answer) as server:
        played = bench(server, tmp_path / "run", games=GAME)
    assert all(not turn["defects"] for episode in played for turn in episode["turns"])


FILTERED = {
    "choices": {"choices": []},
    "message": {"choices": [{"message": None, "finish_reason": "content_filter"}]},
    "content": {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]},
}


@pytest.mark.parametrize("kind", FILTERED)
def test_a_filtered_answer_is_recorded_and_the_run_goes_on(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ragen_agents.policies.endpoint.policy.FIRST_DELAY", 0.01)

    def answer(body, headers):
        reply = plays(body)
        text = body["messages"][-1]["content"]
        return FILTERED[kind] if len(text) % 2 and "Arms" in text else completion(reply)

    with EndpointServer(answer) as server:
        played = bench(server, tmp_path / "run", games=GAME, episodes=16)
    turns = [turn for episode in played for turn in episode["turns"]]
    count = sum("filtered" in turn for turn in turns)
    assert 0 < count < 16
    assert {episode["end"] for episode in played} == {"terminated", "budget"} or count == 0
    note = f"{count} of {len(turns)} replies of openai:m were withheld by a content filter"
    assert note in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_compare_and_explain_count_errors(tmp_path, monkeypatch, capsys):
    def answer(body, headers):
        text = body["messages"][-1]["content"]
        return (400, failure("no such text")) if len(text) % 2 and "Arms" in text else completion(
            plays(body)
        )  # fmt: skip

    with EndpointServer(answer) as server:
        command = words(server, tmp_path / "run", "--agent", "random", games=GAME, episodes=16)
        assert main(command) == 0
    capsys.readouterr()
    said = " of 16 episodes of openai:m ended in an error and count as not solved"
    for shown in (["show"], ["explain"], ["compare"]):
        more = [":random"] if shown == ["compare"] else []
        assert main([*shown, str(tmp_path / "run"), *more]) == 0
        assert said in " ".join(capsys.readouterr().out.split()), shown
    rows = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert any(row["error"] for row in rows)


def test_an_answer_that_nobody_asked_for_is_dropped(tmp_path):
    """Two responses in one packet: the second must not become the answer to the next request."""
    foreign = json.dumps(completion("<think>mine</think><answer>FOREIGN</answer>")).encode()
    extra = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"

    async def read_more(body, headers):
        return completion(plays(body))

    with EndpointServer(read_more, after=extra % (len(foreign), foreign)) as server:
        played = bench(server, tmp_path / "run", "--concurrency", "1", games=GAME, episodes=6)
    replies = [turn["reply"] for episode in played for turn in episode["turns"]]
    assert len(replies) >= 6
    assert not any("FOREIGN" in reply for reply in replies)
