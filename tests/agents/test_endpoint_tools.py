"""`--tools`: a model that acts by tool calls has the records that it would have by writing."""

import json

import pytest
from endpoint_bench import bench, words
from endpoint_server import EndpointServer, completion, failure, plays
from hypothesis import given
from hypothesis import strategies as st
from ragen_bench.__main__ import main

from ragen_agents.policies.endpoint.tools import ToolCall, as_calls, reply_text, tools_of
from ragen_envs.conversation import make


def calls(*actions, name="act", content=None):
    function = {"name": name, "arguments": json.dumps({"actions": list(actions)})}
    found = completion(content, tool_calls=[{"id": "x", "type": "function", "function": function}])
    found["choices"][0]["finish_reason"] = "tool_calls"
    return found


def acting(body, _):
    """The test server's model, as tool calls: what it plays depends on the last message alone."""
    text = plays(body)
    actions = text.split("<answer>")[1].split("<")[0].split(" || ")
    return calls(*actions, content=text.split("<think>")[1].split("<")[0])


def test_records_are_those_of_text(tmp_path):
    with EndpointServer() as writing:
        expected = bench(writing, tmp_path / "text")
    with EndpointServer(acting) as server:
        found = bench(server, tmp_path / "tools", "--tools")
        bodies = server.bodies
    assert found == expected
    assert main(["verify", str(tmp_path / "tools")]) == 0
    assert all(body["tools"][0]["function"]["name"] == "act" for body in bodies)


def test_arguments_may_be_an_object(tmp_path):
    def as_object(body, _):
        found = acting(body, _)
        function = found["choices"][0]["message"]["tool_calls"][0]["function"]
        function["arguments"] = json.loads(function["arguments"])
        return found

    with EndpointServer(acting) as server:
        expected = bench(server, tmp_path / "text", "--tools", games=("Sokoban",), episodes=2)
    with EndpointServer(as_object) as server:
        found = bench(server, tmp_path / "object", "--tools", games=("Sokoban",), episodes=2)
    assert found == expected


def test_tokens_of_a_call_are_estimated_where_the_server_does_not_count_them(tmp_path):
    def uncounted(body, _):
        return {**acting(body, _), "usage": None}

    with EndpointServer(uncounted) as server:
        bench(server, tmp_path / "run", "--tools", games=("Sokoban",), episodes=2)
    spent = [json.loads(line) for line in (tmp_path / "run" / "usage.jsonl").read_text().splitlines()]
    least = len('act{"actions": ["Up"]}') // 4
    assert all(line["reply_tokens"] >= least for line in spent)


def test_a_call_without_arguments_is_an_invalid_reply(tmp_path):
    def without(body, _):
        found = calls("Up", content=[{"type": "text", "text": None}])
        found["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = None
        return found

    with EndpointServer(without) as server:
        found = bench(server, tmp_path / "run", "--tools", games=("Sokoban",), episodes=2)
    assert {e["end"] for e in found} == {"budget"}
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_half_a_character_in_a_call_is_an_invalid_reply(tmp_path):
    def halves(body, _):
        found = calls("Up")
        function = found["choices"][0]["message"]["tool_calls"][0]["function"]
        function["arguments"] = '{"actions": ["\\ud83d"]}'
        return found

    with EndpointServer(halves) as server:
        found = bench(server, tmp_path / "run", "--tools", games=("Sokoban",), episodes=2)
    assert found
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_the_tool_offers_the_actions_of_the_turn():
    env = make("ragen/SokobanText-v0")
    env.reset(seed=0)
    (tool,) = tools_of(env)
    actions = tool["function"]["parameters"]["properties"]["actions"]
    assert actions["items"]["enum"] == ["Up", "Down", "Left", "Right"]
    assert (actions["minItems"], actions["maxItems"]) == (1, 5)
    shop = make("ragen/WebShopText-v0")
    shop.reset(seed=0)
    (tool,) = tools_of(shop)
    action = tool["function"]["parameters"]["properties"]["actions"]["items"]
    assert "enum" not in action
    assert "search[" in action["description"]


def test_the_chat_is_one_of_calls_and_results(tmp_path):
    with EndpointServer(acting) as server:
        bench(server, tmp_path / "run", "--tools", games=("Sokoban",), episodes=4)
        bodies = server.bodies
    longest = max((body["messages"] for body in bodies), key=len)
    assert [m["role"] for m in longest[:4]] == ["system", "user", "assistant", "tool"]
    assert "calling the tool 'act'" in longest[0]["content"]
    assert longest[2]["content"] == "so"
    call = longest[2]["tool_calls"][0]
    assert longest[3]["tool_call_id"] == call["id"]
    assert json.loads(call["function"]["arguments"])["actions"]
    assert longest[3]["content"].startswith("Executed: ")
    assert "<answer>" not in "".join(m["content"] for m in longest[1:])
    ids = [m["tool_calls"][0]["id"] for m in longest if m["role"] == "assistant"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("answer", "defects"),
    [
        (calls("Up", "Left"), ()),
        (calls("Up", content="Let me see."), ()),
        (completion("<think>so</think><answer>Up</answer>"), ()),
        (calls(), ("empty_answer",)),
        (calls("Jump"), ("unknown_action",)),
        (calls("Up", name="move"), ()),
        (completion("I go up."), ("no_think", "no_answer")),
    ],
)
def test_replies_are_judged_by_the_same_rules(answer, defects, tmp_path):
    with EndpointServer(lambda *_: answer) as server:
        found = bench(server, tmp_path / "run", "--tools", games=("FrozenLakeDeterministic",), episodes=1)
    assert tuple(found[0]["turns"][0]["defects"]) == defects


@given(st.text(), st.lists(st.builds(ToolCall, st.text(), st.text()), max_size=3), st.booleans())
def test_any_message_becomes_a_text(content, made, think):
    assert isinstance(reply_text(content, made, think), str)


@given(st.text(), st.lists(st.sampled_from(["Up", "search[a b]", "click[Buy Now]"]), min_size=1))
def test_calls_that_were_read_are_shown_again_as_they_were(thought, actions):
    thought = thought.replace("<", "").strip()
    text = reply_text(thought, [ToolCall("act", json.dumps({"actions": actions}))], think=True)
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": text}, {"role": "user", "content": "v"}]  # fmt: skip
    _, _, said, result = as_calls(chat)
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"actions": actions}
    assert (said["content"] or "") == thought
    assert result == {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "v"}


def test_a_picture_follows_the_result_of_a_call():
    picture = [{"type": "text", "text": "v"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": picture},
            {"role": "assistant", "content": "<answer>Up</answer>"},
            {"role": "user", "content": picture}]  # fmt: skip
    assert [m["role"] for m in as_calls(chat)] == ["system", "user", "assistant", "tool", "user"]


def test_settings_that_contradict_tools_are_refused(tmp_path, capsys):
    with EndpointServer(acting) as server:
        run = words(server, tmp_path / "run", "--tools", "--setting", "think_prefix=true")
        assert main(run) == 2
    assert "think_prefix is true, but must be false with --tools" in capsys.readouterr().err


def test_a_server_without_tools_is_named(tmp_path, capsys):
    def refuses(body, _):
        if "tools" in body:
            return 400, failure("tools are not supported"), ()
        return completion(plays(body))

    with EndpointServer(refuses) as server:
        assert main(words(server, tmp_path / "run", "--tools")) == 2
    assert "tools are not supported" in capsys.readouterr().err


def test_a_run_with_tools_is_another_run(tmp_path, capsys):
    with EndpointServer(acting) as server:
        bench(server, tmp_path / "run", "--tools", games=("Bandit",))
        assert main(words(server, tmp_path / "run", games=("Bandit",))) == 2
    assert "holds another run" in capsys.readouterr().err
