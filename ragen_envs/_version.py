"""The one place that holds the distribution's version."""

__version__ = "0.3.0"
"""Version of the distribution, as ``ragen --version`` prints it."""
