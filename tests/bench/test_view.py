"""The pages of a run: what they hold, what the command refuses, and, in a real browser, what they do."""

import json
import re
import shutil

import pytest
from forked import start
from interrupted_runs import cut
from ragen_bench.__main__ import main
from ragen_bench.leaderboard.store import read_explainable
from visits import visited

from ragen_envs.errors import SolverLimitError
from ragen_envs.games.sokoban.env import SokobanEnv


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mine"
    games = ["--game", "Sokoban", "--game", "FrozenLake", "--game", "Bandit"]
    agents = ["--agent", "random", "--agent", "oracle"]
    assert main(["bench", *agents, *games, "--episodes", "12", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def pages(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("pages") / "site"
    assert main(["view", str(run), "--out", str(out)]) == 0
    return out


def shown(pages, agent, game):
    text = (pages / "episodes" / agent / f"{game}.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])["episodes"]


def test_every_agent_and_game_has_a_page_and_links_lead_somewhere(pages):
    found = sorted(str(path.relative_to(pages)) for path in pages.glob("episodes/*/*.html"))
    games = ("Bandit", "FrozenLake", "Sokoban")
    assert found == sorted(f"episodes/{a}/{g}.html" for a in ("0-random", "1-oracle") for g in games)
    for page in pages.rglob("*.html"):
        links = re.findall(r'(?:href|src|value)="([^"#]+\.(?:html|css|js|svg))', page.read_text())
        assert links
        assert all((page.parent / link).resolve().is_file() for link in links)


def test_turns_have_what_the_oracle_says_of_them(pages, run):
    ledgers = read_explainable(run).samples["random", "Sokoban"]
    for episode, record in zip(shown(pages, "0-random", "Sokoban"), ledgers.values(), strict=True):
        first = episode["turns"][0]["decision"]
        assert first["value"] == record.optimal_success
        blunders = [turn["decision"]["blunder"] for turn in episode["turns"]]
        assert any(blunders) != record.success
    for episode in shown(pages, "1-oracle", "Sokoban"):
        assert all(turn["decision"]["regret"] == 0 for turn in episode["turns"])


def test_slips_are_marked_on_ice_and_nowhere_else(pages):
    def slips(game):
        frames = [f for e in shown(pages, "0-random", game) for f in e["frames"]]
        return [frame["slipped"] for frame in frames if "action" in frame]

    assert set(slips("FrozenLake")) == {True, False}
    assert set(slips("Sokoban")) == {False}


@pytest.fixture(scope="module")
def limited(run, tmp_path_factory):
    """Pages of a run whose oracle knows what to do in the first of five turns only."""
    out, real = tmp_path_factory.mktemp("limited") / "site", SokobanEnv.oracle

    def oracle(env, budget):
        if budget.turns < 5:
            raise SolverLimitError("max_states is too few")
        return real(env, budget)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SokobanEnv, "oracle", oracle)
        assert main(["view", str(run), "--out", str(out)]) == 0
    return out


def test_a_plan_beyond_the_oracles_limit_is_unknown_and_not_empty(limited):
    later = set()
    for episode in shown(limited, "0-random", "Sokoban"):
        first, *others = [frame["best"] for frame in episode["frames"] if "best" in frame]
        assert first
        later.update(others)
    assert later == {None}


def test_the_first_page_links_to_the_turns_to_look_at(pages):
    text = (pages / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<li><a href="(episodes/[^#]+)#(\d+)/(\d+)">', text)
    assert len(links) == 5
    for path, level, step in links:
        assert "oracle" not in path
        episodes = shown(pages, path.split("/")[1], path.split("/")[2].removesuffix(".html"))
        frame = next(e for e in episodes if e["index"] == int(level))["frames"][int(step)]
        assert "best" in frame


def test_what_is_no_run_is_refused(run, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("x")
    (tmp_path / "style.css").write_text("x")  # of a site of their own
    assert main(["view", str(run), "--out", str(tmp_path)]) == 2
    assert "contains something other than a site" in capsys.readouterr().err
    assert main(["view", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["style.css", "thesis.tex"]


def test_a_run_is_served_until_ctrl_c(run, tmp_path):
    log = tmp_path / "log"
    server = start(["-m", "ragen_bench", "view", run], stdout=log)
    assert b"Turns to look at first: random" in visited(server, log)
    server.join(60)
    assert server.exitcode == 130
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def reasoned(tmp_path_factory):
    """The page of an agent whose replies are empty, with the text in the server's reasoning field."""
    folder = tmp_path_factory.mktemp("reasoned")
    (folder / "thinkers.py").write_text(
        "async def apart(request):\n"
        "    from ragen_agents.policies import Reply\n\n"
        "    return Reply('', reasoning='I would\x1b[31m go <b>Left</b></script>.')\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        out = str(folder / "run")
        agent = ["--agent", "thinkers:apart", "--game", "Sokoban"]
        assert main(["bench", *agent, "--episodes", "2", "--out", out]) == 0
        assert main(["view", out, "--out", str(folder / "site")]) == 0
    return folder / "site"


def test_reasoning_is_part_of_the_page_without_control_characters(reasoned):
    (turn, *_) = shown(reasoned, "0-thinkers-apart", "Sokoban")[0]["turns"]
    assert turn["reasoning"] == "I would⟨U+001B⟩[31m go <b>Left</b></script>."
    assert "(invalid reply: empty reply)" in (reasoned / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("change", [{"executed": ["Fly"]}, {"rewards": []}])
def test_a_failed_episode_that_does_not_replay_is_an_error(run, change, tmp_path, fails):
    forged = shutil.copytree(run, tmp_path / "forged")
    lines = (forged / "episodes.jsonl").read_text().splitlines()
    episode = json.loads(lines[0])
    episode.update(end="error", error="RuntimeError: no")
    episode["turns"][0].update(change)
    lines[0] = json.dumps(episode)
    (forged / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (forged / "episodes.sha256").unlink(missing_ok=True)
    error = fails("view", forged, "--out", tmp_path / "site")
    assert "instance 0, attempt 0 does not replay; see ragen verify" in error
    assert not (tmp_path / "site").exists()


def test_pages_say_what_is_missing_of_which_run(run, tmp_path):
    def front(*runs):
        command = ["view", *map(str, runs), "--out", str(tmp_path / "site")]
        assert main(command) == 0
        return (tmp_path / "site" / "index.html").read_text(encoding="utf-8")

    assert "unfinished" not in front(run)
    part = shutil.copytree(run, tmp_path / "part")
    lines = (part / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    cut(part, len(b"".join(lines[:30])) + 9)
    missing = "unfinished: 42 of 72 episodes missing"
    page = front(part)
    assert f">{missing}<" in page
    assert "the last line of episodes.jsonl is incomplete" in page
    assert f">{part}: {missing}<" in front(run, part)


# --- several runs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "other"
    agents = ["--agent", "noop", "--agent", "oracle"]
    assert main(["bench", *agents, "--game", "Sokoban", "--episodes", "8", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def both(run, other, tmp_path_factory):
    out = tmp_path_factory.mktemp("both") / "site"
    assert main(["view", str(run), str(other), "--out", str(out)]) == 0
    return out


def agents_of(site, game):
    text = (site / "beside" / f"{game}.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


def test_agents_of_several_runs_are_in_one_viewer(both, run, other):
    sokoban, lake = agents_of(both, "Sokoban"), agents_of(both, "FrozenLake")
    names = ["random", f"{run}:oracle", "noop", f"{other}:oracle"]
    assert [agent["name"] for agent in sokoban] == names
    assert [len(agent["solved"]) for agent in sokoban] == [12, 12, 8, 8]
    assert [agent["name"] for agent in lake] == names[:2]
    front = (both / "index.html").read_text(encoding="utf-8")
    assert f"<h1>{run}, {other}</h1>" in front
    # Controls are controls in any run.
    assert re.findall(r"<h2>Turns to look at first: (.*)</h2>", front) == ["random", "noop"]


def test_runs_that_cannot_be_compared_are_refused(run, other, tmp_path, fails):
    def played(name, *options):
        command = ["bench", "--agent", "oracle", "--episodes", "2", "--out", str(tmp_path / name)]
        assert main([*command, *options]) == 0
        return tmp_path / name

    thoughtless = played("thoughtless", "--game", "Sokoban", "--setting", "think=false")
    error = fails("view", run, thoughtless)
    assert f"different settings in the two runs: think is True in {run} and False in" in error
    assert "no level in common" in fails("view", other, played("lake", "--game", "FrozenLake"))
    suite = {"name": "mine", "version": 1, "split": "train"}
    tasks = {"Sokoban": {"env": "ragen/SokobanText-v0"}}
    (tmp_path / "mine.yaml").write_text(json.dumps({**suite, "tasks": tasks}))
    train = played("train", "--suite", str(tmp_path / "mine.yaml"))
    assert f"split is test in {run} and train in {train}" in fails("view", run, train)
    assert f"'{run}' is given twice" in fails("view", run, other, f"{run}/")


def test_only_runs_of_bench_can_be_viewed_together(run, tmp_path, fails):
    match, trained = tmp_path / "match", tmp_path / "trained"
    command = ["match", "--agent", "random", "--episodes", "1"]
    assert main([*command, "--out", str(match)]) == 0
    assert f"'{match}' is a run of ragen match; only" in fails("view", run, match)
    trained.mkdir()
    (trained / "samples.jsonl").write_text("")
    assert f"'{trained}' is a run of ragen train; only" in fails("view", trained, run)


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture
def page(browser, pages):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    complaints = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert complaints == []


def test_blunders_are_filtered_and_chances_lead_to_their_turns(page, pages):
    page.goto(f"file://{pages}/episodes/0-random/Sokoban.html")
    episodes = shown(pages, "0-random", "Sokoban")
    kinds = [next((t["decision"]["blunder"] for t in e["turns"] if t["decision"]["blunder"]), "none")
             for e in episodes]  # fmt: skip
    for kind in ("deadlock", "overrun", "none"):
        page.locator("#blunder").select_option(kind)
        assert page.locator("#episodes a").count() == kinds.count(kind)
    page.locator("#blunder").select_option("")
    page.locator("#chances a").last.click()
    turns = len(episodes[0]["turns"])
    assert page.locator("#turn").inner_text().startswith(f"Turn {turns} of {turns}")


def test_an_episode_plays_by_itself_and_is_scrubbed(page, pages):
    page.goto(f"file://{pages}/episodes/1-oracle/Sokoban.html")
    last = len(shown(pages, "1-oracle", "Sokoban")[0]["frames"]) - 1
    page.keyboard.press("Space")
    page.locator("#step", has_text=f"{last} / {last}").wait_for(timeout=30_000)
    assert page.locator("#run").get_attribute("aria-label") == "Play"
    page.locator("#scrubber").fill("1")
    assert page.locator("#step").inner_text() == f"1 / {last}"
    assert page.url.endswith("#0/1")


def test_a_plan_that_is_not_computed_is_not_said_to_be_hopeless(page, limited):
    episodes = shown(limited, "0-random", "Sokoban")
    name = next(e["name"] for e in episodes if any(f["turn"] == 1 for f in e["frames"]))
    page.goto(f"file://{limited}/episodes/0-random/Sokoban.html#{name}")
    assert page.locator("#best").inner_text().startswith("The oracle's plan at the start of this")
    page.keyboard.press("End")
    assert page.locator("#best").inner_text() == "The oracle's plan is not computed here"


def test_reasoning_is_shown_beside_an_empty_reply(page, pages, reasoned):
    page.goto(f"file://{reasoned}/episodes/0-thinkers-apart/Sokoban.html")
    assert page.locator("#reply").inner_text() == "(empty reply)"
    assert page.locator("#reasoned").is_visible()
    assert page.locator("#reasoning").inner_text().endswith("go <b>Left</b></script>.")
    page.goto(f"file://{pages}/episodes/1-oracle/Sokoban.html")
    assert "<answer>" in page.locator("#reply").inner_text()
    assert not page.locator("#reasoned").is_visible()


def test_two_agents_are_seen_side_by_side_where_they_differ(page, pages):
    page.goto(f"file://{pages}/episodes/1-oracle/Sokoban.html#3")
    page.locator("#beside").click()
    page.locator("#count").wait_for()
    assert page.url.endswith("beside/Sokoban.html#1/0/3")
    for side, agent in (("left", "1-oracle"), ("right", "0-random")):
        frame = page.frame_locator(f"#{side}-page")
        frame.locator("#heading").wait_for()
        assert frame.locator("#heading").inner_text().startswith("Level 3: ")
        assert not frame.locator(".list").is_visible()
        assert agent in page.locator(f"#{side}-page").get_attribute("src")
    solved = [
        {e["index"] for e in shown(pages, agent, "Sokoban") if e["success"]}
        for agent in ("1-oracle", "0-random")
    ]
    page.locator("#which").select_option("left")
    found = page.locator("#episodes a").all_inner_texts()
    assert found == [f"✓✗ {index}" for index in sorted(solved[0] - solved[1])]
    page.locator("#episodes a").last.click()
    last = max(solved[0] - solved[1])
    for side in ("left", "right"):
        heading = page.frame_locator(f"#{side}-page").locator("#heading")
        heading.filter(has_text=f"Level {last}: ").wait_for()


def test_agents_of_two_runs_are_seen_side_by_side(page, both, run, other):
    page.goto(f"file://{both}/index.html")
    rows = page.locator("tr", has_text="Sokoban")
    for name in ("random", "noop", f"{other}:oracle", f"{run}:oracle"):
        assert rows.get_by_role("link", name=name, exact=True).is_visible()
    rows.get_by_role("link", name=name, exact=True).click()
    page.locator("#beside").click()
    page.locator("#right").select_option(label=f"{other}:oracle")
    assert page.locator("#left").evaluate("e => e.selectedOptions[0].text") == f"{run}:oracle"
    assert page.locator("#count").inner_text() == "8 levels"
    page.locator("#episodes a").nth(5).click()
    for side, number in (("left", 1), ("right", 3)):
        frame = page.frame_locator(f"#{side}-page")
        frame.locator("#heading", has_text="Level 5: solved").wait_for()
        assert f"episodes/{number}-" in page.locator(f"#{side}-page").get_attribute("src")


def test_a_level_that_only_one_run_has_gives_way_to_a_common_one(page, both):
    page.goto(f"file://{both}/beside/Sokoban.html#0/2/11")
    for side in ("left", "right"):
        page.frame_locator(f"#{side}-page").locator("#heading", has_text="Level 0: ").wait_for()


@pytest.mark.parametrize("path", ["index.html", "episodes/0-random/FrozenLake.html", "beside/Sokoban.html"])
def test_pages_fit_a_phone(page, pages, path):
    page.set_viewport_size({"width": 400, "height": 740})
    page.goto(f"file://{pages}/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_both_agents_are_seen_whole_on_a_phone(page, pages):
    page.set_viewport_size({"width": 400, "height": 740})
    page.goto(f"file://{pages}/beside/Sokoban.html#1/0/3")
    for side in ("left", "right"):
        page.frame_locator(f"#{side}-page").locator("#heading").wait_for()
        page.locator(f"#{side}-page").scroll_into_view_if_needed()
        page.locator(f"#{side}-page[style*=height]").wait_for()
    for frame in page.frames[1:]:
        hidden = "document.documentElement.scrollHeight - document.documentElement.clientHeight"
        assert frame.evaluate(hidden) == 0
