"""Every command in the documentation runs, with small sizes, or says why it does not run in a test."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from installed import require

require("torch", "transformers", "gguf", "openai", "trl", "pyarrow")
if not Path("/proc").is_dir():
    pytest.skip("needs Linux", allow_module_level=True)

from checkout import ROOT  # noqa: E402
from documented_blocks import (  # noqa: E402
    NOT_RUN,
    TRAINED,
    blocks,
    commands,
    files,
    unlabelled,
)
from documented_shell import CommandError, Shell  # noqa: E402
from documented_sizes import PAPER_MODEL, small  # noqa: E402
from endpoint_server import EndpointServer  # noqa: E402
from gguf_files import write_gguf  # noqa: E402
from ragen_bench.config.suites import load_suite  # noqa: E402
from ragen_bench.training_sweeps.sweep_config import load_sweep  # noqa: E402

from ragen_agents.model_files.packaged import PACKAGED  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "environments").glob("*/README.md")),
]
PAGES = [page for page in PAGES if page.parent.name != "tutorials"]  # those are run whole
TEXT = {page: page.read_text("utf-8") for page in PAGES}
SETTINGS = next(b.text for b in blocks(TEXT[ROOT / "docs" / "settings.md"]) if b.language == "yaml")
QWEN = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151_936,
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "max_position_embeddings": 32_768, "tie_word_embeddings": True,
}  # fmt: skip
"""The config of Qwen2.5-0.5B-Instruct, as far as its memory depends on it."""
FILES = {
    **files(TEXT.values()),
    "my-settings.yaml": SETTINGS,
    f"{PAPER_MODEL}/config.json": json.dumps(QWEN),
}
WITH_COMMANDS = [page for page in PAGES if "```bash\n" in TEXT[page]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of models in which the starter has the names of the models that would be downloaded."""
    folder = tmp_path_factory.mktemp("cache")
    for name, packaged in PACKAGED.items():
        model = folder / "models" / packaged.sha256[:16]
        shutil.copytree(STARTER, model)
        known = {"name": name, "file": "none.gguf", "sha256": packaged.sha256}
        (model / "provenance.json").write_text(json.dumps(known))
    return folder


@pytest.fixture
def shell(tmp_path, cache):
    gguf = write_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "checkout").mkdir()
    with EndpointServer() as server:
        yield Shell(tmp_path / "checkout", server.url, FILES, gguf, cache)


def run_page(text, shell):
    shell.write(files([text]))
    for block in blocks(text):
        if block.language == "bash":
            shell.run_block(block)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_run_in_order(page, shell):
    run_page(TEXT[page], shell)
    assert shell.ran or shell.reasons


@pytest.mark.parametrize("page", ["fine-tune", "train-sokoban"])
def test_commands_of_tutorials_that_train_have_valid_settings(page, shell):
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?:OMP_NUM_THREADS=1 )?ragen (?:train|sft) .*$", text, re.MULTILINE)
    for command in commands("\n".join(lines)):
        shell.read_settings(command)
    assert lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_say_what_they_are(page):
    assert not unlabelled(TEXT[page])
    for block in blocks(TEXT[page]):
        assert block.language in {"", "text", "bash", "python", "py", "yaml", "toml", "bibtex"}
        if block.language == "py":  # python blocks run
            assert block.text.startswith("# Needs "), block
        elif block.language == "toml":
            tomllib.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_suites_and_sweeps_of_a_page_are_valid(page, tmp_path):
    for name, text in files([TEXT[page]]).items():
        (tmp_path / name).write_text(text)
        if "\ntasks:" in text:
            assert load_suite(str(tmp_path / name)).tasks
        elif "\ncells:" in text:
            assert load_sweep(str(tmp_path / name)).cells


def test_every_reason_is_of_a_documented_command_and_names_what_is_there():
    documented = [
        command
        for text in TEXT.values()
        for block in blocks(text)
        if block.language == "bash"
        for command in commands(block.text)
    ]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for start, reason in NOT_RUN:
        assert any(re.match(start, " ".join(command.words)) for command in documented), start
        for path in re.findall(r"tests/[\w/]+(?:\.py)?", reason):
            assert (ROOT / path).exists(), reason
        for target in re.findall(r"make (test\S*)", reason):
            assert f"\n{target}:" in makefile, reason
    for start in TRAINED:
        assert any(re.match(start, " ".join(command.words)) for command in documented), start
    for command in documented:
        if command.words[:1] == ["make"]:
            assert f"\n{command.words[1]}:" in makefile, command.line


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("ragen bench --agent random --tires 2", "No such option: --tires"),
        ("ragen games\nragen verify runs/typo/x", "runs/typo/x"),
        ("ragen train bandit update.tires=2", "does not train, but ends with 2"),
        ("python examples/no_such_file.py", "no_such_file"),
        ("ragen-games --list", "neither runs in a test nor says why not"),
    ],
)
def test_a_command_that_does_not_work_is_seen(block, said, shell):
    with pytest.raises(CommandError, match=said):
        run_page(f"# Page\n\n```bash\n{block}\n```\n", shell)


def test_a_comment_before_a_block_says_why_it_does_not_run(shell):
    run_page(
        "1. Do\n   <!-- not run: needs a person -->\n\n   ```bash\n   no-such-program\n   ```\n"
        "```bash\nvllm serve MODEL\nragen power --effect 3pp\n```",
        shell,
    )
    assert shell.reasons == ["needs a person", "needs vLLM; tests/vllm starts this server"]
    assert shell.ran == 1


def test_commands_are_read_as_a_shell_reads_them():
    found = commands("A=1 ragen show \\\n  'a b'  # or so\ncd x && make test\n# only words\nB='c d'\n")
    assert [command.words for command in found] == [
        ["ragen", "show", "a b"], ["cd", "x"], ["make", "test"], [],
    ]  # fmt: skip
    assert [command.variables for command in found] == [{"A": "1"}, {}, {}, {"B": "c d"}]
    assert [command.is_alternative for command in found] == [True, False, False, False]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ragen bench --episodes 32 --agent x", "ragen bench --episodes 2 --agent x --game Bandit"),
        ("ragen bench --agent x --game Cube", "ragen bench --agent x --game Cube --episodes 2"),
        ("ragen bench --agent smollm2 --game Cube",
         "ragen bench --agent smollm2 --game Cube --episodes 2 --max-reply-tokens 16"),
        ("ragen bench --suite mine.yaml", "ragen bench --suite mine.yaml --episodes 2"),
        ("ragen starter blank webshop layers=5", "ragen starter blank webshop conversations=4 layers=1"),
        ("ragen reproduce table3 --quick", "ragen reproduce table3 --quick --results results --dry-run"),
        ("ragen train bandit --plan x=9", f"ragen train bandit --plan x=9 model={PAPER_MODEL}"),
    ],
)  # fmt: skip
def test_sizes_become_small(command, expected):
    assert small(command.split(), 7) == expected.split()


def test_training_is_small_after_an_import_too():
    words = small("ragen --import a.py train bandit iterations=40 seed=1".split(), 7)
    assert words[:6] == "ragen --import a.py train bandit seed=1".split()
    assert "iterations=1" in words


def test_unlabelled_commands_and_files_are_found():
    page = "```\nragen bench --agent x\n```\n```\n######\n```\n```yaml\n# a.yaml: of x\nb: 1\n```\n"
    assert unlabelled(page) == ["line 1: ragen bench --agent x"]
    assert list(files([page])) == ["a.yaml"]
