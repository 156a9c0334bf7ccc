"""Statements that the rules write into thoughts: what the model reads, and what it still decides."""

import re

import pytest
from ragen_bench import intervene
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import AgentEntry, RunConfig
from ragen_bench.config.suites import load_suite
from ragen_bench.evaluation.comparison import Side
from ragen_bench.evaluation.run_table import Run

from ragen_agents.policies import Reply, Request
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.game.claims import MOVE, PLACE

pytest.importorskip("transformers")
from ragen_agents.policies.language_models import Intervened

REPLY = "<think>Player 8 8. Box 9 9. 5 {} to 7 7. 4 {} to 6 6.</think><answer>{} || {}</answer>"


class Scripted:
    """Writes one reply, and after a beginning the rest of it."""

    name, batch_size = "scripted", 8

    def __init__(self, reply, going_on=""):
        self.reply, self.going_on, self.beginnings, self.seeds = reply, going_on, [], []

    def act(self, requests):
        return [Reply(self.reply) for _ in requests]

    def continue_replies(self, requests, beginnings):
        self.beginnings += beginnings
        self.seeds += [request.seed for request in requests]
        return [Reply(text + self._rest(text)) for text in beginnings]

    def _rest(self, text):
        """Return the end of the sentence, and the script after as many as were written."""
        sentences = re.findall(r"[^.]*\.|[^.]+$", self.reply)
        done = text.count(".")
        if text.endswith("."):
            return "".join(sentences[done:])
        return self.going_on + "." + "".join(sentences[done + 1 :])


def open_env(env_id="ragen/SokobanText-v0", index=0):
    env = make(env_id)
    env.reset(options={"split": "test", "index": index})
    return env


def play(env, script, truth, kind=MOVE):
    policy = Scripted(script)
    (reply,) = Intervened(policy, truth, kind).act([Request(env.messages, 5, env)])
    return policy, reply.text


def truths(env, text, kind=MOVE):
    return [claim.true for claim in env.claims(text) if claim.kind.startswith(kind)]


@pytest.mark.parametrize("env_id", ["ragen/SokobanText-v0", "ragen/FrozenLakeDeterministicText-v0"])
@pytest.mark.parametrize("moves", [("Up", "Left"), ("Right", "Down")])
def test_every_outcome_becomes_true_and_nothing_else_changes(env_id, moves):
    env = open_env(env_id)
    script = REPLY.format(*moves, *moves)
    assert truths(env, script) == [False, False]
    policy, text = play(env, script, truth=True)
    assert truths(env, text) == [True, True]
    assert text.startswith("<think>Player 8 8. Box 9 9. 5 " + moves[0])
    assert text.endswith(f"</think><answer>{' || '.join(moves)}</answer>")
    assert len(policy.beginnings) == 2
    assert len({5, *policy.seeds}) == 3


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("env_id", ["ragen/SokobanText-v0", "ragen/FrozenLakeText-v0"])
def test_a_lie_is_false_by_the_rules_and_only_the_first_outcome(env_id, index):
    env = open_env(env_id, index)
    true = "<think>5 Up to 7 7.</think><answer>Up</answer>"
    _, honest = play(env, true, truth=True)
    assert truths(env, honest)[0]
    policy, text = play(env, honest, truth=False)
    assert not truths(env, text)[0]
    assert len(policy.beginnings) == 1
    assert text.endswith("</think><answer>Up</answer>")


def test_what_is_already_as_wanted_is_not_written_again():
    env = open_env()
    script = REPLY.format("Up", "Left", "Up", "Left")
    policy, text = play(env, script, truth=False)
    assert (text, policy.beginnings) == (script, [])
    _, honest = play(env, script, truth=True)
    policy, text = play(env, honest, truth=True)
    assert (text, policy.beginnings) == (honest, [])


def test_a_model_that_makes_a_true_statement_false_again_gets_its_full_stop():
    env = open_env()
    script = "<think>5 Left to 7 7.</think><answer>Left</answer>"
    _, honest = play(env, script, truth=True)
    policy = Scripted(script, ", box to 9 9")
    (reply,) = Intervened(policy, True).act([Request(env.messages, 5, env)])
    stop = honest.index(".")
    assert policy.beginnings == [honest[:stop], honest[: stop + 1]]
    assert truths(env, reply.text) == [True]


def test_places_are_written_too():
    env = open_env()
    script = REPLY.format("Up", "Left", "Up", "Left")
    _, text = play(env, script, True, PLACE)
    assert truths(env, text, PLACE) == [True, True]
    assert truths(env, text) == [False, False]
    _, lie = play(env, text, False, PLACE)
    assert truths(env, lie, PLACE) == [False, True]


def test_the_agent_of_a_run_plays_its_levels_untouched_and_in_both_arms(tmp_path, capsys):
    run, out = str(tmp_path / "run"), str(tmp_path / "arms")
    games = ["--game", "FrozenLakeDeterministic", "--game", "Countdown"]
    sizes = ["--episodes", "6", "--setting", "max_turns=1"]
    assert main(["bench", "--agent", "starter", *games, *sizes, "--out", run]) == 0
    table = intervene(run, out=out)
    assert table["arm"].tolist() == ["true", "false"]
    assert set(table["game"]) == {"FrozenLakeDeterministic"}
    assert set(table["n"]) == {6}
    assert (table["success"] - table["untouched"]).tolist() == pytest.approx(table["difference"])
    assert table["changed"][1] > 0
    records = (tmp_path / "arms" / "episodes.jsonl").read_bytes()
    assert main(["intervene", run, "--out", out, "--format", "markdown"]) == 0
    assert "| FrozenLakeDeterministic | all true |" in capsys.readouterr().out
    assert (tmp_path / "arms" / "episodes.jsonl").read_bytes() == records


def test_replies_end_where_those_of_the_run_do(tmp_path, monkeypatch):
    (tmp_path / "episodes.jsonl").touch()
    config = RunConfig(agents=[AgentEntry(name="starter", stop=["</answer>"])], suite=load_suite("core"))
    side = Side(Run(tmp_path, config, {}, torn=False), "starter")
    stops = []

    def make_no_policy(agents, sampling, remote):
        stops.append(remote.settings.stop)
        return dict.fromkeys(agents)

    monkeypatch.setattr("ragen_bench.api.intervene.read_side", lambda _: side)
    monkeypatch.setattr("ragen_bench.api.intervene.make_policies", make_no_policy)
    with pytest.raises(RagenError, match="does not generate in this process"):
        intervene(tmp_path)
    assert stops == [["</answer>"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["random"], "'random' does not generate in this process"),
        (["openai:x"], "'openai:x' does not generate in this process"),
        (["starter", "--write", "lies"], "cannot write 'lies'; write outcomes or places"),
        (["starter", "--game", "Countdown"], "Countdown: the thoughts of no game here"),
    ],
)
def test_what_cannot_be_intervened_in_is_one_line(arguments, words, capsys):
    assert main(["intervene", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
