"""A checkout has the same bytes everywhere, also where git is set to convert line endings."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HASHED = (
    "ragen_envs/instances/packs/",
    "ragen_agents/starter/model/",
    "leaderboards/",
    "benchmarks/ragen_bench/templates/",
    "benchmarks/ragen_bench/new_game/template/",
    "benchmarks/results/",
    "tests/data/",
)


def git(*arguments, cwd=ROOT, **given):
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, capture_output=True, text=True, check=True, **given
    )
    return done.stdout


def is_checkout():
    try:
        return Path(git("rev-parse", "--show-toplevel").strip()).samefile(ROOT)
    except (OSError, subprocess.CalledProcessError):
        return False


@pytest.fixture
def converted(tmp_path):
    """A clone made where git writes CRLF; the blobs of its files and the hashes of what lies on the disk."""
    if not is_checkout():
        pytest.skip("this is not a git checkout")
    folder = tmp_path / "suite"
    settings = ("-c", "core.autocrlf=true", "-c", "core.eol=crlf")
    git("clone", "--quiet", *settings, ROOT.as_uri(), str(folder), cwd=tmp_path)
    assert git("config", "core.autocrlf", cwd=folder).strip() == "true"
    rows = git("ls-tree", "-r", "-z", "HEAD", cwd=folder).split("\0")[:-1]
    blobs = {row.split("\t")[1]: row.split("\t")[0].split()[2] for row in rows}
    hashes = git(
        "hash-object", "--no-filters", "--stdin-paths", cwd=folder, input="\n".join(blobs)
    ).split()
    return blobs, dict(zip(blobs, hashes, strict=True))


def test_every_file_has_the_bytes_that_were_committed(converted):
    blobs, found = converted
    for folder in HASHED:
        assert any(name.startswith(folder) for name in blobs), folder
    assert [name for name in blobs if found[name] != blobs[name]] == []
