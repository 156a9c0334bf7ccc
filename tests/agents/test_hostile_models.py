"""Model folders of strangers: each mistake is one line, and nothing runs without an end."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from ragen_agents.policies import Sampling, make_policy
from ragen_envs.errors import RagenError


@pytest.fixture
def model(tiny, tmp_path):
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def put(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def load(model):
    with pytest.raises(RagenError) as caught:
        make_policy(str(model), Sampling(0.0, 8))
    error = str(caught.value)
    assert len(error.splitlines()) == 1
    return error


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "big"), ("hidden_size", -1), ("num_attention_heads", 0), ("num_attention_heads", -1),
        ("num_hidden_layers", 10**9), ("num_hidden_layers", True), ("vocab_size", 1.5),
        ("max_position_embeddings", -1),
    ],
)  # fmt: skip
def test_sizes_of_a_config_are_checked(field, value, model):
    put(model / "config.json", **{field: value})
    assert f"{field} is {value!r}, but must be an integer from 1 to" in load(model)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers"])
def test_a_config_that_does_not_fit_the_weights_is_named(field, model, capfd):
    put(model / "config.json", **{field: 64})
    assert "could not be loaded: config.json does not fit its weights: model." in load(model)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("value", ["x", [2, "x"], [None], 1.5])
def test_the_tokens_that_end_a_reply_are_numbers(value, model):
    put(model / "generation_config.json", eos_token_id=value)
    assert f"eos_token_id is {value!r}, but must be an integer or a list of integers" in load(model)


@pytest.mark.parametrize("name", ["generation_config.json", "config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["[]", "{"])
def test_files_hold_objects(name, text, model):
    (model / name).write_text(text)
    assert name in load(model)


def test_broken_pickled_weights_are_named(model):
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    assert "could not be loaded: its pickled weights are broken" in load(model)


def test_a_template_that_cannot_be_checked_is_refused(model, monkeypatch, tmp_path):
    (tmp_path / "check.py").write_text("import jinja2_that_is_not_installed")
    monkeypatch.setattr("ragen_agents.template_check.__file__", str(tmp_path / "check.py"))
    (model / "chat_template.jinja").unlink(missing_ok=True)
    put(model / "tokenizer_config.json", chat_template="{{ 'checked nowhere else' }}")
    assert "cannot be checked: ModuleNotFoundError: No module named 'jinja2_that" in load(model)


LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "no chat template"),
        (" ", "no chat template"),
        ({"a": "b"}, "no chat template"),
        (5, "no chat template"),
        (LOOP, "does not end within"),
        ("{{ 'a' * 9999999999 }}", "too much memory"),
        ("{% generation %}{{ 'a' * 9999999999 }}{% endgeneration %}", "too much memory"),
        ("{% for i in range(10**12) %}{% endfor %}", "too long a range"),
        ("{{ 1 // 0 }}", "refuses a conversation"),
    ],
)
def test_templates_are_bounded(template, message, model, monkeypatch):
    monkeypatch.setattr("ragen_agents.chat_template.SECONDS", 2)
    (model / "chat_template.jinja").unlink(missing_ok=True)
    put(model / "tokenizer_config.json", chat_template=template)
    assert message in load(model)
