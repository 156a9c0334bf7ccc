"""Tables in a page of the documentation, between marks."""

import re


def filled(page: str, found: dict[str, str]) -> str:
    """Return a page with the tables in their places."""
    for name, table in found.items():
        mark = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        page, count = re.subn(mark, lambda m: f"{m[1]}\n{table}\n\n{m[2]}", page, flags=re.DOTALL)  # noqa: B023
        if count != 1:
            raise SystemExit(f"the page must have one place for the table '{name}', but has {count}")
    return page
