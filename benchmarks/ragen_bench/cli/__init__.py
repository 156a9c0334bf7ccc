"""The commands of ``ragen``; app.py lists them."""

from ragen_bench.cli.app import app

__all__ = ["app"]
