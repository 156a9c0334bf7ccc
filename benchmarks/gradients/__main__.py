"""``PYTHONPATH=benchmarks python -m gradients [--check]``: compute the tables of docs/gradients.md."""

import argparse
import sys
from pathlib import Path
from typing import Final

from page_blocks import filled

from gradients.report import tables

_PAGE: Final = Path(__file__).parents[2] / "docs" / "gradients.md"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page differs")
    check = parser.parse_args().check
    before = _PAGE.read_text(encoding="utf-8")
    after = filled(before, tables(lambda row: print(row, file=sys.stderr, flush=True)))
    if check:
        return int(before != after)
    _PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
