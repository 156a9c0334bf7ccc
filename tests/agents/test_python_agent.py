"""Agents of the user's own: ``--agent package.module:Name``."""

import json
import sys

import pytest
from ragen_bench.__main__ import main

AGENT = """
from ragen_agents.policies import BudgetReachedError, Reply
from ragen_envs.errors import RagenError

class Agent:
    def __init__(self):
        self.answer = "Right || Down"

    async def reply(self, request):
        assert request.messages[-1]["role"] == "user"
        return f"<think>{request.seed}</think><answer>{self.answer}</answer>"

async def agent(request):
    return Reply("<think>so</think><answer>Up</answer>", prompt_tokens=7, reply_tokens=5)

async def takes_more(messages, seed):
    return "<answer>Up</answer>"

class TakesNothing:
    async def reply(self):
        return "<answer>Up</answer>"

async def fails(request):
    raise ConnectionError("no reply today")

async def fails_in_the_suite(request):
    raise RagenError("no such level")

async def spends_a_budget_of_its_own(request):
    raise BudgetReachedError("my credit is used up")

async def says_nothing(request):
    return None

async def half_a_character(request):
    return "\\ud800"

async def thinks_in_a_list(request):
    return Reply("<answer>Up</answer>", reasoning=["step 1", "step 2"])

async def counts_in_halves(request):
    return Reply("<answer>Up</answer>", prompt_tokens=3.5)

async def counts_too_far(request):
    return Reply("<answer>Up</answer>", reply_tokens=1 << 41)

async def says_why_it_was_cut(request):
    return Reply("<answer>Up</answer>", cut_off="length")

async def thinks_half_a_character(request):
    return Reply("<answer>Up</answer>", reasoning="\\ud800")

async def asks_the_oracle(request):
    return request.conversation.oracle()

async def plays_by_itself(request):
    request.conversation.step("<answer>Up</answer>")

async def takes_back_time(request):
    return Reply("<answer>Up</answer>", seconds=-1.0)

def not_async(request):
    return "<think></think><answer>Up</answer>"

NO_AGENT = 3

class Broken:
    def __init__(self):
        raise RuntimeError("no such model")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory with the agents in it, as a user has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_agent.py").write_text(AGENT)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def bench(name, code=0, *more):
    words = ["bench", "--agent", f"mine.my_agent:{name}", "--game", "Sokoban", "--episodes", "4"]
    assert main([*words, "--out", f"runs/{name}", *more]) == code


def episodes(name):
    with open(f"runs/{name}/episodes.jsonl") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize(("name", "tokens"), [("Agent", None), ("agent", 5), ("not_async", None)])
def test_a_class_and_a_function_are_agents(name, tokens, here):
    bench(name)
    turns = [turn for episode in episodes(name) for turn in episode["turns"]]
    assert {turn["reply_tokens"] for turn in turns} == {tokens}
    assert all(not turn["defects"] for turn in turns)
    assert main(["verify", f"runs/{name}"]) == 0


def test_a_limit_on_tokens_needs_an_agent_that_counts_them(here, capsys):
    bench("Agent", 2, "--token-limit", "50")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert "--token-limit cannot limit 'mine.my_agent:Agent'" in line
    assert "return a Reply with prompt_tokens and reply_tokens" in line
    bench("agent", 3, "--token-limit", "50")
    assert "tokens are used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fails", "ConnectionError: no reply today"),
        (
            "fails_in_the_suite",
            "RuntimeError: the agent raised RagenError('no such level')",
        ),
        (
            "spends_a_budget_of_its_own",
            "RuntimeError: the agent raised BudgetReachedError('my credit is used up')",
        ),
        ("says_nothing", "TypeError: the reply is None, but must"),
        ("half_a_character", "UnicodeEncodeError"),
        (
            "thinks_in_a_list",
            "TypeError: the reply's reasoning is ['step 1', 'step 2'], but must be str or None",
        ),
        (
            "counts_in_halves",
            "TypeError: the reply's prompt_tokens is 3.5, but must be int or None",
        ),
        (
            "counts_too_far",
            "ValueError: the reply's reply_tokens is 2199023255552, but must be in [0",
        ),
        ("says_why_it_was_cut", "TypeError: the reply's cut_off is 'length', but must be bool"),
        ("thinks_half_a_character", "UnicodeEncodeError"),
        (
            "asks_the_oracle",
            "AttributeError: request.conversation.oracle is not for agents: the game is in request.messages",
        ),
        ("plays_by_itself", "AttributeError: request.conversation.step is not for agents"),
        (
            "takes_back_time",
            "ValueError: the reply's seconds is -1.0, but must be in [0, 4294967296]",
        ),
    ],
)
def test_an_agent_that_fails_leaves_records(name, error, here):
    bench(name)
    assert all(e["end"] == "error" and e["error"].startswith(error) for e in episodes(name))
    assert main(["verify", f"runs/{name}"]) == 0


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("mine.my_agent:Nobody", "has no attribute 'Nobody'"),
        ("mine.my_agent:Broken", "RuntimeError: no such model"),
        ("mine.my_agent:NO_AGENT", "must be a class with the method reply"),
        (
            "mine.my_agent:takes_more",
            "is called with one argument, the request, but its function is takes_more(messages, seed)",
        ),
        ("mine.my_agent:TakesNothing", "but its function is reply()"),
        ("mine.my_agent.py:Agent", "names a file, but must name a module: mine.my_agent:Agent"),
        ("mine.nothing:Agent", "there is no module 'mine.nothing'"),
        ("nothing.nothing:Agent", "No module named 'nothing'"),
    ],
)
def test_what_is_no_agent_is_named(name, named, here, capsys):
    words = ["bench", "--agent", name, "--game", "Bandit", "--episodes", "1", "--out", "run"]
    assert main(words) == 2
    assert named in capsys.readouterr().err
    assert not (here / "run").exists()


def test_another_source_is_another_run(here, capsys):
    bench("agent")
    source = here / "mine" / "my_agent.py"
    source.write_text(source.read_text().replace("Up", "Left"))
    bench("agent", code=2)
    error = capsys.readouterr().err
    assert "holds another run: the sources of mine.my_agent:agent have changed" in error
