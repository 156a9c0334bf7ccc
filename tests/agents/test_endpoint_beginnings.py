"""Turns that begin with <think> behind an endpoint: a server is asked to continue them."""

import json

import pytest
import yaml
from endpoint_bench import bench
from endpoint_server import completion, failure, plays
from ragen_bench.__main__ import main

pytestmark = pytest.mark.usefixtures("impatient")


def think_suite(folder, **more):
    settings = {"think_prefix": True, **more}
    tasks = {"Sokoban": {"env": "ragen/SokobanText-v0", "settings": settings}}
    path = folder / "think.yaml"
    path.write_text(yaml.safe_dump({"name": "think", "version": 1, "episodes": 4, "tasks": tasks}))
    return path


def continues(body, _):
    """Answer as servers do that continue the last message."""
    assert body["messages"][-1] == {"role": "assistant", "content": "<think>"}
    asked = {"messages": body["messages"][:-1]}
    return completion(plays(asked).removeprefix("<think>"))


def test_a_server_is_asked_to_continue_the_turn(server, tmp_path):
    server.answer = continues
    suite, out = think_suite(tmp_path), tmp_path / "run"
    found = bench(server, out, "--suite", suite, games=(), episodes=4)
    for body in server.bodies:
        assert body["continue_final_message"] is True
        assert body["add_generation_prompt"] is False
        earlier = [m["content"] for m in body["messages"][:-1] if m["role"] == "assistant"]
        assert all(text.startswith("<think>so</think>") for text in earlier)
    turns = [turn for episode in found for turn in episode["turns"]]
    assert max(len(episode["turns"]) for episode in found) > 1
    assert all(turn["reply"].startswith("so</think>") for turn in turns)
    assert {name for turn in turns for name in turn["defects"]} <= {"too_many_actions"}
    assert main(["verify", str(out)]) == 0


def test_what_continues_a_turn_can_be_changed(server, tmp_path):
    extra = {"continue_final_message": None, "add_generation_prompt": True}
    server.answer = continues
    bench(server, tmp_path / "run", "--suite", think_suite(tmp_path), "--extra-body",
          json.dumps(extra), games=(), episodes=2)  # fmt: skip
    assert all("continue_final_message" not in body for body in server.bodies)
    assert all(body["add_generation_prompt"] is True for body in server.bodies)


def test_a_server_that_ignores_the_beginning_is_read_all_the_same(server, tmp_path):
    server.answer = lambda body, _: completion(plays({"messages": body["messages"][:-1]}))
    out = tmp_path / "run"
    found = bench(server, out, "--suite", think_suite(tmp_path), games=(), episodes=4)
    turns = [turn for episode in found for turn in episode["turns"]]
    assert all(turn["reply"].startswith("<think>so</think>") for turn in turns)
    assert {name for turn in turns for name in turn["defects"]} <= {"too_many_actions"}
    last = server.bodies[-1]["messages"]
    assert all(m["content"].count("<think>") <= 1 for m in last if m["role"] == "assistant")
    assert main(["verify", str(out)]) == 0


def test_a_server_that_refuses_the_beginning_stops_the_run(server, tmp_path, capsys):
    server.answer = lambda body, _: (
        (400, failure("prefill is not supported"))
        if body["messages"][-1]["role"] == "assistant"
        else completion(plays(body))
    )
    bench(server, tmp_path / "run", "--suite", think_suite(tmp_path), games=(), code=2)
    assert "refuses these settings" in capsys.readouterr().err


def test_a_cache_tells_turns_with_a_beginning_from_those_without(server, tmp_path):
    greedy = ["--temperature", "0", "--cache", tmp_path / "cache"]
    server.answer = lambda body, _: completion(plays({"messages": body["messages"][:2]}))
    for begins in (True, False):
        suite = think_suite(tmp_path, think_prefix=begins, max_turns=1)
        server.bodies.clear()
        bench(server, tmp_path / str(begins), "--suite", suite, *greedy, games=(), episodes=2)
        assert len(server.bodies) == 2
