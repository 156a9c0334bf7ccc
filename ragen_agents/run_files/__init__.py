"""Files of a run directory: names, locks, atomic writes, YAML, provenance."""

from typing import Final

CONFIG: Final = "config.yaml"
"""What decides the run."""
ENVIRONMENT: Final = "environment.json"
"""What the run was made with: versions, machine, commit."""
