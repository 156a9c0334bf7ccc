"""Keep the findings of a stage in a JSON file written after every finding: a killed stage leaves it."""

import argparse
import json
from pathlib import Path
from typing import Any

from ragen_agents.run_files.files import write_atomically


class Findings:
    """A dictionary that is written to a file whenever something is added, and shown in the log.

    Args:
        path: The file; None shows only.
    """

    def __init__(self, path: Path | None) -> None:
        self.values: dict[str, Any] = {}
        self._path = path

    def add(self, name: str, value: Any, shown: bool = True) -> None:
        """Add a finding, or replace it."""
        self.values[name] = value
        if shown:
            print(f"{name}: {json.dumps(value)}", flush=True)
        if self._path is not None:
            write_atomically(self._path, json.dumps(self.values, indent=1) + "\n")


def stage_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all stages have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="file for the findings")
    parser.add_argument("--work", type=Path, default=Path(".benchmarks/gpu"), help="for large files")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, to see that it runs")
    return parser
