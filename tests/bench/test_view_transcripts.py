"""`ragen view` of what has no board: samples of training, and matches."""

import json
import re

import pytest
from ragen_bench.__main__ import main

from ragen_envs.conversation import EndReason


def data_of(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def match(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "match"
    agents = ["--agent", "random", "--agent", "oracle"]
    assert main(["match", "--game", "FrozenLakeRace", *agents, "--episodes", "2", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def match_pages(match, tmp_path_factory):
    out = tmp_path_factory.mktemp("pages") / "site"
    assert main(["view", str(match), "--out", str(out)]) == 0
    return out


def sample(iteration, kind="train", reply="<answer>Up</answer>", success=True):
    return {
        "iteration": iteration, "kind": kind, "group": 0, "return": 1.5, "success": success,
        "end": "terminated", "rewards": [{"game": 1.6, "penalty": -0.1}],
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "board"},
                     {"role": "assistant", "content": reply}, {"role": "user", "content": "done"}],
    }  # fmt: skip


@pytest.fixture
def training(tmp_path):
    folder = tmp_path / "train"
    folder.mkdir()
    lines = [
        sample(0, "validation"),
        sample(1),
        sample(2, reply="</script><b>\u202e", success=False),
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_every_seat_of_a_match_is_a_conversation(match, match_pages):
    records = [json.loads(line) for line in (match / "episodes.jsonl").read_text().splitlines()]
    found = data_of(match_pages)
    assert len(found) == sum(len(record["seats"]) for record in records)
    said = sorted(m["content"] for each in found for m in each["messages"] if m["role"] == "assistant")
    assert said == sorted(t["reply"] for r in records for s in r["seats"] for t in s["turns"])
    ends = {EndReason(seat["end"]).words for record in records for seat in record["seats"]}
    assert {each["end"] for each in found} == ends


SEATED = """
async def broken(request):
    raise RuntimeError("no\\x1b licence")


async def apart(request):
    from ragen_agents.policies import Reply

    return Reply("<answer>Stay</answer>", reasoning="I would\\u202e stay.")
"""


@pytest.fixture(scope="module")
def seated_pages(tmp_path_factory):
    """The pages of matches between an agent that fails and one whose reasoning comes separately."""
    folder = tmp_path_factory.mktemp("seated")
    (folder / "viewed.py").write_text(SEATED)
    named = ["--agent", "viewed:broken", "--agent", "viewed:apart", "--game", "FrozenLakeRace"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        assert main(["match", *named, "--episodes", "1", "--out", str(folder / "run")]) == 0
    assert main(["view", str(folder / "run"), "--out", str(folder / "site")]) == 0
    return folder / "site"


def test_errors_and_reasoning_of_seats_are_shown(seated_pages):
    found = data_of(seated_pages)
    errors = {each["kind"]: each["error"] for each in found}
    assert errors == {"viewed:broken": "RuntimeError: no⟨U+001B⟩ licence", "viewed:apart": ""}
    said = [m for each in found for m in each["messages"] if m["role"] == "assistant"]
    assert {message["reasoning"] for message in said} == {"I would⟨U+202E⟩ stay."}


def test_samples_of_training_are_shown_with_their_rewards(training, tmp_path):
    assert main(["view", str(training), "--out", str(tmp_path / "site")]) == 0
    found = data_of(tmp_path / "site")
    assert [(each["of"], each["kind"], each["success"]) for each in found] == [
        ("iteration 0", "validation", True), ("iteration 1", "train", True),
        ("iteration 2", "train", False),
    ]  # fmt: skip
    assert [m["note"] for m in found[0]["messages"]] == ["", "", "reward 1.6, penalty -0.1", ""]
    assert found[2]["messages"][2]["content"] == "</script><b>⟨U+202E⟩"
    text = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert "</script><b>" not in text


def test_parts_of_an_own_reward_are_shown(training, tmp_path):
    line = sample(1) | {"rewards": [{"bonus": 0.5, "format": 0.0}]}
    (training / "samples.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["view", str(training), "--out", str(tmp_path / "pages")]) == 0
    (found,) = data_of(tmp_path / "pages")
    assert "bonus 0.5" in [m["note"] for m in found["messages"]]


def test_a_line_that_is_being_written_is_left_out(training, tmp_path):
    with (training / "samples.jsonl").open("a") as file:
        file.write('{"iteration": 3, "ki')
    assert main(["view", str(training), "--out", str(tmp_path / "site")]) == 0
    assert len(data_of(tmp_path / "site")) == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no conversations yet"),
        ("{}\n", "samples.jsonl line 1 is corrupt: it must be a mapping with iteration, kind"),
    ],
)
def test_samples_that_cannot_be_shown_are_named(content, said, training, tmp_path, capsys):
    (training / "samples.jsonl").write_text(content)
    assert main(["view", str(training), "--out", str(tmp_path / "site")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_conversations_are_chosen_in_a_browser(browser, match_pages):
    page = browser.new_page(viewport={"width": 400, "height": 800})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"file://{match_pages}/index.html")
    found = data_of(match_pages)
    assert page.locator("#episodes a").count() == len(found)
    assert page.locator("article").count() == len(found[0]["messages"])
    page.locator("#kind").select_option("oracle")
    own = [each for each in found if each["kind"] == "oracle"]
    assert page.locator("#episodes a").count() == len(own)
    page.keyboard.press("Escape")
    page.locator("#heading").click()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelector('#heading').textContent.includes('oracle')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert complaints == []
    page.close()


def test_a_browser_shows_why_a_seat_failed_and_what_was_reasoned(browser, seated_pages):
    page = browser.new_page()
    page.goto(f"file://{seated_pages}/index.html")
    page.locator("#kind").select_option("viewed:broken")
    assert "· RuntimeError: no⟨U+001B⟩ licence" in page.locator("#facts").inner_text()
    page.locator("#kind").select_option("viewed:apart")
    page.locator("#facts", has_not_text="licence").wait_for()
    shown = page.locator("article.assistant").first
    assert shown.locator("details pre").inner_text() == "I would⟨U+202E⟩ stay."
    page.locator("#text").fill("would⟨U+202E⟩ stay")
    own = [each for each in data_of(seated_pages) if each["kind"] == "viewed:apart"]
    assert 0 < len(own) == page.locator("#episodes a").count()
    assert not any("⟨U+202E⟩" in m["content"] for each in own for m in each["messages"])
    page.close()
