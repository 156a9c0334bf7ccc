"""The blocks of docs/integrations.md that want these libraries."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def test_blocks_run(url):
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {"url": url})
