"""What the site shows besides the files in docs/, and the links to it.

On the site the README is the start page, and a source file that a page links to is a page of its own. So
one link works in both places: in a checkout and on the site.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "maintainers/contributing.md",
    "leaderboards/README.md": "leaderboards.md",
    "environments/ragen_games/README.md": "verifiers-package.md",
}
"""Pages outside docs/, and where the site has them."""
ORIGIN = {there: here for here, there in MOVED.items()}
PICTURES = (".svg", ".png", ".gif")
LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".cff": "yaml"}
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
BOOSTED = {"metrics.md": 5}
"""Pages that a search shows first: whoever types the name of a column wants its meaning."""
CELL = re.compile(r"(?<=<td)[^<]+")
INTERVAL = re.compile(r"\[([+-]?[\d.]+%?), ([+-]?[\d.]+%?)\]")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere, and every file that a page links to."""
    for here, there in MOVED.items():
        files.append(File.generated(config, there, abs_src_path=str(ROOT / here)))
    for target in sorted({t for file in files.documentation_pages() for t in outside(file)}):
        path = ROOT / target
        if target.endswith(PICTURES):
            files.append(File.generated(config, uri_of(target), abs_src_path=str(path)))
        else:
            page = File.generated(config, uri_of(target), content=as_page(target))
            page.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to where the site has the file, and give the start page room for its commands."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["toc"]
    if page.file.src_uri in BOOSTED:
        page.meta["search"] = {"boost": BOOSTED[page.file.src_uri]}
    if page.file.src_uri.startswith("source/"):
        return markdown
    folder = posixpath.dirname(origin_of(page.file))

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(uri_of(target), here)}{match[2] or ''})"

    return LINK.sub(led, markdown)


def on_page_content(html: str, **_: object) -> str:
    """Keep the bounds of an interval in a table on one line."""
    return CELL.sub(lambda cell: INTERVAL.sub(r"[\1,&nbsp;\2]", cell[0]), html)


def on_post_page(output: str, **_: object) -> str:
    """Name the dialog of the search, which the theme leaves without a name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def outside(file: File) -> set[str]:
    """Return the files outside docs/ and without a place on the site that a page links to."""
    folder = posixpath.dirname(origin_of(file))
    targets = {posixpath.normpath(posixpath.join(folder, m[1])) for m in LINK.finditer(file.content_string)}
    return {t for t in targets if t not in MOVED and is_elsewhere(t) and (ROOT / t).exists()}


def is_elsewhere(target: str) -> bool:
    """Return whether a file of the repository is not one of the site's own pages or pictures."""
    return not target.startswith("docs/") or Path(target).suffix in LANGUAGES


def origin_of(file: File) -> str:
    """Return the path of a page in the repository."""
    return ORIGIN.get(file.src_uri, f"docs/{file.src_uri}")


def uri_of(target: str) -> str:
    """Return where the site has a file of the repository."""
    if target in MOVED:
        return MOVED[target]
    if not is_elsewhere(target):
        return target.removeprefix("docs/")
    return f"source/{target}" + ("" if target.endswith(PICTURES) else ".md")


def as_page(target: str) -> str:
    """Return a file of the repository, or the files of a folder, as a page."""
    path = ROOT / target
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    blocks = (f"`{f.name}`\n\n````{LANGUAGES[f.suffix]}\n{f.read_text('utf-8')}````\n" for f in files)
    return f"---\nsearch:\n  exclude: true\n---\n\n# {target}\n\n" + "\n".join(blocks)
