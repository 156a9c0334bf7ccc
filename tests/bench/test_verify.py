"""`ragen verify`: what was played is accepted, and nothing else."""

import hashlib
import json
import pydoc
import shutil
from pathlib import Path

import pytest
import yaml
from ragen_bench.__main__ import main
from ragen_bench.config import agents
from ragen_bench.config.run_config import RunConfig, load_config
from ragen_bench.runs.directory import set_errors_aside
from ragen_bench.verification.run_verification import replay_here
from scripted_policy import ScriptedPolicy

from ragen_agents.policies import OraclePolicy
from ragen_envs.errors import RagenError

GAMES = ("Bandit", "FrozenLake")
AGENTS = ("random", "noop", "oracle")


def bench(out, *more, agents=AGENTS, games=GAMES, episodes=4):
    named = [o for agent in agents for o in ("--agent", agent)]
    named += [o for game in games for o in ("--game", game)]
    assert main(["bench", *named, "--episodes", str(episodes), "--out", str(out), *more]) == 0
    return out


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "played"
    return bench(out)


@pytest.fixture
def run(played, tmp_path):
    return Path(shutil.copytree(played, tmp_path / "run"))


def read(run):
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


def write(run, episodes):
    """Write episodes as a careful forger would: with the checksums that belong to them."""
    lines = [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in episodes]
    (run / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    sums = [hashlib.sha256(line.encode()).hexdigest() for line in lines]
    (run / "episodes.sha256").write_text("".join(f"{s}\n" for s in sums))


def rejected(run, capsys):
    capsys.readouterr()
    assert main(["verify", str(run)]) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("MISMATCH ")
    assert len(error.splitlines()) == 1
    return error


def lake(episodes):
    """A slippery episode of the random agent with a whole turn."""
    return next(e for e in episodes if (e["agent"], e["task"]) == ("random", "FrozenLake"))


def test_a_run_is_accepted(run, capsys):
    assert main(["verify", str(run)]) == 0
    out = capsys.readouterr().out
    assert "OK 24 episodes" in out
    assert "complete" in out


def test_rewriting_alone_changes_nothing(run):
    write(run, read(run))
    assert main(["verify", str(run)]) == 0


def test_an_unfinished_run_is_accepted_and_named(run, capsys):
    write(run, read(run)[:-5])
    assert main(["verify", str(run)]) == 0
    assert "5 episodes missing" in capsys.readouterr().out


def test_environments_that_cannot_be_read_are_named(run, capsys):
    (run / "environment.json").write_text("{")
    assert main(["verify", str(run)]) == 0
    assert "environment.json' cannot be read" in capsys.readouterr().out


def _bump(record, name):
    record[name] = record[name] + 0.1


def _first_turn(change):
    return lambda episode: change(episode["turns"][0])


def _put(record, **fields):
    assert all(record[name] != value for name, value in fields.items())
    record.update(fields)


def _silence(episode, **end):
    """Let an episode fail before the first reply, with all that belongs to it."""
    episode.update(turns=[], success=False, episode_return=0.0, closing="", **end)


EPISODE_CHANGES = {
    "success": lambda e: _put(e, success=not e["success"]),
    "episode_return": lambda e: _bump(e, "episode_return"),
    "optimal_success": lambda e: _bump(e, "optimal_success"),
    "optimal_return": lambda e: _bump(e, "optimal_return"),
    "random_success": lambda e: _bump(e, "random_success"),
    "random_return": lambda e: _bump(e, "random_return"),
    "random_success removed": lambda e: _put(e, random_success=None),
    "end": lambda e: _put(e, end="invalid"),
    "error": lambda e: _put(e, error="timeout"),
    "closing": lambda e: _put(e, closing=e["closing"] + " "),
    "system": lambda e: _put(e, system=e["system"].replace("Reach", "Find")),
    "sampling_seed": lambda e: _put(e, sampling_seed=1),
    "suite_version": lambda e: _put(e, suite_version=99),
    "schema_version": lambda e: _put(e, schema_version=2),
    "env_id": lambda e: _put(e, env_id="ragen/FrozenLakeDeterministicText-v0"),
    "env_kwargs": lambda e: _put(e, env_kwargs={"max_turns": 9}),
    "attempt": lambda e: _put(e, attempt=1),
    "agent": lambda e: _put(e, agent="oracle"),
    "unknown agent": lambda e: _put(e, agent="champion"),
    "task": lambda e: _put(e, task="Sokoban"),
    "index": lambda e: _put(e["instance"], index=3),
    "index beyond": lambda e: _put(e["instance"], index=4),
    "instance.seed": lambda e: _put(e["instance"], seed=0),
    "instance.noise": lambda e: _put(e["instance"], noise=1),
    "instance.split": lambda e: _put(e["instance"], split="train"),
    "instance.distribution": lambda e: _put(e["instance"], distribution="frozen_lake-9x9"),
    "instance.key": lambda e: _put(e["instance"], key="0" * 16),
    "instance.level": lambda e: _put(e["instance"], level=e["instance"]["level"][::-1]),
    "turns fewer": lambda e: e["turns"].pop(),
    "turns more": lambda e: e["turns"].append(e["turns"][-1]),
    "failure": lambda e: _silence(e, end="error", error="RuntimeError: no"),
    "overflow": lambda e: _silence(e, end="overflow"),
}
TURN_CHANGES = {
    "user": lambda t: _put(t, user=t["user"].replace("Turn 1", "Turn 2")),
    "reply": lambda t: _put(t, reply="<think>random</think><answer>Up</answer>"),
    "reply's thought": lambda t: _put(t, reply=t["reply"].replace("random", "wise")),
    "reply's form": lambda t: _put(t, reply=t["reply"].replace("</answer>", "")),
    "cut_off": lambda t: _put(t, cut_off=True),
    "prompt_tokens": lambda t: _put(t, prompt_tokens=7),
    "reply_tokens": lambda t: _put(t, reply_tokens=7),
    "tokens_estimated": lambda t: _put(t, tokens_estimated=True),
    "reasoning": lambda t: _put(t, reasoning="I looked ahead."),
    "actions": lambda t: t["actions"].reverse() or t["actions"].append("Up"),
    "executed": lambda t: t["executed"].pop(),
    "effective": lambda t: t["effective"].__setitem__(0, not t["effective"][0]),
    "defects": lambda t: t["defects"].append("empty"),
    "soft_defects": lambda t: t["soft_defects"].append("commas"),
    "rewards": lambda t: t["rewards"].__setitem__(0, t["rewards"][0] + 1e-9),
    "penalty": lambda t: _put(t, penalty=-0.1),
}
CHANGES = {**EPISODE_CHANGES, **{name: _first_turn(c) for name, c in TURN_CHANGES.items()}}


@pytest.mark.parametrize("name", CHANGES)
def test_a_single_change_is_rejected(run, name, capsys):
    episodes = read(run)
    CHANGES[name](lake(episodes))
    write(run, episodes)
    assert "line 5" in rejected(run, capsys) or name in ("index", "agent")


@pytest.mark.parametrize(("by", "code"), [(1e-15, 0), (1e-9, 1)])
def test_what_another_processor_rounds_is_no_difference(run, by, code):
    episodes = read(run)
    lake(episodes)["optimal_success"] += by
    write(run, episodes)
    assert main(["verify", str(run)]) == code


def test_a_control_fails_only_where_it_fails_again(tmp_path, monkeypatch, capsys):
    """A game that breaks on one level ends this episode of a control, and no other of its batch."""
    act = OraclePolicy.act

    def breaks(policy, requests):
        if any(request.conversation.unwrapped.instance.index == 1 for request in requests):
            raise RuntimeError("no optimum")
        return act(policy, requests)

    with monkeypatch.context() as patched:
        patched.setattr(OraclePolicy, "act", breaks)
        run = bench(tmp_path / "run", agents=["oracle"], games=["Bandit"])
        assert [episode["end"] == "error" for episode in read(run)] == [False, True, False, False]
        assert main(["verify", str(run)]) == 0
    assert "turn 1, reply: recorded 'error', recomputed '<think>optimal" in rejected(run, capsys)


def test_the_message_names_what_differs(run, capsys):
    episodes = read(run)
    TURN_CHANGES["rewards"](lake(episodes)["turns"][0])
    write(run, episodes)
    error = rejected(run, capsys)
    for part in ("episodes.jsonl line 5", "random / FrozenLake / instance 0", "turn 1, rewards"):
        assert part in error
    assert "recorded (1e-09" in error
    assert "recomputed (0.0" in error


@pytest.mark.parametrize("field", ["task", "agent"])
def test_what_is_not_of_the_run_is_named_where_a_replay_runs_ahead(run, field, monkeypatch, capsys):
    """As on a cluster, which replays chunks of records before their results are asked for."""

    def at_once(*arguments):
        return iter(list(replay_here(*arguments)))

    monkeypatch.setattr("ragen_bench.verification.run_verification.replayer", lambda _: at_once)
    episodes = read(run)
    _put(episodes[7], **{field: "Chess"})
    write(run, episodes)
    assert "line 8 is not of this run" in rejected(run, capsys)


def test_swapped_levels_are_rejected(run, capsys):
    episodes = read(run)
    first, second = episodes[4], episodes[5]
    first["instance"]["index"], second["instance"]["index"] = 1, 0
    write(run, episodes)
    assert "instance.level" in rejected(run, capsys)


@pytest.mark.parametrize("field", ["seconds", "reply"])
def test_what_no_replay_can_tell_the_checksums_can(run, field, capsys):
    """A reply of a model with other thoughts and the same actions, for example."""
    text = (run / "episodes.jsonl").read_text()
    line = text.splitlines()[4]
    episode = json.loads(line)
    if field == "reply":
        episode["turns"][0]["reply"] += " "
    else:
        episode["turns"][0]["seconds"] = 5.0
    changed = json.dumps(episode, ensure_ascii=False, separators=(",", ":"))
    (run / "episodes.jsonl").write_text(text.replace(line, changed))
    assert "line 5" in rejected(run, capsys)


def test_without_checksums_the_replay_still_counts(run, capsys):
    (run / "episodes.sha256").unlink()
    assert main(["verify", str(run)]) == 0
    assert "no checksums" in capsys.readouterr().out


def test_a_destroyed_last_line_is_rejected(run, capsys):
    """It was recorded as whole, so no interrupted write has left it."""
    text = (run / "episodes.jsonl").read_text()
    (run / "episodes.jsonl").write_text(text[:-100] + "\n")
    assert "line 24" in rejected(run, capsys)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["suite"]["sampling"].update(temperature=0.0),
        lambda c: c["suite"]["sampling"].update(max_tokens=5),
        lambda c: c["suite"].update(seed=1),
        lambda c: c["suite"].update(episodes=3),
        lambda c: c["suite"].update(split="train"),
        lambda c: c["suite"]["tasks"].pop("Bandit"),
        lambda c: c["agents"].pop(),
    ],
)
def test_an_edited_config_is_rejected(run, change, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    change(config)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert "config.yaml was edited" in rejected(run, capsys)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.update(seed=1), "sampling_seed"),
        (lambda s: s.update(split="train"), "instance.split"),
        (lambda s: s.update(episodes=3), "not of this run"),
        (lambda s: s["tasks"]["Bandit"].update(settings={"sure": 0.2}), "env_kwargs"),
    ],
)
def test_a_forged_config_is_rejected_by_its_episodes(run, change, named, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    del config["digest"]
    change(config["suite"])
    digest = RunConfig.model_validate(config).digest
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "digest": digest}))
    assert named in rejected(run, capsys)


def test_a_config_that_names_an_agent_twice_is_refused(run, capsys):
    """It passed as complete, and its table had every row twice."""
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["agents"].append(dict(config["agents"][0]))
    path.write_text(yaml.safe_dump(config))
    assert main(["verify", str(run)]) == 2
    assert "the agent 'random' is named twice" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"1"', "null", "[]"])
def test_unreadable_values_are_an_error(run, value, capsys):
    text = (run / "episodes.jsonl").read_text()
    (run / "episodes.jsonl").write_text(text.replace('"penalty":0.0', f'"penalty":{value}', 1))
    assert main(["verify", str(run)]) == 2
    error = capsys.readouterr().err
    assert "episodes.jsonl line 1 is corrupt" in error
    assert "penalty" in error or "JSON" in error


def test_what_a_terminal_would_obey_is_escaped(run, capsys):
    episodes = read(run)
    lake(episodes)["closing"] = "\x1b[2J"
    write(run, episodes)
    assert "\x1b" not in rejected(run, capsys)


def test_worked_examples_are_recorded_and_checked(tmp_path, capsys):
    out = tmp_path / "shown"
    command = [
        "bench",
        "--agent",
        "random",
        "--game",
        "Sokoban",
        "--episodes",
        "2",
        "--out",
        str(out),
    ]
    assert main([*command, "--setting", "demonstrations=2", "--setting", "max_turns=3"]) == 0
    assert main(["verify", str(out)]) == 0
    episodes = read(out)
    assert all(e["env_kwargs"] == {"demonstrations": 2, "max_turns": 3} for e in episodes)
    assert episodes[0]["examples"] == episodes[1]["examples"]
    assert [len(example) for example in episodes[0]["examples"]] == [2, 2]
    episodes[1]["examples"][0][1] = "<think>a hint</think><answer>Up</answer>"
    write(out, episodes)
    assert "examples" in rejected(out, capsys)


def without_checksums(run, count):
    path = run / "episodes.sha256"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: -count or None]))


@pytest.mark.parametrize("count", [1, 4])
def test_what_an_interrupted_write_leaves_is_noted(run, count, capsys):
    without_checksums(run, count)
    assert main(["verify", str(run)]) == 0
    shown = capsys.readouterr()
    assert "OK 24 episodes" in shown.out
    assert f"note: the checksums do not cover the last {count} of the episodes" in shown.out


def warnings(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize("more", [(), ("--retry-errors",)])
def test_resuming_warns_of_episodes_that_nothing_protected(run, more, capsys):
    (run / "episodes.sha256").unlink()
    bench(run, *more)
    (line,) = warnings(capsys)
    assert "episodes.sha256 lacked the checksums of 24 of 24 episodes" in line
    bench(run, *more)
    assert not warnings(capsys)


def test_setting_errors_aside_unprotects_nothing(tmp_path, monkeypatch, capsys):
    def reply(messages):
        if "Arms: " in messages[-1]["content"]:
            raise RuntimeError("no reply today")
        return "none"

    monkeypatch.setattr(agents, "make_policy", lambda name, _: ScriptedPolicy(name, reply))
    for more in ((), ("--retry-errors",)):
        run = bench(tmp_path / "run", *more, agents=["hf:broken/model"])
    assert (run / "errors.jsonl").read_text()
    assert not warnings(capsys)
    assert main(["verify", str(run)]) == 0


def test_errors_stay_where_they_are_if_the_agent_cannot_be_loaded(tmp_path, monkeypatch, fails):
    def reply(_):
        raise RuntimeError("no reply today")

    def missing(name, _):
        raise RagenError(f"'{name}' is gone")

    monkeypatch.setattr(agents, "make_policy", lambda name, _: ScriptedPolicy(name, reply))
    run = bench(tmp_path / "run", agents=["hf:broken/model"], games=["Bandit"])
    before = read(run)
    monkeypatch.setattr(agents, "make_policy", missing)
    options = ["--agent", "hf:broken/model", "--game", "Bandit", "--episodes", "4"]
    error = fails("bench", *options, "--out", run, "--retry-errors")
    assert error == "error: 'hf:broken/model' is gone\n"
    assert read(run) == before
    assert not (run / "errors.jsonl").exists()


class _KilledError(BaseException):
    """What nothing catches."""


@pytest.mark.parametrize("step", range(4))
def test_setting_errors_aside_can_be_killed_anywhere(step, tmp_path, monkeypatch, capsys):
    def reply(messages):
        if broken and "Arms: " in messages[-1]["content"]:
            raise RuntimeError("no reply today")
        return "none"

    def killed_at(place):
        """Kill at the call with the number ``step`` of those that change files."""
        call = pydoc.locate(place)

        def called(*arguments):
            if not next(steps):
                raise _KilledError
            return call(*arguments)

        patched.setattr(place, called)

    broken, steps = True, iter(range(step, -100, -1))
    monkeypatch.setattr(agents, "make_policy", lambda name, _: ScriptedPolicy(name, reply))
    run = bench(tmp_path / "run", agents=["hf:broken/model"])
    with monkeypatch.context() as patched:
        killed_at("ragen_bench.runs.checksums.write_atomically")
        killed_at("ragen_bench.runs.directory.write_atomically")
        killed_at("pathlib.Path.unlink")
        with pytest.raises(_KilledError):
            set_errors_aside(run, load_config(run))
    broken = False
    bench(run, "--retry-errors", agents=["hf:broken/model"])
    assert main(["verify", str(run)]) == 0
    assert [episode["error"] for episode in read(run)] == [None] * 8
    assert "no reply today" in (run / "errors.jsonl").read_text()


def test_a_match_has_the_schema_of_its_suite_version(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["match", "--agent", "noop", "--game", "FrozenLakeRace", "--episodes", "1"]
    assert main([*words, "--out", str(run)]) == 0
    matches = read(run)
    _put(matches[0], schema_version=1)
    write(run, matches)
    assert "schema_version: recorded 1, recomputed 2" in rejected(run, capsys)
