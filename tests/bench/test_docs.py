import importlib
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import yaml

from ragen_agents.starpo import TrainConfig

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "environments").glob("*/README.md")),
]


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in CODE.findall(page.read_text("utf-8")):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_settings_that_the_page_shows_are_some():
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        TrainConfig(**yaml.safe_load(block))


def test_generated_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_single_file_learns_the_better_arm():
    pytest.importorskip("transformers")
    command = [sys.executable, str(ROOT / "examples" / "starpo_minimal.py"), "--iterations", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    success = [float(value) for value in re.findall(r"success (\S+)", done.stdout)]
    assert len(success) == 8
    assert success[0] < 0.65  # the starter pulls either arm
    assert sum(success[-3:]) / 3 > 0.75


@pytest.mark.parametrize("game", ["Corridor", "Cube"])
def test_a_game_from_outside_is_played_by_the_oracle_to_the_end(game, examples):
    importlib.import_module(game.lower())

    from ragen_envs.conversation import format_reply, make

    env = make(f"mine/{game}Text-v0")
    for seed in range(20):
        env.reset(seed=seed)
        value = env.oracle().value
        while env.end is None:
            env.play(format_reply([env.names[a] for a in env.oracle().actions], "on my way"))
        assert env.success == (value == 1.0)


@pytest.mark.parametrize("game", ["Corridor", "Cube"])
def test_a_game_from_outside_passes_the_checker(game, examples):
    importlib.import_module(game.lower())
    from gymnasium.utils.env_checker import check_env

    check_env(gym.make(f"mine/{game}-v0").unwrapped)


def test_the_cube_has_as_many_states_as_it_should(examples):
    import cube

    lengths = [len(plan) for plan in cube.ball(cube.SOLVED, 6).values()]
    # Quarter turns of the 2x2x2 cube: the known numbers of positions at each distance.
    assert [lengths.count(n) for n in range(7)] == [1, 6, 27, 120, 534, 2256, 8969]


def test_the_cube_oracle_is_exact_where_both_ends_meet(examples):
    import cube

    state = cube.SOLVED
    for action in (0, 2, 4, 0, 3, 5, 0, 2):
        state = cube.turned(state, action)
    plan = cube.solution(state, 10)
    assert all(cube.solution(state, limit) is None for limit in range(len(plan)))
    for action in plan:
        state = cube.turned(state, action)
    assert state == cube.SOLVED
