import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import NAMES, QUICK, REPLIES

from ragen_envs.conversation import (
    Defect,
    SoftDefect,
    format_reply,
    parse_reply,
)

ROWS = yaml.safe_load((Path(__file__).parents[1] / "data" / "replies.yaml").read_text("utf-8"))


def row_id(row):
    return ascii(row["reply"][:50]).replace("::", ":") + str(row.get("times", row.get("lead", "")))


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_conformance(row):
    parsed = parse_reply(
        "x" * row.get("lead", 0) + row["reply"] * row.get("times", 1),
        row.get("names", NAMES),
        row.get("actions_per_turn", 5),
        row.get("think", True),
        row.get("truncated", False),
        prefix="<think>" if row.get("think_prefix") else "",
        penalise_soft=row.get("penalise_soft", False),
    )
    assert list(parsed.actions) == row.get("actions", [])
    assert set(parsed.defects) == set(row.get("defects", []))
    assert set(parsed.soft_defects) == set(row.get("soft_defects", []))
    assert parsed.is_valid == (not row.get("defects"))
    if "thought" in row:
        assert parsed.thought == row["thought"]


def test_the_table_is_complete():
    assert len(ROWS) >= 100
    known = {"reply", "times", "lead", "names", "think", "actions_per_turn", "truncated"}
    known |= {"think_prefix", "penalise_soft"}
    for row in ROWS:
        assert set(row) <= known | {"actions", "defects", "soft_defects", "thought"}
    for field, kind in (("defects", Defect), ("soft_defects", SoftDefect)):
        count = Counter(name for row in ROWS for name in row.get(field, []))
        listed = set(kind) - {Defect.ILLEGAL_ACTION}  # of words: test_word_games.py
        assert set(count) >= listed
        assert min(count[name] for name in listed) >= 2


def test_defects_come_in_a_fixed_order():
    reply = "<think>a<answer>Up||||Down||Left</answer><answer>"
    parsed = parse_reply(reply, NAMES, 2, think=False, truncated=True)
    assert len(parsed.defects) == 5
    assert list(parsed.defects) == [defect for defect in Defect if defect in parsed.defects]


@given(REPLIES, st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from(["", "<think>"]))
@settings(QUICK, max_examples=200)
def test_parsing_is_total(reply, limit, think, truncated, prefix):
    prefix = prefix if think else ""
    parsed = parse_reply(reply, NAMES, limit, think, truncated, prefix=prefix)
    assert len(parsed.actions) <= limit
    assert all(type(action) is int and 0 <= action < 4 for action in parsed.actions)
    assert parsed.is_valid == (parsed.defects == ())
    assert all(isinstance(defect, Defect) for defect in parsed.defects)
    assert len(set(parsed.defects)) == len(parsed.defects)
    assert all(isinstance(defect, SoftDefect) for defect in parsed.soft_defects)
    assert not parsed.soft_defects or parsed.actions or not reply.isascii()
    assert (Defect.TRUNCATED in parsed.defects) == truncated
    assert parsed.thought in reply
    assert parsed == parse_reply(reply, NAMES, limit, think, truncated, prefix=prefix)
    strict = parse_reply(reply, NAMES, limit, think, truncated, prefix=prefix, penalise_soft=True)
    assert strict.defects == parsed.defects + parsed.soft_defects
    assert (strict.actions, strict.soft_defects) == (parsed.actions, ())
    if parsed.is_valid:
        assert parsed.actions
        assert "<answer>" in reply.lower() or not reply.isascii()


@given(REPLIES, st.booleans())
@settings(QUICK, max_examples=100)
def test_a_smaller_limit_only_shortens(reply, think):
    wide = parse_reply(reply, NAMES, 10**6, think)
    for limit in range(1, 5):
        assert parse_reply(reply, NAMES, limit, think).actions == wide.actions[:limit]


THOUGHTS = st.none() | st.text().filter(lambda t: "</think>" not in t.lower())


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), THOUGHTS)
@QUICK
def test_formatted_replies_parse_back(actions, thought):
    reply = format_reply(actions, thought)
    parsed = parse_reply(reply, NAMES, 6, think=thought is not None)
    assert parsed.is_valid
    assert [NAMES[action] for action in parsed.actions] == actions
    assert parsed.thought == (thought or "")


AROUND = st.lists(
    st.sampled_from(["Up", "||", " ", "\n", "<", "<answer>", "</answer>", "<think>", "</THINK>"])
    | st.text(max_size=3),
    max_size=2,
).map("".join)


@pytest.mark.slow
@given(st.tuples(AROUND, AROUND, AROUND, AROUND, AROUND), st.integers(1, 3), st.booleans())
@settings(QUICK, max_examples=200)
def test_what_follows_the_last_tag_changes_nothing(parts, limit, think):
    reply = "{}<think>{}</Think>{}<ANSWER>{}</answer>{}".format(*parts)
    parsed = parse_reply(reply, NAMES, limit, think)
    assert parse_reply(f"{reply} 1 < 2", NAMES, limit, think) == parsed


HOSTILE = [
    "<think>", "<answer>", "</answer>", "||", "Up||", "<", "\0", " ", "<answer>Up||", ",", "Up,", ";",
    "|", "\n", "1.", "1. ", "(", "[", "]", '["', '",', '["Up",', "[[", "- ", "-", "=", "->", "→", "Up→",
    "↑", "↑\ufe0f", "\ufe0f", "\u200b", "<\u200b", "\u200b<think>", "\u00a0", "＜", "ｔ", "and ", "then",
    "Up and ", "*", "`", "\u0301\u0323", "\ufdfa", "가", "9", "Up\n1. ", "\u200b||", "Up,Up||",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE, ids=ascii)
def test_parsing_hostile_replies_is_quick(piece):
    began = time.process_time()
    many = piece * (65_000 // len(piece))
    parse_reply(many, NAMES, 5, True)
    parse_reply(f"a</think><answer>{many}</answer>", NAMES, 10**6, True, prefix="<think>")
    parse_reply(f"<answer>[Up{many}Up]", NAMES, 10**6, False)
    assert time.process_time() - began < 5
