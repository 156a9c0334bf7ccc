"""A checkout has the same bytes everywhere, also where git is set to convert line endings."""

import pytest
from checkout import ROOT, git, require_checkout

HASHED = (
    "ragen_envs/levels/packs/",
    "ragen_agents/starter/model/",
    "leaderboards/",
    "benchmarks/ragen_bench/templates/",
    "benchmarks/ragen_bench/new_game/template/",
    "benchmarks/ragen_bench/new_game/template_words/",
    "benchmarks/results/",
    "tests/data/",
)


@pytest.fixture
def converted(tmp_path):
    """The files of a clone made by a git that writes CRLF: hashes as committed, and of what is on disk."""
    require_checkout()
    folder = tmp_path / "suite"
    settings = ("-c", "core.autocrlf=true", "-c", "core.eol=crlf")
    git("clone", "--quiet", "--depth", "1", *settings, ROOT.as_uri(), str(folder), cwd=tmp_path)
    assert git("config", "core.autocrlf", cwd=folder).strip() == "true"
    rows = git("ls-tree", "-r", "-z", "HEAD", cwd=folder).split("\0")[:-1]
    kept = {row.split("\t")[1]: row.split("\t")[0].split()[2] for row in rows}
    paths = "\n".join(kept)
    hashes = git("hash-object", "--no-filters", "--stdin-paths", cwd=folder, input=paths)
    return kept, dict(zip(kept, hashes.split(), strict=True))


def test_every_file_has_the_bytes_that_were_committed(converted):
    kept, found = converted
    for folder in HASHED:
        assert any(name.startswith(folder) for name in kept), folder
    assert [name for name in kept if found[name] != kept[name]] == []
