"""The code blocks of the documentation, the commands in them, and why some of them do not run in a test."""

import re
import shlex
from dataclasses import dataclass

FENCE = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]*\S) -->\n\s*)?"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(
    r"^\s*(?:[A-Z_]+=\S+ )*(?:ragen|pip|python|make|torchrun|vllm|vf-eval|inspect|uvicorn|git|docker) \S",
    re.MULTILINE,
)
ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)

NOT_RUN = [
    (r"make (install|test)\b", "continuous integration runs it"),
    (r"make bench\b", "installs, and tests/bench/test_bench.py plays these agents"),
    (r"make gpu\b", "needs a GPU; tests/bench/test_gpu_check.py rehearses it on a CPU"),
    (r"python3? -m gpu_check\b", "needs a GPU; tests/bench/test_gpu_check.py rehearses it on a CPU"),
    (r"make gpu-wheels\b", "downloads several gigabytes"),
    (r"make credit\b", "takes 45 minutes; tests/bench/test_credit.py runs its parts"),
    (r"python -m credit\b", "trains a critic for a minute; tests/bench/test_credit.py runs its parts"),
    (r"make gradients\b", "takes minutes; tests/bench/test_gradients.py computes its numbers"),
    (r"make speed\b", "measures time, on an idle machine and beside libraries to install"),
    (r"python benchmarks/speed/(growth|memory|trainers)\.py\b", "measures time or memory for minutes"),
    (r"ragen --import docs/examples/(babyai|tic_tac_toe).py\b", "needs minigrid or pygame"),
    (r"pip install\b|docker \w+", "changes the environment of the tests, from a package index"),
    (r"pre-commit install\b", "changes the checkout"),
    (r"\. \.venv/bin/activate\b", "the tests run in that environment"),
    (r"vllm serve\b|.*\bvllm\.entrypoints\b", "needs vLLM; tests/vllm starts this server"),
    (r"\.venv-vllm/", "needs vLLM, which make test-vllm installs"),
    (r"torchrun .*engine=vllm", "needs GPUs; tests/distributed/test_training_processes.py runs torchrun"),
    (r"torchrun\b", "tests/distributed/test_training_processes.py runs ragen train under torchrun"),
    (r"ragen train (?!.*--plan).*engine=vllm", "needs vLLM; tests/vllm trains with it"),
    (r"ragen bench .*--agent vllm:", "needs vLLM; tests/vllm/test_vllm_commands.py plays with it"),
    (r"ragen (bench|verify|leaderboard check) .*--backend ray\b",
     "needs a cluster; tests/distributed/test_ray.py starts one"),
    (r"ragen train-sweep .*--backend ray\b", "needs a cluster; tests/distributed/test_ray.py starts one"),
    (r"ragen reproduce all\b", "takes a minute; tests/bench/test_reproduction.py makes every table"),
    (r"ragen reproduce table2 --beside\b", "needs all levels; tests/bench/test_reproduction.py plays them"),
    (r"ragen submit\b", "needs all levels of the suite; tests/bench/test_submit.py submits runs"),
    (r"ragen leaderboard (build|serve)\b", "tests/bench/test_site.py builds and serves a site"),
    (r"python examples/starpo_minimal\.py\b", "tests/bench/test_docs.py learns with it"),
    (r"uvicorn\b|vf-eval\b", "needs packages of its own; make test-integrations runs it"),
    (r"ragen export .*--format inspect", "needs packages of its own; make test-inspect runs it"),
    (r"inspect view\b", "needs packages of its own; make test-inspect reads the logs"),
    (r"python -m llama_cpp\.server\b", "needs a server built from source; make test-endpoint runs it"),
]  # fmt: skip
"""Beginnings of commands, without variables before them, and the reason."""

TRAINED = [
    r"ragen train --recipe frozenlake --out",
    r"ragen train my-settings\.yaml",
    r"ragen --import \S+ train\b",
    r"ragen sft sokoban --out runs/sft-sokoban\b",
    r"ragen sft .*--from\b",
]
"""Beginnings of commands that train in a test; of others that train, only the settings are read."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """Of the page, counted from 1."""
    reason: str | None
    """Why it does not run, as a comment before it says: ``<!-- not run: needs a GPU -->``."""


@dataclass(frozen=True)
class Command:
    """One command of a block."""

    words: list[str]
    line: str
    """As the page has it."""
    variables: dict[str, str]
    """Set before it."""
    is_alternative: bool = False
    """Whether its comment begins with "or": it takes the place of the one before."""


def blocks(page):
    """Return the blocks of a page in order."""
    return [
        Block(
            found["language"],
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            page.count("\n", 0, found.start("language")) + 1,
            found["reason"],
        )
        for found in FENCE.finditer(page)
    ]


def commands(text):
    """Return the commands of a block, apart where ``&&`` joins them."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        is_alternative = bool(re.search(r"\s# or ", line))
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            variables = _variables(words[:end])
            rest = words[len(variables) : end]
            found.append(Command(rest, line.strip(), variables, is_alternative))
            words = words[end + 1 :]
    return found


def _variables(words):
    found = {}
    for word in words:
        if not (match := ASSIGNMENT.fullmatch(word)):
            break
        found[match[1]] = match[2]
    return found


def files(pages):
    """Return the texts of the files that pages show, by the names that their first lines tell.

    That is a comment such as ``# my_agent.py``, or the field ``name`` of YAML.
    """
    found = {}
    for block in (block for page in pages for block in blocks(page)):
        suffix = {"yaml": "yaml", "python": "py"}.get(block.language)
        if suffix and (named := re.match(rf"# ([\w-]+\.{suffix})\b", block.text)):
            found.setdefault(named[1], block.text)
        elif suffix == "yaml" and (named := re.match(r"name: (\w+)", block.text)):
            found.setdefault(f"{named[1]}.yaml", block.text)
    return found


def reason_of(command, in_checkout=True):
    """Return why a command does not run in a test, or None.

    Args:
        command: The command.
        in_checkout: Whether it runs in the checkout rather than in the folder of a new package.
    """
    text = " ".join(command.words)
    if not in_checkout and text == "pip install -e .":
        return None
    return next((reason for start, reason in NOT_RUN if re.match(start, text)), None)


def only_reads_settings(command):
    """Return whether a command trains, as others do that train in a test."""
    text = " ".join(command.words)
    trains = re.match(r"ragen (--import \S+ )?(train|sft)(?![\w-])(?!.*--plan)", text)
    return bool(trains) and not any(re.match(start, text) for start in TRAINED)


def unlabelled(page):
    """Return the first lines of blocks that have commands but do not say that they are of a shell."""
    return [
        f"line {block.line}: {block.text.splitlines()[0]}"
        for block in blocks(page)
        if block.language in ("", "text", "sh", "shell", "console") and COMMAND.search(block.text)
    ]
