"""Commands that read a run refuse one whose files were edited after they were written."""

import json

import pytest
import ragen_bench as rb
from bench_runs import options
from ragen_bench.__main__ import main

from ragen_envs.errors import RagenError

READERS = {
    "show": [],
    "show --wide": [],
    "compare": [":random"],
    "view": ["--out", "pages"],
    "explain": [],
    "export": ["--format", "jsonl", "--out", "tables"],
    "verify": [],
}


def solve(run):
    """Turn a failure into a success."""
    path = run / "episodes.jsonl"
    text = path.read_text()
    assert '"success":false' in text
    path.write_text(text.replace('"success":false', '"success":true', 1))


def upgrade(run):
    path = run / "environment.json"
    described = json.loads(path.read_text())
    described["packages"]["numpy"] = "9.9.9"
    path.write_text(json.dumps(described))


def reseed(run):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 1", 1))


EDITS = {"episodes.jsonl": solve, "environment.json": upgrade, "config.yaml": reseed}


def words(command, run):
    name, *options = command.split()
    more = [str(run.parent / o) if o in ("pages", "tables") else o for o in READERS[command]]
    first = f"{run}:oracle" if name == "compare" else str(run)
    return [name, first, *more, *options]


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("file", EDITS)
def test_commands_refuse_edited_files(command, file, run, capsys):
    EDITS[file](run)
    code = main(words(command, run))
    out, err = capsys.readouterr()
    assert (code, out) == (1 if command == "verify" else 2, "")
    assert file in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("file", EDITS)
def test_unchecked_shows_them_anyway(file, run, capsys):
    EDITS[file](run)
    assert main(["show", str(run), "--unchecked"]) == 0
    assert "random" in capsys.readouterr().out
    with pytest.raises(RagenError, match=file):
        rb.load(run)
    assert len(rb.load(run, checked=False).table())


def test_removed_episodes_are_noticed(run, fails):
    path = run / "episodes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "changed or removed" in fails("show", run)


def test_runs_of_older_versions_have_no_hashes(run):
    (run / "episodes.sha256").unlink()
    described = json.loads((run / "environment.json").read_text())
    del described["digest"]
    (run / "environment.json").write_text(json.dumps(described))
    assert main(["show", str(run)]) == 0


def test_a_run_with_an_edited_environment_is_not_resumed(run, fails):
    upgrade(run)
    error = fails(*options(run, episodes=40))
    assert "environment.json was edited" in error
