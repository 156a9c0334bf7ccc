"""WebShop: its pages, its search, its score, and its optimum against brute force."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product as combinations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from ragen_envs.conversation import Defect, make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.webshop import WebShopEnv, reward
from ragen_envs.games.webshop.catalogue import make_catalogue
from ragen_envs.games.webshop.dynamics import Page, buttons
from ragen_envs.games.webshop.oracle import best_plan
from ragen_envs.games.webshop.reward import judge, same_option
from ragen_envs.games.webshop.search import engine_of
from ragen_envs.levels.instances import load_pack
from ragen_envs.levels.splits import split_of

QUICK = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
HASH_OF_1000 = "333f83feca0a60a5"


@pytest.fixture
def env():
    made = WebShopEnv()
    made.reset(options={"split": "test", "index": 0})
    return made


def click(env, label):
    found = env.legal(f"click[{label}]")
    assert found.is_legal, found
    return env.step(f"click[{label}]")


def open_goal(env):
    env.step(f"search[{env.goal.product.title}]")
    click(env, env.goal.product.id)


# ---- catalogue ----------------------------------------------------------------------------------


def test_the_catalogue_is_what_it_was():
    assert make_catalogue(1000).content_hash.startswith(HASH_OF_1000)


@pytest.mark.slow
def test_the_catalogue_does_not_depend_on_the_process():
    module = "ragen_envs.games.webshop.catalogue"
    code = f"from {module} import make_catalogue; print(make_catalogue(300).content_hash)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    assert ran.stdout.strip() == make_catalogue(300).content_hash


def test_families_differ_in_one_thing_each():
    shop = sorted(make_catalogue(500), key=lambda product: product.family)
    kinds = {"attributes": 0, "nouns": 0, "options": 0, "price": 0}
    for first in range(0, 500, 5):
        family = shop[first : first + 5]
        assert len({product.family for product in family}) == 1
        looks = [tuple(getattr(product, name) for name in kinds) for product in family]
        (base,) = (
            look
            for look in looks
            if all(sum(a != b for a, b in zip(look, o, strict=True)) <= 1 for o in looks)
        )
        for look in looks:
            for name, ours, theirs in zip(kinds, base, look, strict=True):
                kinds[name] += ours != theirs
    assert set(kinds.values()) == {100}


def test_families_are_spread_over_the_catalogue():
    shop = make_catalogue(1000)
    beside = sum(shop[k].family == shop[k + 1].family for k in range(999))
    assert beside < 20
    assert [p.id for p in shop] == [f"P{k:06d}" for k in range(1000)]


def test_seeds_and_sizes_give_other_shops():
    shops = [make_catalogue(100), make_catalogue(105), make_catalogue(100, 1)]
    assert len({shop.content_hash for shop in shops}) == 3


def test_splits_never_share_a_family():
    shop = make_catalogue(1000)
    families = {}
    for split in ("train", "validation", "test"):
        env = WebShopEnv()
        rows = load_pack("webshop-1000", split)
        found = set()
        for row in rows:
            assert split_of(env.key(row.level)) == split
            found.add(shop[shop.numbers[json.loads(row.level)[1]]].family)
        families[split] = found
    assert not families["train"] & families["test"]
    assert not families["train"] & families["validation"]
    assert not families["validation"] & families["test"]


# ---- search -------------------------------------------------------------------------------------


def slow_scores(shop, words):
    """Return BM25 as Robertson and Lucene write it, for words that need no stemming."""
    texts = [p.searchable.replace(",", " ").replace(":", " ").replace(".", " ").split() for p in shop]
    mean = sum(map(len, texts)) / len(texts)
    scores = np.zeros(len(texts))
    for word in words:
        holding = [text.count(word) for text in texts]
        df = sum(count > 0 for count in holding)
        idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for k, count in enumerate(holding):
            scores[k] += idf * count / (count + 0.9 * (0.6 + 0.4 * len(texts[k]) / mean))
    return scores


def test_the_search_ranks_like_a_slow_bm25():
    shop = make_catalogue(200)
    for words in (["navy", "wool"], ["walnut"], ["vanilla", "crackers"]):
        ours = engine_of(shop).search(" ".join(words))
        slow = slow_scores(shop, words)
        assert {k for k in range(200) if slow[k] > 0} >= set(ours)
        if ours:
            top = slow[list(ours[:5])].mean()
            assert top > 0.8 * np.sort(slow)[-5:].mean()


def test_ties_come_in_the_order_of_the_catalogue():
    shop = make_catalogue(1000)
    engine = engine_of(shop)
    for query in ("waterproof jacket", "vanilla", "P000001", "navy small"):
        hits = engine.search(query)
        assert len(hits) <= 50
        assert len(set(hits)) == len(hits)
        assert hits == engine._search(query)
    assert engine.search("zzzz") == ()
    assert engine.search("the and of") == ()


# ---- pages --------------------------------------------------------------------------------------


def test_the_pages_of_a_search(env):
    assert env.available() == (f"search[{env.goal.instruction}]",)
    env.step("search[navy]")
    assert len(env.page.hits) == 50
    assert env.page.pages == 5
    labels = buttons(env.page, env.catalogue)
    assert "Next >" in labels
    assert "< Prev" not in labels
    for _ in range(4):
        click(env, "next >")
    assert "Next >" not in buttons(env.page, env.catalogue)
    assert not env.legal("click[Next >]").is_legal
    click(env, "< Prev")
    assert env.page.number == 4
    click(env, "Back to Search")
    assert env.page == Page()


def test_the_page_of_a_product(env):
    open_goal(env)
    before = env.page
    for subpage in ("Description", "Features", "Reviews"):
        click(env, subpage)
        assert set(buttons(env.page, env.catalogue)) == {"Back to Search", "< Prev"}
        click(env, "< Prev")
        assert env.page == before
    for _, value in env.goal.options:
        assert click(env, value.upper())[4]["action_is_effective"]
        assert not click(env, value)[4]["action_is_effective"]
    assert env.page.options == dict(env.goal.options)
    _, reward, ended, _, info = click(env, "buy now")
    assert (reward, ended, info["success"], info["wrong"]) == (1.0, True, True, "")


def test_a_search_clears_what_was_chosen(env):
    open_goal(env)
    click(env, env.goal.options[0][1])
    env.step("search[navy]")
    assert env.page.product is None
    assert env.page.chosen == ()


def test_options_that_share_a_value_have_buttons_of_their_own(env):
    options = (("color", ("oak", "Buy Now")), ("finish", ("oak",)))
    twin = replace(env.catalogue[0], options=options)
    page = Page(query="x", product=twin)
    assert dict(page.option_buttons) == {
        "color: oak": ("color", "oak"),
        "color: Buy Now": ("color", "Buy Now"),
        "finish: oak": ("finish", "oak"),
    }


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("buy", "'buy' does not have the form search[words] or click[button]"),
        ("search[]", "the brackets are empty"),
        ("click[Buy Now]", "there is no button 'Buy Now' here; the buttons are none; search first"),
        ("search[" + "x" * 10_000 + "]", "an action has at most 4,096 characters"),
    ],
)
def test_reasons(env, action, reason):
    assert env.legal(action).reason == reason


@pytest.mark.parametrize("query", ["<script>alert(1)</script>", "a' OR 1=1", "\x00", "漢字", "[[]]"])
def test_hostile_queries_are_only_words(query):
    env = WebShopEnv(observation_mode="html")
    env.reset(seed=0)
    observation, reward, ended, _, info = env.step(f"search[{query}]")
    assert info["action_is_valid"]
    assert (reward, ended) == (0.0, False)
    assert "<script" not in observation


@pytest.mark.parametrize("mode", ["page", "text", "text_rich", "html"])
def test_every_form_of_a_page_shows_what_can_be_clicked(mode):
    env = WebShopEnv(observation_mode=mode)
    rng = np.random.default_rng(0)
    for seed in range(8):
        env.reset(seed=seed)
        for _ in range(10):
            shown = env.observe()
            assert env.goal.instruction in shown.replace("&amp;", "&")
            for label in buttons(env.page, env.catalogue):
                escaped = label.replace("<", "&lt;").replace(">", "&gt;")
                assert label in shown or escaped in shown
            if env.step(env.random_action(rng))[2]:
                break


# ---- score --------------------------------------------------------------------------------------


def alike(one, other):
    return round(token_set_ratio(one, other, processor=default_process)) > 85


def asked_for(name, value):
    """Return what the published code compares: a color that is the whole value, or name and value."""
    return value if value in reward._COLORS else f"{name} {value}"


def named(value):
    return next((color for color in reward._COLORS if color in value.lower()), value.lower())


def slow_score(goal, product, chosen):
    """Return the score as the paper's formula says it, for products of one catalogue."""
    kind = 1.0 if product.nouns == goal.product.nouns else 0.0
    prose = " ".join((product.title, *product.bullets, product.description)).lower()
    attributes = len(set(goal.attributes) & set(product.attributes))
    options = len({value for _, value in goal.options} & set(chosen.values()))
    if goal.similar:
        attributes = sum(a in prose or any(alike(a, b) for b in product.attributes) for a in goal.attributes)
        options = sum(
            any(alike(asked_for(*option), named(own)) for own in chosen.values()) for option in goal.options
        )
    price = product.price <= goal.limit
    return kind * (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1)


@given(st.integers(0, 500), st.integers(0, 999), st.integers(0, 7), st.booleans())
@example(280, 0, 5, True)  # "small" was asked for, "x-small" is chosen
@QUICK
def test_the_score_is_the_published_formula(seed, number, choice, similar):
    env = WebShopEnv()
    env.reset(seed=seed)
    env.goal = replace(env.goal, similar=similar)
    product = env.catalogue[number]
    if choice % 2:
        product = env.goal.product
    chosen = {name: values[choice % len(values)] for name, values in product.options[: choice % 3]}
    verdict = judge(env.goal, product, chosen)
    assert verdict.score == pytest.approx(slow_score(env.goal, product, chosen))
    assert (verdict.score > 1 - 1e-9) == (not verdict.wrong(env.goal))


@pytest.mark.parametrize(
    ("wanted", "chosen", "same"),
    [
        ("x-large", "x large", True),  # signs between words do not count
        ("a-line", "a line", True),
        ("large", "x-large", True),
        ("small", "large", False),
        ("light blue", "blue | white", True),  # the first color of the list counts
        ("blue", "red | blue", True),
        ("standard", "tan", True),  # also within a word
    ],
)
def test_options_are_compared_as_published(wanted, chosen, same):
    assert same_option("", wanted, chosen, similar=True) == same


def test_what_was_wrong_is_named(env):
    open_goal(env)
    _, paid, _, _, info = click(env, "Buy Now")
    assert info["wrong"] == "option"
    assert paid == info["score"] < 1
    text = env.observe()
    assert f"You bought {env.goal.product.id}. Score: {paid:.3g}; wrong: option." in text


def test_the_binary_reward():
    env = WebShopEnv(reward="binary")
    env.reset(options={"split": "test", "index": 0})
    open_goal(env)
    assert click(env, "Buy Now")[1] == 0.0


# ---- oracle -------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(12))
def test_the_best_purchase_agrees_with_brute_force(index):
    env = WebShopEnv(products=60)
    env.reset(seed=index)
    best = 0.0
    for product in env.catalogue:
        for values in combinations(*((None, *values) for _, values in product.options)):
            names = [name for name, _ in product.options]
            chosen = {n: v for n, v in zip(names, values, strict=True) if v is not None}
            best = max(best, judge(env.goal, product, chosen).score)
    assert best == 1.0
    plan = best_plan(env.catalogue, env.goal, Page(), 100)
    assert plan.worth == pytest.approx(best)
    assert len(plan.actions) == 3 + len(env.goal.options)


@pytest.mark.parametrize("index", range(6))
def test_what_fits_the_budget_agrees_with_a_search_over_actions(index):
    """Try every click from the page of the results, to the depth that the budget allows."""
    env = WebShopEnv(products=50)
    env.reset(seed=index)
    env.step(f"search[{env.goal.instruction}]")
    for actions in (1, 2, 3):
        best, layer = 0.0, [env.page]
        for _ in range(actions):
            following = []
            for page in layer:
                for label in buttons(page, env.catalogue):
                    env.page = page
                    after, bought = follow(env, label)
                    best = max(best, bought)
                    following += [] if after is None else [after]
            layer = list(dict.fromkeys(following))
        env.page = Page()
        env.step(f"search[{env.goal.instruction}]")
        plan = best_plan(env.catalogue, env.goal, env.page, actions)
        assert plan.worth == pytest.approx(best), (actions, plan)


def follow(env, label):
    from ragen_envs.games.webshop import dynamics

    after = dynamics.play(env.page, env.catalogue, f"click[{label}]")
    if after.bought:
        return None, judge(env.goal, after.product, after.options).score
    return after, 0.0


def test_following_the_oracle_earns_what_it_promises():
    env = make("ragen/WebShopText-v0")
    for index in range(40):
        env.reset(options={"split": "test", "index": index})
        promised, total = env.oracle().expected_return, 0.0
        rng = np.random.default_rng(index)
        for _ in range(index % 4):  # from anywhere, not only from the start
            (action,) = env.random_actions(rng, 1)
            if "Buy" not in action:
                env.play(f"<think>a</think><answer>{action}</answer>")
        promised = env.oracle().expected_return
        while env.end is None:
            (action,) = env.oracle().actions
            total += env.play(f"<think>a</think><answer>{action}</answer>").reward
        assert total == pytest.approx(promised) == 1.0


@pytest.mark.parametrize("products", [50, 1000])
def test_a_title_is_found_on_the_first_page(products):
    """So a perfect purchase takes a search, a click on the product, its options and the purchase."""
    shop = make_catalogue(products)
    for number, product in enumerate(shop):
        assert number in engine_of(shop).search(product.title.lower())[:10]


def test_a_budget_that_is_too_small():
    env = WebShopEnv()
    env.reset(options={"split": "test", "index": 0})
    need = load_pack("webshop-1000", "test")[0].facts["moves"]
    assert env.oracle(need).value == 1.0
    assert env.oracle(need - 1).value == 0.0
    assert 0 < env.oracle(need - 1).expected_return < 1
    assert env.oracle(Budget(0, 0, 1)).actions == ()


# ---- levels ----------------------------------------------------------------------------


def test_a_level_of_another_catalogue_is_refused():
    level = load_pack("webshop-1000", "test")[0].level
    assert WebShopEnv(level=level).reset()[0]
    with pytest.raises(InstanceError, match="but this shop has the catalogue"):
        WebShopEnv(products=500, level=level)
    with pytest.raises(InstanceError, match="which this shop lacks"):
        WebShopEnv(level=level.replace('"P000', '"Q000', 1))
    with pytest.raises(InstanceError, match="must be a JSON list"):
        WebShopEnv(level="something")
    name = make_catalogue(1000).name
    for broken in (
        f'["{name}", ["P000001"], [], [], 3, ""]',
        f'["{name}", "P000001", [], [], 1e999, ""]',
        f'["{name}", "P000001", "soft", [], 30, ""]',
    ):
        with pytest.raises(InstanceError, match="must be a JSON list"):
            WebShopEnv(level=broken)


# ---- faces --------------------------------------------------------------------------------------


def test_the_page_as_html_and_as_a_picture():
    env = gym.make("ragen/WebShop-v0", render_mode="html")
    env.reset(seed=0)
    assert env.render().startswith("<!doctype html>")
    assert "<script" not in env.render()
    picture = gym.make("ragen/WebShop-v0", render_mode="rgb_array")
    picture.reset(seed=0)
    first = picture.render()
    picture.step("search[navy]")
    assert first.shape == picture.render().shape == (568, 640, 3)
    assert (first != picture.render()).any()


def test_illegal_clicks_are_defects():
    env = make("ragen/WebShopText-v0")
    env.reset(seed=0)
    result = env.play("<think>a</think><answer>click[Buy Now]</answer>")
    assert result.parsed.defects == (Defect.ILLEGAL_ACTION,)
    assert "there is no button 'Buy Now' here" in result.text


def test_hints_are_on_or_off():
    with pytest.raises(RagenError, match="hints is 'false', but must be one of False, True"):
        make("ragen/WebShopText-v0", hints="false")


def test_hints_are_part_of_the_rules():
    plain, hinted = (make("ragen/WebShopText-v0", hints=hints) for hints in (False, True))
    assert "Hints:" not in plain.reset(seed=0)[0]
    assert "Hints:" in hinted.reset(seed=0)[0]
