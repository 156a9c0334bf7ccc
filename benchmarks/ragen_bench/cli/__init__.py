"""The commands of ``ragen``, a module each.

A module is named after its command, even where a module of another package has that name too.
"""

from ragen_bench.cli.app import app

__all__ = ["app"]
