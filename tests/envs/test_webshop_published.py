"""WebShop on data in the published format."""

import copy
import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import product as combinations

import pytest

from ragen_envs.errors import GenerationError, RagenError
from ragen_envs.games.webshop import WebShopEnv
from ragen_envs.games.webshop.catalogue import Catalogue
from ragen_envs.games.webshop.dynamics import Page
from ragen_envs.games.webshop.oracle import best_plan
from ragen_envs.games.webshop.published import read_goals, read_shop
from ragen_envs.games.webshop.reward import judge, same_option

PAIRS = 2000

ITEMS = [
    {
        "asin": "B01", "name": "Acme Men's Waterproof Jacket with Hood", "query": "men's jackets",
        "product_category": "Clothing › Men › Jackets", "pricing": "$39.99$59.99",
        "full_description": "A jacket for the rain.", "small_description": ["Waterproof", "Two pockets"],
        "customization_options": {
            "color": [{"value": "Navy/Blue"}, {"value": "Red"}], "size": [{"value": "Large"}]
        },
    },
    {
        "asin": "B02", "name": "Acme Men's Jacket", "query": "men's jackets",
        "product_category": "Clothing › Men › Jackets", "pricing": "$29.00",
        "full_description": "", "small_description": [], "customization_options": {},
    },
    {
        "asin": "B03", "name": "Organic Green Tea", "query": "tea", "pricing": None,
        "product_category": "Grocery › Beverages › Tea", "full_description": None,
        "small_description": ["Organic"], "customization_options": None,
    },
]  # fmt: skip
ABOUT = {
    "B01": {
        "attributes": ["waterproof", "hooded"], "instruction": "Find me waterproof men's jackets.",
        "instruction_attributes": ["waterproof"],
    },
    "B02": {"attributes": []},
    "B03": {
        "attributes": ["organic"], "instruction": "Find me organic tea",
        "instruction_attributes": ["organic"],
    },
}  # fmt: skip
HUMAN = {
    "B01": [
        {
            "instruction": "i need a large navy rain jacket that is waterproof",
            "instruction_attributes": ["waterproof"], "instruction_options": ["large", "navy | blue"],
        },
        {"instruction": "anything", "instruction_attributes": [], "instruction_options": []},
    ]
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps(ITEMS))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(ABOUT))
    return tmp_path


def every_split(folder):
    env = WebShopEnv(data=folder)
    found = {}
    for split in ("train", "validation", "test"):
        with suppress(GenerationError):  # a few products need not reach every split
            for seed in range(12):
                env.reset(seed=seed, options={"split": split})
                found.setdefault(env.goal.instruction, split)
    return env, found


@pytest.mark.slow
def test_published_data_give_the_same_game(folder):
    env, found = every_split(folder)
    assert len(found) == 3  # two colors of the jacket, and the tea
    jacket = env.catalogue[0]
    assert jacket.options == (("color", ("navy | blue", "red")), ("size", ("large",)))
    assert 39.99 <= jacket.price <= 59.99
    assert jacket.nouns == {"men", "jacket"}
    assert env.catalogue[1].price == 29.0
    for instruction, split in found.items():
        env.reset(seed=0, options={"split": split})
        while env.goal.instruction != instruction:
            env.reset()
        while env.verdict is None:
            env.step(env.oracle().action)
        assert env.success


def test_human_instructions_come_first(folder):
    (folder / "items_human_ins.json").write_text(json.dumps(HUMAN))
    env, found = every_split(folder)
    (instruction,) = found
    assert instruction.startswith("i need a large navy rain jacket that is waterproof, and price lower")
    assert env.goal.options == (("", "large"), ("", "navy | blue"))


def goals_of(folder, **changes):
    """Return the goals where the jacket has other fields."""
    items = [{**ITEMS[0], **changes}, *ITEMS[1:]]
    (folder / "items_shuffle_1000.json").write_text(json.dumps(items))
    return WebShopEnv(data=folder).goals


def test_every_button_of_published_data_can_be_clicked(folder):
    colors = [
        {"value": "Black / White"},
        {"value": " "},
        {"value": "Sea  Green"},
        {"value": "sea green"},
    ]
    goals_of(folder, customization_options={" Color  Name": colors}, name="Acme\nJacket")
    env, _ = every_split(folder)
    env.step("search[acme jacket]")
    env.step("click[B01]")
    assert env.page.product.title == "Acme Jacket"
    assert env.page.product.options == (("color name", ("black | white", "sea green")),)
    assert all(env.legal(action).is_legal for action in env.available())


def test_synthetic_goals_are_every_combination_of_options(folder):
    sizes = [{"value": str(number)} for number in range(30)]
    goals = goals_of(folder, customization_options={"size": sizes, "color": [{"value": "Red"}]})
    ours = [goal for goal in goals if goal.product.id == "B01"]
    assert len({goal.options for goal in ours}) == 30
    assert ours[0].options == (("color", "red"), ("size", "0"))
    assert "with color: red, and size: 0, and price" in ours[0].instruction


@pytest.mark.parametrize(
    ("price", "limits"),
    [
        ("$39.99", {50, 60, 70}),
        ("$40.00", {60, 70, 80}),
        ("$965.00", {980, 990}),
        ("$980.00", {None}),
        ("$1,200.00", {None}),
    ],
)
def test_limits_are_two_different_multiples_of_ten_as_published(folder, price, limits):
    sizes = [{"value": str(number)} for number in range(40)]
    goals = goals_of(folder, pricing=price, customization_options={"size": sizes})
    ours = [goal for goal in goals if goal.product.id == "B01"]
    assert {goal.limit for goal in ours} == limits
    assert all(("price lower" in goal.instruction) == (None not in limits) for goal in ours)


def test_a_folder_may_be_relative(folder, monkeypatch):
    monkeypatch.chdir(folder)
    catalogue = WebShopEnv(data=".").catalogue
    monkeypatch.chdir(folder.parent)
    assert pickle.loads(pickle.dumps(catalogue)).content_hash == catalogue.content_hash
    with pytest.raises(RagenError, match="has no file"):
        WebShopEnv(data=".")


@pytest.mark.slow
def test_published_data_do_not_depend_on_the_process(folder):
    code = (
        "import sys; from ragen_envs.games.webshop import WebShopEnv; env = WebShopEnv(data=sys.argv[1]);"
        "print(env.catalogue.content_hash, [g.limit for g in env.goals])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    here = WebShopEnv(data=str(folder))
    assert done.stdout == f"{here.catalogue.content_hash} {[goal.limit for goal in here.goals]}\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("items_shuffle_1000.json", "{", "is not of the published form .JSONDecodeError"),
        ("items_shuffle_1000.json", "{}", "must be a list of products"),
        ("items_shuffle_1000.json", "[]", "holds no products"),
        ("items_shuffle_1000.json", "[3]", "product 0 is not of the published form"),
        ("items_shuffle_1000.json", '[{"asin": "B1", "name": 3}]', "product 0 is not of"),
        (
            "items_shuffle_1000.json", '[{"asin": "B1", "customization_options": {"a": [1]}}]',
            "product 0 is not of",
        ),
        ("items_ins_v2_1000.json", "[]", "must be an object by product"),
        ("items_ins_v2_1000.json", '{"B01": "x"}', "is not of"),
        ("items_ins_v2_1000.json", '{"B01": {"instruction": 3}}', "instruction of B01 is not of"),
        ("items_ins_v2_1000.json", "{}", "no instruction for any of its products"),
        ("items_human_ins.json", '{"B01": [3]}', "instruction of B01 is not of"),
    ],
)  # fmt: skip
def test_malformed_data_are_named(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(RagenError, match=message):
        WebShopEnv(data=folder)


def test_a_folder_without_data(tmp_path):
    with pytest.raises(RagenError, match=r"has no file items_shuffle\.json or"):
        WebShopEnv(data=tmp_path)


@pytest.mark.parametrize("arguments", [{"products": 60}, {"catalogue_seed": 1}])
def test_arguments_of_the_generated_catalogue_are_refused_with_data(folder, arguments):
    with pytest.raises(RagenError, match="with data both must be left out"):
        WebShopEnv(data=folder, **arguments)


def test_copies_and_pickles_do_not_grow_with_the_goals(folder):
    def sizes():
        env = WebShopEnv(data=folder)
        env.reset(seed=0)
        return len(pickle.dumps(env)), env

    few, _ = sizes()
    many = {"B01": [dict(HUMAN["B01"][0], instruction=f"goal {n}") for n in range(300)]}
    (folder / "items_human_ins.json").write_text(json.dumps(many))
    read_goals.cache_clear()
    large, env = sizes()
    assert len(env.goals) == 300
    assert large < few + 1000
    twin = pickle.loads(pickle.dumps(env))
    assert twin.goals == env.goals
    assert copy.deepcopy(env).goal is env.goal


# ---- colors and other options, by an independent implementation of the published rule -----------

COLORS = (
    "alabaster,apricot,aqua,ash,asphalt,azure,banana,beige,black,blue,blush,bordeaux,bronze,brown,burgundy,"
    "camel,camo,caramel,champagne,charcoal,cheetah,chestnut,chocolate,christmas,coffee,cognac,copper,coral,"
    "cranberry,cream,crystal,dark,denim,eggplant,elephant,espresso,fuchsia,gold,granite,grape,graphite,grass,"
    "gray,green,grey,heather,indigo,ivory,ivy,khaki,lavender,lemon,leopard,light,lilac,lime,magenta,maroon,"
    "mauve,merlot,midnight,mint,mocha,multicolor,mushroom,mustard,natural,navy,nude,olive,orange,peach,"
    "pewter,pink,plum,purple,rainbow,red,rose,royal,rust,sand,sapphire,seashell,silver,skull,slate,steel,"
    "stone,stonewash,sunflower,tan,taupe,teal,tiger,turquoise,violet,walnut,wheat,white,wine,yellow"
).split(",")
SIZES = [
    "x-large", "large", "standard", "one size", "men's 9 | women's 11", "10.5 wide", "32w x 30l", "twin",
    "california king", "full", "pack of 2", "5x7 ft", "8 ounce", "12\"", "sand_01", "pet 40\" x 50\"",
]  # fmt: skip
MORE = [
    "heather",
    "café",
    "two tone",
    "multi",
    "matte",
    "powdered",
    "washed",
    "#3",
    "a",
    "stripe",
    "(b)",
]


def published_match(goal_option, bought):
    """Return whether an option counts: of a synthetic goal (name, value), of a human one a text."""

    def first_color(text):
        for color in COLORS:
            if color in text:
                return color
        return text

    def words(text):
        text = "".join(c for c in str(text) if not 128 <= ord(c) < 256)
        return set("".join(c if c.isalnum() or c == "_" else " " for c in text).lower().split())

    def ratio(one, other):
        if not one or not other:
            return 0
        row = [0] * (len(other) + 1)
        for a in one:
            before = row[:]
            for j, b in enumerate(other, 1):
                row[j] = before[j - 1] + 1 if a == b else max(row[j - 1], before[j])
        return round(200 * row[-1] / (len(one) + len(other)))

    one, other = words(first_color(bought)), words(first_color(goal_option))
    both = " ".join(sorted(one & other))
    mine, theirs = (f"{both} {' '.join(sorted(rest))}".strip() for rest in (one - other, other - one))
    if not one or not other:
        return False
    return max(ratio(both, mine), ratio(both, theirs), ratio(mine, theirs)) > 85


def test_options_match_as_published():
    draw = random.Random(5)

    def value():
        if draw.random() < 0.3:
            return draw.choice(SIZES)
        count = draw.choice((1, 1, 2, 2, 3))
        return draw.choice((" ", " ", " | ", "-")).join(
            draw.choice(COLORS if draw.random() < 0.7 else MORE) for _ in range(count)
        )

    outcomes = Counter()
    for _ in range(PAIRS):
        bought = value()
        wanted = draw.choice((bought, bought.split()[0], value()))
        name = draw.choice(("", "color", "size", "style", "item package quantity"))
        match = published_match((name, wanted) if name else wanted, bought)
        assert same_option(name, wanted, bought, True) == match, (name, wanted, bought)
        outcomes[match] += 1
    assert min(outcomes.values()) > PAIRS / 10


# ---- oracle -------------------------------------------------------------------------------------

BEDS = ("queen", "california king", "king", "full queen", "red king", "red")


def best_by_brute_force(goal, product):
    """Try every value, or none, of each option."""
    names = [name for name, _ in product.options]
    return max(
        judge(goal, product, {n: v for n, v in zip(names, values, strict=True) if v}).score
        for values in combinations(*((None, *values) for _, values in product.options))
    )


@pytest.mark.parametrize("seed", range(40))
def test_one_value_may_count_for_several_options_asked_for(folder, seed):
    draw = random.Random(seed)
    (product, *_) = read_shop(folder).products
    options = tuple(
        (name, tuple(draw.sample(BEDS, draw.randint(1, 3)))) for name in ("size", "color", "style")
    )
    product = replace(product, options=options)
    asked = tuple((name, draw.choice(BEDS)) for name in ("color", "size", "style", "kind"))
    goal = replace(read_goals(folder)[0], product=product, options=asked, similar=True)
    plan = best_plan(Catalogue([product], (read_shop, (folder,)), published=True), goal, Page(), 100)
    assert plan.worth == pytest.approx(best_by_brute_force(goal, product))


def test_one_click_does_for_two_options_asked_for(folder):
    (product, *_) = read_shop(folder).products
    product = replace(product, options=(("color", ("red",)), ("size", ("queen", "full"))))
    asked = (("color", "queen"), ("size", "queen"), ("finish", "red"))
    goal = replace(read_goals(folder)[0], product=product, options=asked, similar=True)
    shop = Catalogue([product], (read_shop, (folder,)), published=True)
    clicks = [best_plan(shop, goal, Page(), actions).actions[2:-1] for actions in (3, 4, 5)]
    assert clicks == [(), ("click[queen]",), ("click[queen]", "click[red]")]
