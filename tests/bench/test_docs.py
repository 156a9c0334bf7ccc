import importlib
import re
import shlex
from pathlib import Path

import forked
import gymnasium as gym
import pytest
import typer
import yaml
from ragen_bench.cli import app

from ragen_agents.starpo import TrainConfig

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```bash\n(.*?)```|`((?:ragen|python) [^`]+)`", re.DOTALL)
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


IN_ONE_GO = [page for page in PAGES if page.parent.name != "tutorials"]  # those are run whole


@pytest.mark.parametrize("page", IN_ONE_GO, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in CODE.findall(page.read_text("utf-8")):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def commands(text):
    """Yield the words of each command in the blocks and the inline code of a page."""
    without_files = re.sub(r"<<'EOF'\n.*?\nEOF\n", "\n", text, flags=re.DOTALL)
    for block, inline in COMMANDS.findall(without_files):
        for line in block.replace("\\\n", " ").splitlines() or [inline]:
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                command, words = words[:end], words[end + 1 :]
                while command and re.match(r"[A-Z_]+=", command[0]):
                    command.pop(0)
                if command:
                    yield command


def flags(words):
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def unknown_to_ragen(words):
    """Return the subcommand or the flags of a command line of ``ragen`` that do not exist."""
    command, words = typer.main.get_command(app), list(words)
    while words and hasattr(command, "commands"):
        word = words.pop(0)
        option = next((each for each in command.params if word in each.opts), None)
        if option is not None:
            del words[: 0 if option.is_flag else 1]
        elif word in command.commands:
            command = command.commands[word]
        elif word == "--help":
            return set()
        else:
            return {word}
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return flags(words) - known - {"--help"}


def unknown_to_python(words):
    """Return the script of the repository or the flags of its command line that do not exist."""
    if not words or not words[0].startswith(("benchmarks/", "examples/")):
        return set()
    script = ROOT / words[0]
    if not script.is_file():
        return {words[0]}
    source = script.read_text("utf-8")
    return {flag for flag in flags(words[1:]) if f'"{flag}"' not in source}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_have_the_flags_that_it_shows(page):
    for command, *words in commands(page.read_text("utf-8")):
        unknown = set()
        if command == "ragen":
            unknown = unknown_to_ragen(words)
        elif Path(command).name == "python":
            unknown = unknown_to_python(words)
        assert not unknown, shlex.join([command, *words])


def test_wrong_commands_of_a_page_are_seen():
    page = (
        "```bash\nragen --import a.py bench --agent x \\\n  --tires 2   # of old\n"
        "ragen leaderboard check && ragen leaderboard chekc\n"
        "OMP=1 python examples/starpo_minimal.py --seed=0 --sede 1\n```\n`python benchmarks/no.py`\n"
        "`ragen match\n--retry-errors --no-such`"
    )
    found = list(commands(page))
    ragen = [unknown_to_ragen(words) for name, *words in found if name == "ragen"]
    assert ragen == [{"--tires"}, set(), {"chekc"}, {"--no-such"}]
    scripts = [unknown_to_python(words) for name, *words in found if name == "python"]
    assert scripts == [{"--sede"}, {"benchmarks/no.py"}]


def test_the_settings_that_the_page_shows_are_some():
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        TrainConfig(**yaml.safe_load(block))


@pytest.mark.slow
def test_generated_pages_are_up_to_date():
    (done,) = forked.run(([ROOT / "docs" / "generate.py", "--check"], {}))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_single_file_learns_the_better_arm():
    pytest.importorskip("transformers")
    few = "--iterations 7 --prompts-per-iteration 4 --filter-ratio 0.5 --seed 1".split()
    (done,) = forked.run(([ROOT / "examples" / "starpo_minimal.py", *few], {}))
    assert done.returncode == 0, done.stderr
    success = [float(value) for value in re.findall(r"success (\S+)", done.stdout)]
    assert len(success) == 7
    assert success[0] < 0.65  # the starter pulls either arm
    assert sum(success[-3:]) / 3 > 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "lines", "words"),
    [("custom_loop.py", 1, "return"), ("own_parts.py", 1, "price of length")],
)
def test_the_examples_of_training_run(example, lines, words, tmp_path):
    pytest.importorskip("transformers")
    command = [ROOT / "examples" / example, "--iterations", lines]
    (done,) = forked.run((command, {}), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(words, done.stdout)) == lines


OUTSIDE = pytest.mark.parametrize("module", ["corridor", "lights_out", "pay_up"])


@OUTSIDE
def test_a_game_from_outside_is_played_by_the_oracle_to_the_end(module, examples):
    game = importlib.import_module(module).GAME

    from ragen_envs.conversation import format_reply, make
    from ragen_envs.game.text import action_texts

    env = make(game.text_id)
    for seed in range(20):
        env.reset(seed=seed)
        value = env.oracle().value
        while env.end is None:
            env.play(format_reply(action_texts(env.names, env.oracle().actions), "on my way"))
        assert env.success == (value == 1.0)


@OUTSIDE
def test_a_game_from_outside_passes_the_checker(module, examples):
    game = importlib.import_module(module).GAME
    from gymnasium.utils.env_checker import check_env

    check_env(gym.make(game.id).unwrapped)


def test_the_oracle_of_the_lamps_agrees_with_brute_force(examples):
    from lights_out import pressed, solution

    fewest, layer = {bytes(9): 0}, [bytes(9)]
    while layer:
        following = []
        for state in layer:
            for lamp in range(9):
                there = pressed(state, lamp)
                if there not in fewest:
                    fewest[there] = fewest[state] + 1
                    following.append(there)
        layer = following
    assert len(fewest) == 512
    for state in list(fewest)[::9]:
        plan = solution(state)
        assert len(plan) == fewest[state]
        for lamp in plan:
            state = pressed(state, lamp)
        assert not any(state)


UNIDIOMATIC = re.compile(
    r"gone on|told (?:of|on)\b|let go of|hand(?:s|ed)? out|(?:can|could)(?:not)? be had|wished|whom to blame"
    r"|\d times (?:out )?of \d|four times of five|is there already|the company of each"
    r"|to be had|goes without|a look at the machinery|lets vLLM run|pulls on length"
    r"|is no (?:training run|checkpoint|site|file of|text of|plain)|\ba (?:line|row) a (?:row|line|turn)\b",
    re.IGNORECASE,
)
PEOPLE_READ = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    *(
        path
        for name in ("ragen_envs", "ragen_agents", "benchmarks/ragen_bench")
        for path in (ROOT / name).rglob("*.py")
    ),
]


def test_phrases_that_are_no_english_do_not_return():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in PEOPLE_READ
        for match in UNIDIOMATIC.finditer(path.read_text("utf-8"))
    ]
    assert not found


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 600


def test_the_version_is_the_same_everywhere():
    from ragen_envs import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert f"version = {{{__version__}}}" in (ROOT / "docs" / "citing.md").read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert releases[0] == (__version__, str(citation["date-released"]))
    assert [date for _, date in releases] == sorted((date for _, date in releases), reverse=True)
