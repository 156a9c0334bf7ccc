"""The repository that the tests are part of."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(*arguments, cwd=ROOT, **given):
    done = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=True, **given)
    return done.stdout


def require_checkout():
    """Skip the test where the suite was not checked out with git, as in a source distribution."""
    try:
        found = Path(git("rev-parse", "--show-toplevel").strip()).samefile(ROOT)
    except (OSError, subprocess.CalledProcessError):
        found = False
    if not found:
        pytest.skip(f"{ROOT} is not a git checkout")
