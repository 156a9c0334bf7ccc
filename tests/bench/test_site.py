"""The leaderboard's pages: what they hold, and, in a real browser, what they do."""

import itertools
import json
import re
import shutil
import socket
from functools import partial
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
from entries import ENTRIES, LEVELS, read, small_copy
from forked import start
from ragen_bench.__main__ import main
from ragen_bench.leaderboard.store import read_entry
from site_entries import make_entries
from visits import visited

from ragen_agents.rollout.episode_runner import EpisodeSpec, make_env

FEW = 16
"""Levels of each game."""
PAGES = (
    "index.html", "about.html", "games/Sokoban.html", "entries/hero.html", "episodes/hero/Sokoban.html",
    "beside/Sokoban.html", "results/index.html", "results/figure10.html",
)  # fmt: skip


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LEVELS, FEW)
        copy = partial(small_copy, levels=FEW)
        yield make_entries(tmp_path_factory.mktemp("leaderboards"), copy)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of the sweep behind figure 10, in which fresh rollouts are better."""
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from ragen_bench.training_sweeps.results import add_to_archive, archive_path
    from results import results_of

    root = tmp_path_factory.mktemp("results")
    _, found = results_of("figure10", {"1": 0.8, "10": 0.4})
    add_to_archive(archive_path(root, "freshness", "laptop"), found)
    return root


@pytest.fixture(scope="module")
def site(entries, results, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "site"
    arguments = ["--entries", str(entries), "--results", str(results), "--out", str(out)]
    assert main(["leaderboard", "build", *arguments]) == 0
    return out


@pytest.fixture(scope="module")
def stored(entries):
    return [read_entry(folder) for folder in sorted(entries.iterdir())]


# --- numbers -------------------------------------------------------------------------------------


def test_downloads_hold_the_numbers(site, stored):
    for name in ("overall", "games", "episodes"):
        csv = pd.read_csv(site / "data" / f"{name}.csv")
        parquet = pd.read_parquet(site / "data" / f"{name}.parquet")
        pd.testing.assert_frame_equal(csv, parquet, check_dtype=False)
    episodes = pd.read_csv(site / "data" / "episodes.csv")
    assert len(episodes) == sum(len(s.records) for s in stored)
    games = pd.read_csv(site / "data" / "games.csv").set_index(["entry", "game"])
    rates = episodes.groupby(["entry", "game"])["success"].mean()
    for key, rate in rates.items():
        assert games.loc[key, "success"] == pytest.approx(rate)


def test_controls_are_left_out_of_the_mean_and_named(site):
    games = pd.read_csv(site / "data" / "games.csv").set_index(["entry", "game"])["n"]["oracle"]
    overall = pd.read_csv(site / "data" / "overall.csv").set_index("entry")["n"]["oracle"]
    assert overall == games.sum() - games["BanditRev"] - games["BanditTrap"]
    assert "without the controls BanditRev and BanditTrap" in (site / "index.html").read_text()
    assert "A control of Bandit" in (site / "games" / "BanditTrap.html").read_text()
    assert "A control of" not in (site / "games" / "Bandit.html").read_text()


# --- files ---------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page refers to, and what it would run."""

    def __init__(self, text):
        super().__init__()
        self.found, self.policies, self.inline, self.ids = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.found += [values[name] for name in ("href", "src") if name in values]
        self.inline += [name for name in values if name.startswith("on") or name == "style"]
        if tag == "script" and "src" not in values and values.get("type") != "application/json":
            self.inline.append("script")
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(values["content"])


def test_every_page_is_closed_in_itself(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 2 + 9 + 5 + 5 * 9 + 9 + 2
    for page in pages:
        links = Links(page.read_text(encoding="utf-8"))
        assert not links.inline, page
        assert len(links.policies) == 1
        assert links.policies[0].startswith("default-src 'none'; script-src 'self';")
        for link in links.found:
            parts = urlsplit(link)
            assert not parts.scheme, link
            assert not parts.netloc, link
            if parts.path:
                assert (page.parent / unquote(parts.path)).resolve().is_file(), (page, link)


def test_no_file_of_the_site_reaches_out(site):
    for path in (*site.glob("*.js"), *site.glob("*.css")):
        text = path.read_text()
        assert not re.search(r"https?:|@import|url\(|fetch\(|innerHTML|eval\(|XMLHttp", text), path


def test_the_oracle_is_lucky_and_makes_no_mistake(site):
    games = pd.read_csv(site / "data" / "games.csv")
    oracle = games[games["entry"] == "oracle"].set_index("game")
    assert (oracle["regret"].abs() < 1e-9).all()
    assert (oracle["blunders"] == 0).all()
    assert oracle["corrected"].to_numpy() == pytest.approx(oracle["optimal_success"].to_numpy())
    assert abs(oracle.loc["FrozenLake", "success"] - oracle.loc["FrozenLake", "corrected"]) > 0.01


def data_of(page):
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


@pytest.mark.parametrize("game", ["Sokoban", "SokobanNewVocab", "FrozenLake", "Bandit"])
def test_frames_are_those_of_the_game(site, entries, game):
    """Played again, action by action, by the game itself."""
    shown = data_of(site / "episodes" / "rogue" / f"{game}.html")["episodes"]
    records = [e for e in read(entries / "rogue") if e["task"] == game]
    for episode, record in list(zip(shown, records, strict=True))[:40]:
        env = make_env(EpisodeSpec(game, record["env_id"], record["instance"]["index"]))
        signs = env.face.vocabularies["standard"]
        boards = []
        for turn in record["turns"]:
            boards.append(env.face.observation(env.unwrapped, "grid", signs))
            for action in turn["executed"]:
                env.unwrapped.step(env.names.index(action))
                boards.append(env.face.observation(env.unwrapped, "grid", signs))
        assert ["\n".join(frame["board"]) for frame in episode["frames"]] == boards
        assert episode["success"] == record["success"]


def test_the_oracle_follows_its_own_advice(site):
    episode = data_of(site / "episodes" / "oracle" / "Sokoban.html")["episodes"][0]
    assert episode["frames"][0]["best"] == episode["turns"][0]["actions"]


def test_an_older_site_is_replaced_and_nothing_else(site, entries, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("x")
    build = ["leaderboard", "build", "--entries", str(entries), "--out"]
    assert main([*build, str(tmp_path)]) == 2
    assert "something other than a site" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert main(["leaderboard", "serve", str(tmp_path)]) == 2
    assert "ragen leaderboard build" in capsys.readouterr().err


def test_a_rejected_entry_is_not_shown(entries, tmp_path, capsys):
    root = tmp_path / "entries"
    shutil.copytree(entries / "random", root / "random")
    (root / "random" / "entry.json").write_text("{}")
    assert main(["leaderboard", "build", "--entries", str(root), "--out", str(tmp_path / "o")]) == 2
    assert "random' is rejected" in capsys.readouterr().err
    entry = json.loads((entries / "random" / "entry.json").read_text())
    for task in entry["config"]["suite"]["tasks"].values():
        task["settings"]["demonstrations"] = 99
    (root / "random" / "entry.json").write_text(json.dumps(entry))
    assert main(["leaderboard", "build", "--entries", str(root), "--out", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert "random' is rejected: suite 'core', task 'Bandit': demonstrations is 99" in error
    assert not (tmp_path / "o").exists()


def test_what_an_entry_was_trained_on_is_marked(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    matrix = index.split("From training games to test games")[1]
    assert matrix.count("seen") == 1
    assert "Hero" in matrix
    assert "Twin" not in matrix


def test_an_entry_says_how_to_make_it_again(site, capsys):
    page = (site / "entries" / "hero.html").read_text(encoding="utf-8")
    (command,) = re.findall(r"<code>(ragen bench .*?)</code>", page)
    assert "--max-reply-tokens 100" in command
    assert main(["bench", "--help"]) == 0
    known = capsys.readouterr().out
    assert all(option in known for option in re.findall(r"--[a-z-]+", command))


def test_an_entry_shows_its_intervals_in_numbers(site):
    page = (site / "entries" / "random.html").read_text(encoding="utf-8")
    shown = re.findall(r'<span class="bounds">[\d.]+ to [\d.]+</span>', page)
    assert len(shown) == len(json.loads((ENTRIES / "random/entry.json").read_text())["results"])


def test_the_papers_tables_have_pages_with_verdicts_numbers_and_curves(site):
    index = (site / "results" / "index.html").read_text(encoding="utf-8")
    assert "figure10.html" in index
    assert "table3.html" not in index  # nothing of it was run
    page = (site / "results" / "figure10.html").read_text(encoding="utf-8")
    fresh = page.split("Fresh rollouts beat Online-10 on Sokoban")[1]
    assert fresh.split("</tr>")[0].count("supported") == 1
    parts = ("numbers, and ours", "Claims", "figure10.svg", "What the names stand for", "<h2>Numbers")
    places = [page.index(part) for part in (*parts, 'class="note">Paper')]
    assert places == sorted(places)
    assert "update.epochs 10" in page
    assert (site / "results" / "figure10.svg").read_text(encoding="utf-8").startswith("<?xml")
    data = pd.read_csv(site / "data" / "figure10.csv")
    assert {"1", "10", "random", "oracle"} <= set(data["row"])


def test_a_site_without_results_does_not_speak_of_them(entries, tmp_path):
    (tmp_path / "none").mkdir()
    for name in ("random", "oracle"):
        shutil.copytree(entries / name, tmp_path / "entries" / name)
    arguments = ["--entries", str(tmp_path / "entries"), "--results", str(tmp_path / "none")]
    arguments += ["--out", str(tmp_path / "site")]
    assert main(["leaderboard", "build", *arguments]) == 0
    assert not (tmp_path / "site" / "results").exists()
    assert "results/" not in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_results_that_are_not_there_are_named(entries, tmp_path, capsys):
    arguments = ["--entries", str(entries), "--results", str(tmp_path / "reslts")]
    assert main(["leaderboard", "build", *arguments, "--out", str(tmp_path / "site")]) == 2
    assert "reslts', but there is no such folder" in capsys.readouterr().err


def test_broken_results_are_named_and_nothing_is_built(entries, tmp_path, capsys):
    broken = tmp_path / "results" / "laptop" / "freshness.jsonl"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"task": 3}\n')
    arguments = ["--entries", str(entries), "--results", str(tmp_path / "results")]
    assert main(["leaderboard", "build", *arguments, "--out", str(tmp_path / "site")]) == 2
    assert "freshness.jsonl line 1" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_a_site_is_served_to_this_computer(site, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    log = tmp_path / "log"
    server = start(["-m", "ragen_bench", "leaderboard", "serve", site, "--port", port], stdout=log)
    assert visited(server, log) == (site / "index.html").read_bytes()
    server.join(60)
    assert server.exitcode == 130


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture
def visit(browser, site):
    """Open a page; afterwards nothing may have complained or asked for what is not of the site."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    seen, complaints = [], []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def go(path):
        page.goto(f"file://{site}/{path}")
        return page

    yield go
    context.close()
    assert complaints == []
    assert seen
    assert all(url.startswith(f"file://{site}/") for url in seen)


def names(page):
    return page.locator("table").first.locator("tbody th a:first-child").all_inner_texts()


def test_tables_sort_by_mouse_and_by_keyboard(visit):
    page = visit("index.html")
    assert names(page)[:2] == ["Hero", "Oracle"]
    heading = page.locator("thead th", has_text="Agent").first
    heading.get_by_role("button").click()
    assert names(page) == ["Hero", "Oracle", "Random", "Rogue", "Twin"]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").press("Enter")
    assert names(page) == ["Twin", "Rogue", "Random", "Oracle", "Hero"]
    page.locator("thead th", has_text="Tokens").first.get_by_role("button").click()
    assert set(names(page)[3:]) == {"Oracle", "Random"}  # no tokens: below


def test_numbers_of_the_page_are_those_of_the_data(visit, site):
    page = visit("games/Sokoban.html")
    games = pd.read_csv(site / "data" / "games.csv").set_index(["game", "title"])
    for row in page.locator("table").first.locator("tbody tr").all():
        title = row.locator("th a").first.inner_text()
        shown = row.locator("td").nth(1).inner_text()
        assert shown == f"{100 * games.loc[('Sokoban', title), 'success']:.1f}"


def board_of(page):
    return [
        [cell.get_attribute("alt") for cell in row.locator("img").all()]
        for row in page.locator("#board .row").all()
    ]


def test_an_episode_is_stepped_by_arrow_keys(visit, entries):
    record = next(e for e in read(entries / "rogue") if e["task"] == "Sokoban")
    page = visit("episodes/rogue/Sokoban.html")
    env = make_env(EpisodeSpec("Sokoban", record["env_id"], 0))
    cells = {sign: name for name, sign in env.face.vocabularies["standard"].items()}
    actions = record["turns"][0]["executed"]
    for step in range(len(actions) + 1):
        expected = [[cells[sign] for sign in row] for row in env.state_text().split("\n")]
        assert board_of(page) == expected
        assert page.locator("#step").inner_text().startswith(f"{step} /")
        if step < len(actions):
            env.unwrapped.step(env.names.index(actions[step]))
            page.keyboard.press("ArrowRight")
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#step").inner_text().startswith(f"{len(actions) - 1} /")
    assert page.url.endswith(f"#0/{len(actions) - 1}")
    page.keyboard.press("ArrowDown")
    assert page.locator("#heading").inner_text().startswith("Level 1:")
    assert "oracle" in page.locator("#best").inner_text()


def test_episodes_are_filtered_and_linked_to(visit, entries):
    page = visit("episodes/twin/FrozenLake.html#7/1")
    assert page.locator("#heading").inner_text().startswith("Level 7:")
    assert page.locator("#step").inner_text().startswith("1 /")
    solved = [e for e in read(entries / "twin") if e["task"] == "FrozenLake" and e["success"]]
    page.locator("#outcome").select_option("solved")
    assert page.locator("#episodes a").count() == len(solved)
    assert f"{len(solved)} of {FEW}" in page.locator("#count").inner_text()
    page.locator("#defect").select_option("*")
    assert page.locator("#episodes a").count() == 0
    page.locator("#game").select_option("Sokoban.html")
    page.wait_for_url("**/twin/Sokoban.html*")
    assert page.locator("#board img").count() == 36


def test_replies_are_shown_and_never_run(visit):
    page = visit("episodes/rogue/Sokoban.html")
    shown = page.locator("#reply").inner_text()
    assert "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=1>" in shown
    assert "⟨U+202E⟩⟨U+001B⟩[2J" in shown
    assert page.locator("#reply img, #reply a, #reply script").count() == 0
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    assert page.evaluate("window.harmed") is None


@pytest.mark.parametrize("path", ["index.html", "games/Sokoban.html", "episodes/hero/Sokoban.html"])
def test_pages_fit_a_phone(visit, path):
    page = visit(path)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("path", ["index.html", "games/Sokoban.html"])
def test_the_first_columns_are_whole_on_a_phone(visit, path):
    page = visit(path)
    page.set_viewport_size({"width": 400, "height": 740})
    beyond = page.locator(".scroll").first.evaluate("each => each.scrollWidth - each.clientWidth")
    assert beyond == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1300), ("dark", 390)])
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible(browser, site, path, scheme, width):
    """No serious violation by axe-core; the script needs a page without the site's own policy."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(f"file://{site}/{path}")
    found = axe.run(page).response["violations"]
    context.close()
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] != "minor"] == []


@pytest.mark.parametrize("width", [1300, 390])
def test_titles_in_the_drawing_do_not_overlap(visit, width):
    page = visit("index.html")
    page.set_viewport_size({"width": width, "height": 900})
    boxes = [text.bounding_box() for text in page.locator(".plot a text").all()]
    assert len(boxes) == 3
    for one, other in itertools.combinations(boxes, 2):
        apart = abs(one["y"] - other["y"]) >= min(one["height"], other["height"]) - 1
        beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        assert apart or beside


def test_entries_are_searched_and_chosen(visit):
    page = visit("index.html")
    page.locator("input[name=text]").fill("hero")
    shown = page.locator("#overall tbody tr:visible th a").all_inner_texts()
    assert sorted(shown) == ["Hero", "Oracle", "Random"]
    assert page.locator("form output").inner_text() == "1 of 3 entries"
    page.locator("input[name=text]").fill("")
    page.locator("select[name=trained]").select_option("no")
    shown = page.locator("#overall tbody tr:visible th a").all_inner_texts()
    assert sorted(shown) == ["Oracle", "Random", "Rogue", "Twin"]
    page.locator("select[name=prompt]").select_option("zero-shot, begins with <think>")
    assert set(page.locator("#overall tbody tr:visible th a").all_inner_texts()) == {
        "Oracle",
        "Random",
    }
    page.locator("select[name=trained]").select_option("yes")
    assert "Hero" in page.locator("#overall tbody tr:visible th a").all_inner_texts()


def test_light_and_dark_differ(visit):
    page = visit("index.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light


def test_the_policy_stops_what_a_page_must_not_do(browser, site):
    """The last line of defence, should a text ever get into a page as HTML."""
    asked = []
    injected = site / "injected.html"
    harm = "<script>window.harmed=1</script><img src='https://example.org/x' onerror='harmed=1'>"
    text = (site / "index.html").read_text(encoding="utf-8")
    injected.write_text(text.replace("<h1>", f"{harm}<h1>"), encoding="utf-8")
    page = browser.new_page()
    page.on("response", lambda response: asked.append(response.url))
    page.goto(f"file://{injected}")
    page.wait_for_timeout(200)
    injected.unlink()
    assert page.locator("h1").count() == 1
    assert page.evaluate("window.harmed") is None
    assert all(url.startswith("file://") for url in asked)
    page.close()
