"""The site that docs/ becomes: it builds without a warning, and what it needs is in it."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("documentation")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(out),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return out


class Sources(HTMLParser):
    """What a page loads and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        if tag in ("script", "img", "iframe") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") == "stylesheet":
            self.loaded.append(values["href"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])


@cache
def read(page):
    return Sources(page.read_text("utf-8"))


def test_no_page_loads_anything_from_another_host(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        for source in read(page).loaded:
            assert not source.startswith(("http:", "https:", "//")), (page, source)
            assert (page.parent / source.partition("?")[0]).exists() or page.name == "404.html"


def test_links_within_the_site_lead_somewhere(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for link in read(page).links:
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), (page, link)
            if anchor and target.suffix == ".html":
                assert anchor in read(target).ids, (page, link)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda page: page.stem
)
def test_the_reference_holds_every_public_name(page, site):
    """And the modules that it documents say which names those are."""
    import importlib

    ids = read(site / "reference" / f"{page.stem}.html").ids
    for module in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE):
        names = importlib.import_module(module).__all__
        assert names, module
        missing = {name for name in names if not any(i and i.endswith(f".{name}") for i in ids)}
        assert not missing, (module, missing)


def test_examples_of_the_reference_are_code(site):
    for page in (site / "reference").glob("*.html"):
        assert "<blockquote>" not in page.read_text("utf-8"), page.name


def test_the_search_index_knows_the_pages(site):
    assert (site / "search" / "search_index.js").is_file()  # the form that needs no server
    index = (site / "search" / "search_index.json").read_text("utf-8")
    for word in ("quickstart.html", "register_estimator", "Minesweeper"):
        assert word in index


@pytest.fixture(scope="module")
def chromium():
    if not os.environ.get("RAGEN_BROWSER"):
        pytest.skip("make test-site")
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_search_finds_pages_from_the_local_disk(width, site, chromium):
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.wait_for_load_state("networkidle")
    page.keyboard.press("/")  # opens the search
    searches = {"echo trap": "training", "valid": "metrics", "pandas": "ragen_bench", "docker": "install"}
    for words, wanted in searches.items():
        page.locator(".md-search__input").fill("")
        page.keyboard.type(words, delay=60)
        links = page.locator(f".md-search-result__item:nth-child(-n+3) > [href*='/{wanted}.html']")
        links.first.wait_for(state="attached")
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(scheme, width, site, chromium):
    """No serious violation by axe-core, on pages with tables, code, signatures and footnotes."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name in ("index", "settings", "reproduction-tables", "training-parts", "reference/ragen_bench"):
        page.goto((site / f"{name}.html").as_uri())
        found = [v for v in axe.run(page).response["violations"] if v["impact"] in ("serious", "critical")]
        assert [(name, v["id"], v["nodes"][0]["html"]) for v in found] == []
    context.close()


MESSAGE = re.compile(r"^\| `([^`]+)`", re.MULTILINE)


def test_the_messages_that_troubleshooting_explains_exist():
    folders = ("ragen_envs", "ragen_agents", "benchmarks/ragen_bench")
    paths = [ROOT / "Makefile", *(p for name in folders for p in (ROOT / name).rglob("*.py"))]
    source = " ".join(path.read_text("utf-8") for path in paths)
    source = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    source = re.sub(r'"\s+f?"', "", source)  # strings that continue on the next line
    source = re.sub(r"\{[^{}]*(\{[^{}]*\})?[^{}]*\}", "…", source)
    messages = MESSAGE.findall((ROOT / "docs" / "troubleshooting.md").read_text("utf-8"))
    assert len(messages) >= 20
    for message in messages:
        for part in message.split("…"):
            if len(part.strip(" ';,`")) > 4:
                assert part.strip() in source, message


def test_intervals_in_tables_do_not_break(site):
    table = (site / "reproduction-tables.html").read_text(encoding="utf-8").partition("<table")[2]
    assert re.search(r"\[[+-][\d.]+,(&nbsp;|\xa0)[+-][\d.]+\]", table)
