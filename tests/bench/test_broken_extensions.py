"""Games and agents from outside that are wrong: one line names what, and never a traceback."""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium as gym
import pytest
from ragen_bench.__main__ import main
from ragen_bench.config import extensions
from ragen_bench.config.agents import check_ability
from ragen_bench.config.suites import Task

from ragen_agents import policies
from ragen_envs import registration
from ragen_envs.game.oracle import Budget

CORRIDOR = (Path(__file__).parents[1] / "support/full_corridor.py").read_text("utf-8")
GAME = ["--game", "mine/CorridorText-v0", "--episodes", "4"]
REWARD = "return float(done), done"
ADVICE = "return Advice(run, value, value if way else 0.0)"
SUCCESS = "return self.player == self.coin"
KEY = "return str(min((here, coin), (self.length - 1 - here, self.length - 1 - coin)))"
INFO = 'return {"success": success, "action_is_valid": True, "action_is_effective": effective}'
RULES = 'return "You walk along a corridor. Reach the coin. Rewards: 1 at the coin, otherwise 0."'


@pytest.fixture
def corridor(tmp_path, monkeypatch):
    """Write the example with a change, and return what imports it; afterwards it is forgotten."""
    for name in ("mine/Corridor-v0", "mine/CorridorText-v0"):  # as another test may have left it
        monkeypatch.delitem(gym.registry, name, raising=False)
    before, modules = dict(gym.registry), set(sys.modules)
    monkeypatch.setattr(registration, "_added", {})
    monkeypatch.setattr(extensions, "_imported", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(old, new):
        text = CORRIDOR.replace('"corridor:', '"broken_corridor:')
        assert old in text
        Path("broken_corridor.py").write_text(text.replace(old, new), "utf-8")
        return ["--import", "broken_corridor.py"]

    yield write
    for each in set(gym.registry) - set(before):
        del gym.registry[each]
    if "broken_corridor" not in modules:
        sys.modules.pop("broken_corridor", None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (ADVICE, "return None", "raised AttributeError: 'NoneType' object has no attribute"),
        (ADVICE, "raise ValueError('boom')", "CorridorEnv.oracle raised ValueError: boom"),
        (
            ADVICE,
            "return Advice(run, value, float('nan'))",
            "its optimal_return is nan, but must be",
        ),
        (SUCCESS, "return True", "success is true before the first action"),
        (ADVICE, "return Advice(run, 1.5, value)", "optimal_success is 1.5, but must be a prob"),
        ("self.length = length", "raise OSError('no map')", "cannot be made: OSError: no map"),
        (KEY, "return here[0]", "CorridorEnv.level_key raised TypeError: "),
        (INFO, "return None", "raised TypeError: 'NoneType' object is not subscriptable"),
        (RULES, "return None", "raised TypeError: "),
        ("return NAMES", "return list(NAMES)", "its text.actions returned ['Left', 'Right'], but"),
        ("return NAMES", "return ('Go', ' Back')", "without spaces around it"),
        ("return NAMES", "return ('go', 'GO')", "different from the others by more than upper and"),
        ("return NAMES", "return ('Go || on', 'Right')", "without '||'"),
        ("return NAMES", "return ('Go', 'GO', 'Back')", "a name for each of the 2 actions"),
        (
            "self.player, self.coin = map",
            "self.spot = map",
            "CorridorEnv.observe raised AttributeError: ",
        ),
        (
            "_corridor:CorridorEnv",
            "_corridor:Nope",
            "AttributeError: module 'broken_corridor' has no attribute 'Nope'",
        ),
        (
            '"broken_corridor:',
            '"nowhere:',
            "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
        ),
        (
            ADVICE,
            f"self.player = self.coin\n        {ADVICE}",
            "its oracle changed the state of the",
        ),
        (
            ADVICE,
            """return Advice(run, value / 2, value / 2)

    def random_baseline(self, budget=None):
        from ragen_envs.game.oracle import RandomBaseline
        return RandomBaseline(1.0, 1.0)""",
            "random_success is 1.0, but must not exceed optimal_success, 0.5",
        ),
        (
            ADVICE,
            f"{ADVICE}\n\n    def max_return(self, budget=None):\n        return -3.0",
            "max_return is -3.0, but must not be below",
        ),
        (KEY, "return 7", "none of 10000 generated levels belongs to the split 'test'"),
        (
            '    vocabularies = {"standard": CELLS}',
            "",
            "'CorridorText' object has no attribute 'vocabularies'",
        ),
        ("def legend(", "def legends(", "'CorridorText' object has no attribute 'legend'"),
        (
            "length: int = 12,",
            "length: int = 12, history: int = 2,",
            "has the argument 'history', which",
        ),
        ("return NAMES", "return NAMES[:1]", "a tuple with a name for each of the 2 actions"),
    ],
)
def test_a_game_that_cannot_be_played_is_named(old, new, said, corridor, fails):
    error = fails(*corridor(old, new), "bench", *GAME, "--agent", "random", "--out", "run")
    assert said in error
    assert "a setting has a wrong type" not in error
    assert "orridor" in error


def test_a_level_that_is_no_text_is_named(corridor, fails):
    command = corridor('return f"{here} {coin}"', "return [here, coin]")
    text = Path("broken_corridor.py").read_text("utf-8").replace("level.split()", "level")
    Path("broken_corridor.py").write_text(text.replace("here, coin = map(int, level)", "here, coin = level"))
    error = fails(*command, "bench", *GAME, "--agent", "random", "--out", "run")
    assert "but must be a text" in error


def test_a_turn_that_loses_the_game_has_no_value(corridor):
    """Its oracle need not know that the game is over."""
    ends = "return float(done), done or self.player in (0, self.length - 1)"
    assert main([*corridor(REWARD, ends), "games"]) == 0
    env = gym.make("mine/Corridor-v0").unwrapped
    env.reset(seed=0)
    env.start("1 5")
    budget = Budget(actions=20, turns=5, actions_per_turn=5)
    assert [env.turn_value(actions, budget) for actions in ((0,), (1,), (1, 1, 1, 1))] == [0, 1, 1]
    assert env.player == 1


VALUE = "value = float(abs(way) <= left.reach)"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "(int(way > 0),) * min(", "(int(way < 0),) * min(",
            "lost by the oracle although its value is 1: the oracle is wrong",
        ),
        (VALUE, "value = 0.0", "solved although the oracle's value is 0: the oracle is wrong"),
        (
            VALUE, "value = 0.25",
            "oracle solved 16 of 16 episodes of mine.Corridor, but its optimum is 25.0%: too many",
        ),
        (
            "def observe(self):",
            "def random_baseline(self, budget=None):\n"
            "        from ragen_envs.game.oracle import RandomBaseline\n"
            "        return RandomBaseline(0.001, 0.0)\n\n"
            "    def observe(self):",
            "but its exact chance of random play is 0.1%: too many",
        ),
    ],
)  # fmt: skip
def test_a_run_that_proves_a_number_wrong_says_so(corridor, capsys, old, new, said):
    agents = ["--agent", "oracle", "--agent", "random", "--episodes", "16"]
    assert main([*corridor(old, new), "bench", *GAME[:2], *agents, "--out", "run"]) == 0
    shown = capsys.readouterr()
    assert said in " ".join((shown.out + shown.err).split())


@pytest.mark.parametrize("reward", ["float('nan')", "None"])
def test_a_reward_that_is_no_number_ends_the_episode(reward, corridor, capsys):
    imported = corridor(REWARD, f"return {reward}, done")
    assert main([*imported, "bench", *GAME, "--agent", "random", "--out", "run"]) == 0
    records = [json.loads(line) for line in Path("run/episodes.jsonl").read_text().splitlines()]
    assert [record["end"] for record in records] == ["error"] * 4
    said = "must be real number" if reward == "None" else "but must be a finite number"
    assert all(said in record["error"] for record in records)


def test_an_oracle_that_fails_later_ends_the_episodes_of_its_agent_only(corridor, capsys):
    late = "if str(self.player) != self.instance.level.split()[0]:\n            return None\n        "
    imported = corridor(ADVICE, late + ADVICE)
    agents = ["--agent", "oracle", "--agent", "random"]
    assert main([*imported, "bench", *GAME[:-1], "12", *agents, "--out", "run"]) == 0
    records = [json.loads(line) for line in Path("run/episodes.jsonl").read_text().splitlines()]
    errors = {record["agent"]: record["error"] for record in records if record["end"] == "error"}
    assert set(errors) == {"oracle"}
    assert "'NoneType' object has no attribute 'actions'" in errors["oracle"]


def test_games_lists_the_others(corridor, capsys):
    imported = corridor("corridor:CorridorEnv", "corridor:Nope")
    assert main([*imported, "games", "--format", "json"]) == 0
    shown = capsys.readouterr()
    listed = [row["text_id"] for row in json.loads(shown.out)["rows"]]
    assert "ragen/SokobanText-v0" in listed
    assert "mine/CorridorText-v0" not in listed
    assert "game 'mine/CorridorText-v0' cannot be made: RagenError: mine/Corridor-v0 cannot be" in shown.err


POLICIES = """
from ragen_agents.policies import Reply

class Hare:
    name, batch_size = "hare", 4
    def __init__(self, sampling): pass
    def act(self, requests): return [Reply("x")]

class Strings(Hare):
    def act(self, requests): return ["x" for _ in requests]

class Boom:
    def __init__(self, sampling): raise ValueError("no weights")

class Bare:
    def __init__(self, sampling): pass
    def act(self, requests): return []

class Mute(Hare):
    def act(self, requests): return None

class Late:
    name, concurrency = "late", 2
    def __init__(self, sampling): pass
    async def reply(self, request): return "x"
    async def close(self): pass

class Fixed(Hare):
    name = property(lambda self: "fixed")

def nothing(sampling): return None
"""


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Install agents of broken classes under the names of the classes in lower case."""
    (tmp_path / "broken_agents.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    classes = ("Hare", "Strings", "Mute", "Boom", "Bare", "Fixed", "Late", "nothing", "Missing")
    points = [EntryPoint(c.lower(), f"broken_agents:{c}", "ragen.policies") for c in classes]
    points.append(EntryPoint("away", "no_such_module:Hare", "ragen.policies"))
    points.append(EntryPoint("random", "broken_agents:Hare", "ragen.policies"))
    points += [EntryPoint("twin", f"broken_agents:{c}", "ragen.policies") for c in ("Bare", "Hare")]

    def found(group, name=None):
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(policies, "entry_points", found)
    yield
    sys.modules.pop("broken_agents", None)


BENCH = ["bench", "--game", "Bandit", "--episodes", "3", "--out", "run", "--agent"]


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("boom", "agent 'boom' (broken_agents:Boom) cannot be made: ValueError: no weights"),
        ("missing", "cannot be made: AttributeError: "),
        ("fixed", "agent 'fixed' (broken_agents:Fixed) cannot be made: AttributeError: "),
        ("away", "cannot be made: ModuleNotFoundError: No module named 'no_such_module'"),
        ("nothing", "agent 'nothing' (broken_agents:nothing) made None, but must make a policy"),
        (
            "random",
            "several packages have an agent 'random' (ragen-suite, broken_agents:Hare); rename",
        ),
        (
            "twin",
            "an agent 'twin' (broken_agents:Bare, broken_agents:Hare); rename it in the entry",
        ),
        ("bare", "but must make a policy: with batch_size and act(requests), or with concurrency"),
    ],
)
def test_an_agent_that_cannot_be_made_is_named(agent, said, added, fails):
    assert said in fails(*BENCH, agent)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("hare", "for 3 requests, but must return a list of as many Reply"),
        ("strings", "the policy returned 'x', but must return a Reply"),
        ("late", "the policy returned 'x', but must return a Reply"),
        ("mute", "the policy returned None for 3 requests, but must return a list"),
    ],
)
def test_what_is_no_list_of_replies_ends_the_episodes(agent, said, added, capsys):
    assert main([*BENCH, agent]) == 0
    records = [json.loads(line) for line in Path("run/episodes.jsonl").read_text().splitlines()]
    assert all(said in record["error"] for record in records)


def test_a_game_that_cannot_show_its_end_is_named_and_verified(corridor, capsys):
    first = 'if form != "grid":'
    given = corridor(
        first, f"if env.player == env.coin:\n            raise KeyError('boom')\n        {first}"
    )
    assert main([*given, "bench", *GAME, "--agent", "oracle", "--out", "run"]) == 0
    records = [json.loads(line) for line in Path("run/episodes.jsonl").read_text().splitlines()]
    for record in records:
        assert record["error"].startswith("GameError: CorridorText.observation raised KeyError: 'boom'")
        assert record["closing"] == ""
    capsys.readouterr()
    assert main([*given, "verify", "run"]) == 0, capsys.readouterr().err


def test_an_installed_agent_may_see_pictures(added):
    check_ability(["hare"], {"Sokoban": Task(env="ragen/SokobanText-v0", settings={"observation": "image"})})


def test_a_package_of_no_extra_is_named_without_a_wrong_hint(monkeypatch, fails):
    def needs(*arguments, **options):
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere.inside")

    monkeypatch.setattr("ragen_bench.cli.show.print_table", needs)
    assert fails("power") == "error: this command needs nowhere.inside, which is not installed\n"


def test_explain_says_what_a_game_without_turn_values_lacks(corridor, capsys):
    given = corridor("    deterministic = True\n", "")
    assert main([*given, "bench", *GAME, "--agent", "random", "--out", "run"]) == 0
    assert main([*given, "explain", "run"]) == 0
    assert "deterministic = True" in " ".join(capsys.readouterr().out.split())
