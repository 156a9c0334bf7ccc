"""`ragen match`: agents with and against each other, as trustworthy as `ragen bench`."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from endpoint_server import EndpointServer, completion
from interrupted_runs import cut
from ragen_bench.__main__ import main
from ragen_bench.config import agents
from ragen_bench.config.run_config import load_config
from ragen_bench.evaluation.match_table import read_match_run, summarise_matches
from ragen_bench.runs.directory import missing_agents
from scripted_policy import ScriptedPolicy

from ragen_agents.policies import BudgetReachedError, OraclePolicy, RandomPolicy, Reply
from ragen_agents.rollout.match_runner import MatchSpec, play_matches
from ragen_envs.errors import RagenError

CONTROLS = ("random", "noop", "oracle")
TASKS = {
    "SokobanCoop": {"env": "ragen/sokoban_coop_text-v0"},
    "FrozenLakeRace": {"env": "ragen/frozen_lake_race_text-v0"},
    "BanditMarket": {"env": "ragen/bandit_market_text-v0", "settings": {"players": 3}},
}
SEATS = {"SokobanCoop": 2, "FrozenLakeRace": 2, "BanditMarket": 3}
LEVELS = 3


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suites") / "several.yaml"
    path.write_text(yaml.safe_dump({"name": "several", "version": 1, "tasks": TASKS}))
    return str(path)


def words(suite, out, *more, agents=CONTROLS, games=TASKS, episodes=LEVELS):
    named = [word for agent in agents for word in ("--agent", str(agent))]
    named += [word for game in games for word in ("--game", game)]
    return ["match", "--suite", suite, *named, "--episodes", str(episodes), "--out", str(out),
            *map(str, more)]  # fmt: skip


@pytest.fixture(scope="module")
def played(suite, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "played"
    assert main(words(suite, out)) == 0
    return out


@pytest.fixture
def run(played, tmp_path):
    return Path(shutil.copytree(played, tmp_path / "run"))


def read(run):
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text("utf-8").splitlines()]


def write(run, matches):
    """Write matches as a careful forger would: with the checksums that belong to them."""
    lines = [json.dumps(m, ensure_ascii=False, separators=(",", ":")) for m in matches]
    (run / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    sums = [hashlib.sha256(line.encode()).hexdigest() for line in lines]
    (run / "episodes.sha256").write_text("".join(f"{s}\n" for s in sums))


def lineup(match):
    return tuple(seat["agent"] for seat in match["seats"])


def timeless(run):
    """The matches by what they are, without the one field that depends on the machine."""
    found = {}
    for match in read(run):
        for seat in match["seats"]:
            for turn in seat["turns"]:
                del turn["seconds"]
        found[match["task"], lineup(match), match["instance"]["seed"]] = match
    return found


def test_everyone_meets_everyone_on_every_seat_and_the_same_levels(played):
    matches = timeless(played)
    assert len(matches) == len(read(played)) == LEVELS * (9 + 9 + 3 + 6 * 3)
    for task, seats in SEATS.items():
        lineups = {key[1] for key in matches if key[0] == task}
        for own in range(seats):
            for one in CONTROLS:
                for others in CONTROLS:
                    wanted = [others] * seats
                    wanted[own] = one
                    assert tuple(wanted) in lineups
        for level in range(LEVELS):
            there = {m["instance"]["level"] for key, m in matches.items() if key[::2] == (task, level)}
            assert len(there) == 1


def test_a_task_may_have_a_split_of_its_own(tmp_path, capsys):
    path, out = tmp_path / "split.yaml", tmp_path / "run"
    task = {**TASKS["FrozenLakeRace"], "split": "train"}
    path.write_text(yaml.safe_dump({"name": "split", "version": 1, "tasks": {"Race": task}}))
    assert main(words(path, out, agents=["random"], games=["Race"], episodes=1)) == 0
    assert "Race · 1 lineup: 1 matches, 1 new" in capsys.readouterr().err
    assert {match["instance"]["split"] for match in read(out)} == {"train"}
    assert main(["verify", str(out)]) == 0


def test_a_control_draws_the_same_whoever_sits_opposite(played):
    first = {}
    for (task, who, level), match in timeless(played).items():
        for number, seat in enumerate(match["seats"]):
            if who[number] == "random":
                first.setdefault((task, level, number), set()).add(seat["turns"][0]["reply"])
    assert all(len(replies) == 1 for replies in first.values())
    assert len({replies.pop() for replies in first.values()}) > 4


def test_teams_and_races_end_as_they_must(played):
    for (task, who, _), match in timeless(played).items():
        seats = match["seats"]
        if task == "SokobanCoop":
            assert len({seat["success"] for seat in seats}) == 1
            assert seats[0]["success"] or who != ("oracle", "oracle")
            assert not seats[0]["success"] or "noop" not in who
        if task == "FrozenLakeRace":
            points = sum(sum(turn["rewards"]) for seat in seats for turn in seat["turns"])
            assert points == any(seat["success"] for seat in seats)
        if task == "BanditMarket" and set(who) == {"oracle"}:
            assert all(seat["success"] for seat in seats)


def rows(capsys, *command):
    capsys.readouterr()
    assert main([*command, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_table_says_what_the_matches_say(played, capsys):
    shown = rows(capsys, "show", str(played))
    assert shown["missing"] == 0
    assert any("not an upper bound" in note for note in shown["notes"])
    matches = read(played)
    for row in shown["rows"]:
        found = []
        for match in matches:
            for number, seat in enumerate(match["seats"]):
                others = [a for i, a in enumerate(lineup(match)) if i != number]
                right = match["task"] == row["game"] and seat["agent"] == row["agent"]
                if right and set(others) == {row["others"]}:
                    found += [seat] if row["seat"] in ("all", f"player_{number}") else []
        assert len(found) == row["n"] * (SEATS[row["game"]] if row["seat"] == "all" else 1)
        share = sum(seat["success"] for seat in found) / len(found)
        gained = sum(seat["episode_return"] for seat in found) / len(found)
        assert row["success"] == pytest.approx(share)
        assert row["mean_return"] == pytest.approx(gained)
        assert row["success_low"] <= row["success"] <= row["success_high"]
        assert row["return_low"] <= row["mean_return"] <= row["return_high"]
    assert len(shown["rows"]) == 9 * (3 + 3 + 4)


def test_the_table_is_printed_for_people(played, capsys):
    assert main(["show", str(played)]) == 0
    out = capsys.readouterr().out
    for title in ("Success %, several 1, test levels", "Return", "Success % by seat", "Replies"):
        assert title in out
    assert "with oracle" in out
    assert "player_2" in out
    assert main(["show", str(played), "--by", "cells"]) == 2
    assert "--by needs a run of ragen bench" in capsys.readouterr().err
    assert main(["show", str(played), "--format", "markdown"]) == 0
    assert "| game | agent | with random | with noop | with oracle |" in capsys.readouterr().out


def test_the_same_command_gives_the_same_matches_elsewhere(suite, played, tmp_path):
    root = Path(__file__).parents[2]
    paths = os.pathsep.join((str(root), str(root / "benchmarks")))
    command = [sys.executable, "-m", "ragen_bench", *words(suite, tmp_path / "other")]
    subprocess.run(
        command, check=True, capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": paths},
    )  # fmt: skip
    assert timeless(tmp_path / "other") == timeless(played)


def test_an_interrupted_run_goes_on(suite, played, run, capsys):
    lines = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    cut(run, len(b"".join(lines[:40])) + 100)
    shown = rows(capsys, "show", str(run))
    assert shown["missing"] == len(lines) - 40
    assert any("unfinished" in note for note in shown["notes"])
    site = run.parent / "site"
    assert main(["view", str(run), "--out", str(site)]) == 0
    page = (site / "index.html").read_text(encoding="utf-8")
    assert f"unfinished: {shown['missing']} of {len(lines)} matches missing" in page
    assert main(words(suite, run)) == 0
    assert timeless(run) == timeless(played)
    assert main(["verify", str(run)]) == 0
    assert main(words(suite, run, episodes=LEVELS + 1)) == 2
    assert "suite.episodes is 3 there and 4 now" in capsys.readouterr().err


def test_a_run_is_accepted(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert f"OK {len(read(run))} matches" in capsys.readouterr().out
    write(run, read(run)[:-5])
    assert main(["verify", str(run)]) == 0
    assert "5 matches missing" in capsys.readouterr().out


def test_a_match_of_another_run_does_not_stand_in_for_a_missing_one(run, fails):
    matches = read(run)
    matches[-1]["instance"]["seed"] = LEVELS
    write(run, matches)
    for command in (["show", run], ["view", run, "--out", run.parent / "site"]):
        assert f"line {len(matches)} is not of this run" in fails(*command)


def put(record, **fields):
    assert all(record[name] != value for name, value in fields.items())
    record.update(fields)


def pop_turn(seat):
    seat["turns"].pop()


def silence(seat, **end):
    """Let a seat fail before its first reply, with all that belongs to it."""
    seat.update(turns=[], success=False, episode_return=0.0, closing="", **end)


CHANGES = {
    "suite_version": lambda m: put(m, suite_version=99),
    "env_id": lambda m: put(m, env_id="ragen/sokoban_coop_text-v0"),
    "env_kwargs": lambda m: put(m, env_kwargs={"success_rate": 1.0}),
    "sampling_seed": lambda m: put(m, sampling_seed=1),
    "task": lambda m: put(m, task="SokobanCoop"),
    "level": lambda m: put(m["instance"], seed=LEVELS),
    "no level": lambda m: put(m["instance"], seed=None),
    "split": lambda m: put(m["instance"], split="train"),
    "noise": lambda m: put(m["instance"], noise=1),
    "index": lambda m: put(m["instance"], index=0),
    "key": lambda m: put(m["instance"], key="0" * 16),
    "lineup": lambda m: m["seats"].reverse(),
    "seats": lambda m: m["seats"].pop(),
}
SEAT_CHANGES = {
    "agent": lambda s: put(s, agent="champion"),
    "system": lambda s: put(s, system="You have won."),
    "success": lambda s: put(s, success=not s["success"]),
    "return": lambda s: put(s, episode_return=s["episode_return"] + 0.1),
    "end": lambda s: put(s, end="invalid"),
    "error": lambda s: put(s, error="timeout"),
    "failed": lambda s: put(s, end="error", error="timeout"),
    "closing": lambda s: put(s, closing=s["closing"] + " "),
    "turns fewer": pop_turn,
    "turns fewer, failed": lambda s: (pop_turn(s), put(s, end="overflow")),
    "failure": lambda s: silence(s, end="error", error="RuntimeError: no"),
    "overflow": lambda s: silence(s, end="overflow"),
    "turns more": lambda s: s["turns"].append(s["turns"][-1]),
    "user": lambda s: put(s["turns"][0], user="Which arm?"),
    "reply": lambda s: put(s["turns"][0], reply="<think>random</think><answer></answer>"),
    "rewards": lambda s: put(s["turns"][-1], rewards=[7.0]),
    "executed": lambda s: put(s["turns"][0], executed=[]),
    "penalty": lambda s: put(s["turns"][0], penalty=-0.1),
    "reply_tokens": lambda s: put(s["turns"][0], reply_tokens=7),
}


@pytest.mark.parametrize("what", [*CHANGES, *SEAT_CHANGES])
def test_any_change_is_found(what, run, capsys):
    match = next(m for m in read(run) if m["task"] == "FrozenLakeRace" and "noop" not in lineup(m)
                 and lineup(m)[0] != lineup(m)[1] and len(m["seats"][0]["turns"]) > 1)  # fmt: skip
    change = CHANGES.get(what) or (lambda m: SEAT_CHANGES[what](m["seats"][0]))
    change(match)
    write(run, [match])
    capsys.readouterr()
    assert main(["verify", str(run)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("MISMATCH ")
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("seats", "message"),
    [
        ({"Chess": 2}, "seats must name the tasks"),
        (dict.fromkeys(SEATS, 10**9), "less than or equal"),
    ],
)
def test_a_config_of_other_seats_is_refused(run, seats, message, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "seats": seats}, sort_keys=False))
    assert main(["verify", str(run)]) == 2
    assert message in capsys.readouterr().err


class Waves(ScriptedPolicy):
    """A local model of a sort: counts what it is asked, and fails where it is told to."""

    batch_size = 4

    def __init__(self, fails=""):
        super().__init__("waves", lambda chat: "<think>so</think><answer>Stay</answer>")
        self.fails, self.asked = fails, []

    def act(self, requests):
        self.asked.append([request.messages[-1]["content"] for request in requests])
        if self.fails == "overflow":
            return [Reply("", overflow=True) for _ in requests]
        if self.fails == "no reply":
            return ["Stay" for _ in requests]
        if self.fails == "no text":
            return [Reply(None) for _ in requests]
        if self.fails:
            raise ValueError(self.fails)
        return super().act(requests)


def seat_policies(monkeypatch, waves):
    known = {"random": RandomPolicy(), "oracle": OraclePolicy(), "waves": waves}
    monkeypatch.setattr(agents, "make_policies", lambda names, **_: {n: known[n] for n in names})


def test_a_model_is_asked_in_batches_and_resumed_in_the_same_ones(suite, tmp_path, monkeypatch):
    waves = Waves()
    seat_policies(monkeypatch, waves)
    command = words(suite, tmp_path / "run", agents=("waves", "random"), games=["SokobanCoop"])
    assert main(command) == 0
    whole = [batch for batch in waves.asked if len(batch) > 1]
    assert max(map(len, waves.asked)) == 4
    matches = read(tmp_path / "run")
    matches.remove(next(match for match in matches if lineup(match) == ("waves", "random")))
    write(tmp_path / "run", matches)
    waves.asked.clear()
    assert main(command) == 0
    assert waves.asked
    assert all(batch in whole for batch in waves.asked if len(batch) > 1)
    assert main(["verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("fails", ["overflow", "it broke", "no reply", "no text"])
def test_who_fails_is_silent_and_costs_only_itself(suite, tmp_path, monkeypatch, fails):
    seat_policies(monkeypatch, Waves(fails))
    agents, games = ("waves", "oracle"), ["FrozenLakeRace"]
    assert main(words(suite, tmp_path / "run", agents=agents, games=games)) == 0
    for match in read(tmp_path / "run"):
        for seat in match["seats"]:
            if seat["agent"] == "waves":
                assert (seat["end"], seat["turns"]) == (
                    "overflow" if fails == "overflow" else "error",
                    [],
                )
                assert not seat["success"]
            else:
                assert seat["end"] in ("terminated", "budget")
                assert seat["turns"]
    assert main(["verify", str(tmp_path / "run")]) == 0
    data = summarise_matches(read_match_run(tmp_path / "run"))
    assert data[data["agent"] == "waves"]["errors"].sum() == 2 * 4 * LEVELS
    config = load_config(tmp_path / "run")
    assert missing_agents(tmp_path / "run", config) == []
    assert missing_agents(tmp_path / "run", config, retry_errors=True) == ["waves", "oracle"]


PYTHON_AGENT = """
from ragen_agents.policies import Reply

class Agent:
    async def reply(self, request):
        if "player_1" in request.messages[0]["content"][:20]:
            raise RuntimeError("I only sit first")
        return Reply("<think>first</think><answer>Stay</answer>", prompt_tokens=0, reply_tokens=0)
"""


def test_python_agents_and_endpoints_take_seats(suite, tmp_path, monkeypatch, capsys):
    (tmp_path / "sits.py").write_text(PYTHON_AGENT)
    monkeypatch.chdir(tmp_path)
    agents, games = ("sits:Agent", "openai:m"), ["FrozenLakeRace"]
    with EndpointServer(lambda *_: completion("<think>so</think><answer>Right</answer>")) as server:
        command = words(suite, "run", "--base-url", server.url, agents=agents, games=games)
        assert main([*command, "--token-limit", "1"]) == 3
        assert "budget reached" in capsys.readouterr().err
        assert main(command) == 0
        assert len(server.bodies) > 20
    for match in read(Path("run")):
        first, second = match["seats"]
        assert first["end"] in ("terminated", "budget")
        failed = second["agent"] == "sits:Agent"
        assert (second["error"] == "RuntimeError: I only sit first") == failed
    assert main(["verify", "run"]) == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["match", "--suite", "core"], "unknown game of several players 'ragen/BanditText-v0'"),
        (["bench", "--suite", "match"], "ragen match plays games for several players"),
        (["match", "--game", "Chess"], "unknown game 'Chess'"),
        (["match", "--agent", "champion"], "unknown agent 'champion'"),
    ],
)
def test_mistakes_are_named_and_write_nothing(command, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_oracle_that_cannot_play_is_named_before_anything_is_played(tmp_path, capsys):
    task = {"env": "ragen/frozen_lake_race_text-v0", "settings": {"players": 3}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"name": "s", "version": 1, "tasks": {"T": task}}))
    command = ["match", "--suite", str(tmp_path / "s.yaml"), "--episodes", "2"]
    assert main([*command, "--agent", "oracle", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "task 'T': the oracle is for 2 players, but there are 3" in error
    assert not (tmp_path / "run").exists()
    assert main([*command, "--agent", "random", "--out", str(tmp_path / "run")]) == 0
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_commands_for_single_players_refuse_matches(run, capsys):
    assert main(["compare", f"{run}:random", ":oracle"]) == 2
    assert "is a run of ragen match" in capsys.readouterr().err
    assert main(["bench", "--episodes", "2", "--agent", "random", "--out", str(run)]) == 2
    assert "holds another run" in capsys.readouterr().err


class Failing:
    """An agent that raises."""

    concurrency = 2

    def __init__(self, name, error):
        self.name, self._error = name, error

    async def reply(self, request):
        raise self._error

    async def close(self):
        pass


def test_an_error_matters_more_than_a_budget_that_is_reached_in_the_same_round():
    errors = {"spent": BudgetReachedError("1 s is over"), "broken": RagenError("no model answers")}
    policies = {name: Failing(name, error) for name, error in errors.items()}
    spec = MatchSpec("Race", "ragen/frozen_lake_race_text-v0", ("spent", "broken"), 0, "test", {})
    with pytest.raises(RagenError, match="no model answers"):
        asyncio.run(play_matches([spec], policies, 0, lambda records: None))
