"""The commands of ``ragen``, a file each."""

from ragen_bench.cli.app import app

__all__ = ["app"]
