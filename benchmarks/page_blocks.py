"""Tables in the pages of the documentation, between marks."""

import re
from collections.abc import Mapping


def filled(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with each table between ``<!-- table: NAME -->`` and ``<!-- end -->``."""
    for name, table in tables.items():
        mark = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        before, *others = mark.split(page)
        if len(others) != 3:
            raise SystemExit(f"the page must have one place for the table '{name}'")
        begin, end, after = others
        page = f"{before}{begin}\n{table.strip()}\n\n{end}{after}"
    return page


def table_names(page: str) -> list[str]:
    """Return the names of the tables of a page."""
    return re.findall(r"<!-- table: (.+) -->", page)
