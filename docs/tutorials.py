"""Write the tutorials as notebooks, and run them.

    python docs/tutorials.py            # write docs/tutorials/*.ipynb from the Markdown pages
    python docs/tutorials.py --check    # fail if a notebook differs from its page
    python docs/tutorials.py --run      # run all, or those named; with --quick at the sizes of the tests

A comment ``<!-- quick: FROM -> TO -->`` in a page says which size a quick run takes in place of another.
"""

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "tutorials"
QUICK = re.compile(r"<!-- quick: (.+?) -> (.+?) -->\n*")
LINK = re.compile(r"\s\[The\s+same\s+as\s+a\s+notebook\]\([^)]+\)\.")
INSTALL = """# In a hosted notebook, write the repository's address here. Elsewhere, this cell does nothing.
import importlib.util

REPOSITORY = "https://…"
if importlib.util.find_spec("ragen_envs") is None:
    %pip install --quiet "ragen-suite[api,gguf,train] @ git+{REPOSITORY}\""""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
HEADER = """---
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""
"""Says that a page's cells are Python; otherwise jupytext takes the language that most cells have."""


def pages() -> list[Path]:
    """Return the tutorials' pages."""
    return sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")


def notebook(page: Path) -> nbformat.NotebookNode:
    """Return a page as a notebook: its Python and shell blocks are cells."""
    text = LINK.sub("", QUICK.sub("", page.read_text("utf-8")))
    found = jupytext.reads(HEADER + text, "md")
    found.cells.insert(1, nbformat.v4.new_code_cell(INSTALL))
    found.metadata = {"kernelspec": KERNEL}
    for number, cell in enumerate(found.cells):
        cell["id"] = f"{page.stem}-{number}"
        cell["metadata"] = {}
    return found


def run(page: Path, folder: Path, quick: bool, programs: Path = Path(sys.executable).parent) -> None:
    """Run every cell of a page in a folder; raises `nbclient.exceptions.CellExecutionError`.

    The command ``ragen`` is that of ``programs``.
    """
    found = notebook(page)
    if quick:
        for before, after in QUICK.findall(page.read_text("utf-8")):
            for cell in found.cells:
                cell["source"] = cell["source"].replace(before, after)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    client = NotebookClient(found, timeout=1800, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    finally:
        for server in folder.glob("server.pid"):  # still there only if a cell failed
            with suppress(ProcessLookupError):
                os.kill(int(server.read_text()), signal.SIGTERM)


def write(check: bool) -> int:
    """Write or compare the notebooks; return how many differ."""
    differing = 0
    for page in pages():
        target = page.with_suffix(".ipynb")
        text = nbformat.writes(notebook(page)) + "\n"
        if target.is_file() and target.read_text("utf-8") == text:
            continue
        differing += 1
        if check:
            print(f"{target.name} differs from its page; run make docs", file=sys.stderr)
        else:
            target.write_text(text, "utf-8")
    return differing


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*", help="of tutorials, such as own-agent")
    chosen = parser.parse_args()
    if not chosen.run:
        return int(write(chosen.check) > 0 and chosen.check)
    for page in pages():
        if not chosen.names or page.stem in chosen.names:
            begin = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                run(page, Path(folder), chosen.quick)
            print(f"{page.stem}: {time.perf_counter() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
