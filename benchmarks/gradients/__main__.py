"""``PYTHONPATH=benchmarks python -m gradients [--check]``: compute the tables of docs/gradients.md."""

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from gradients.report import tables

_PAGE: Final = Path(__file__).parents[2] / "docs" / "gradients.md"


def filled(page: str, found: dict[str, str]) -> str:
    """Return a page with the tables in their places."""
    for name, table in found.items():
        mark = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        page, count = re.subn(mark, rf"\g<1>\n{table}\n\n\g<2>", page, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(
                f"the page must have one place for the table '{name}', but has {count}"
            )
    return page


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
