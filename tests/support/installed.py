"""Packages without which the tests of a module are skipped."""

from importlib.util import find_spec

import pytest


def require(*packages):
    """Skip the module unless packages are installed; unlike `pytest.importorskip`, import none of them."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"could not import '{package}'", allow_module_level=True)
