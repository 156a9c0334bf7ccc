"""Files of a run directory: names, locks, atomic writes, YAML, provenance."""

from typing import Final

CONFIG: Final = "config.yaml"
"""The settings that decide a run."""
ENVIRONMENT: Final = "environment.json"
"""The versions, machine and commit that made a run."""
