import re
from itertools import permutations, product

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragen_envs.conversation import format_reply, make
from ragen_envs.errors import GenerationError, InstanceError, RagenError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.cube import CubeEnv, image
from ragen_envs.games.cube.oracle import distances, solution
from ragen_envs.levels.instances import load_pack
from ragen_envs.levels.splits import SPLITS, split_of

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])
ACTIONS = st.lists(st.integers(0, 5), min_size=1, max_size=25)
LETTERS = "WOGRBY"
SOLVED = {"U": "WWWW", "L": "OOOO", "F": "GGGG", "R": "RRRR", "B": "BBBB", "D": "YYYY"}


class Slow:
    """The cube again, as the strips of the unfolded cube that a turn moves on."""

    RIGHT = (("F", (1, 3)), ("U", (1, 3)), ("B", (2, 0)), ("D", (1, 3)))
    UP = (("F", (0, 1)), ("L", (0, 1)), ("B", (0, 1)), ("R", (0, 1)))
    FRONT = (("U", (2, 3)), ("R", (0, 2)), ("D", (1, 0)), ("L", (3, 1)))
    STRIPS = (("R", RIGHT), ("U", UP), ("F", FRONT))

    def __init__(self, faces=None):
        self.faces = {name: list(colors) for name, colors in (faces or SOLVED).items()}

    def step(self, action):
        face, strips = self.STRIPS[action // 2]
        for _ in range(3 if action % 2 else 1):  # three turns are one turn back
            self.spin(face)
            self.carry(strips)
        return self

    def spin(self, face):
        a, b, c, d = self.faces[face]
        self.faces[face] = [c, a, d, b]

    def carry(self, strips):
        """Move the stickers of each strip to the next one."""
        held = [[self.faces[face][i] for i in places] for face, places in strips]
        for (face, places), colors in zip(strips, [held[-1], *held[:-1]], strict=True):
            for place, color in zip(places, colors, strict=True):
                self.faces[face][place] = color

    def hold_with_right_up(self):
        """Turn the whole cube: what was right is up then."""
        u, left, f, r, b, d = (self.faces[name] for name in "ULFRBD")
        self.faces = {"U": clock(r, 3), "L": clock(u, 3), "F": clock(f, 3), "R": clock(d, 3)}
        self.faces |= {"B": clock(b, 1), "D": clock(left, 3)}
        return self

    def hold_with_right_in_front(self):
        u, left, f, r, b, d = (self.faces[name] for name in "ULFRBD")
        self.faces = {"U": clock(u, 1), "L": f, "F": r, "R": b, "B": left, "D": clock(d, 3)}
        return self

    def look_in_a_mirror(self):
        swap = {"L": "R", "R": "L"}
        self.faces = {name: [self.faces[swap.get(name, name)][i] for i in (1, 0, 3, 2)] for name in "ULFRBD"}
        return self

    def text(self):
        return "/".join("".join(self.faces[name]) for name in "ULFRBD")

    @property
    def solved(self):
        return all(len(set(colors)) == 1 for colors in self.faces.values())


def clock(colors, turns):
    for _ in range(turns):
        a, b, c, d = colors
        colors = [c, a, d, b]
    return colors


def read(text):
    return Slow(dict(zip("ULFRBD", text.split("/"), strict=True)))


def named(text):
    """Return a cube with its colors named in the order in which they appear."""
    order = "".join(dict.fromkeys(text.replace("/", "")))
    return text.translate(str.maketrans(order, LETTERS))


def ways_to_hold(text):
    """Return a cube as it is shown in every way to hold it."""
    found = [text]
    for way in found:
        for there in (read(way).hold_with_right_up(), read(way).hold_with_right_in_front()):
            if there.text() not in found:
                found.append(there.text())
    return found


def canonical(text):
    """Return the first of all the ways to hold, mirror and name a cube."""
    mirrored = read(text).look_in_a_mirror().text()
    return min(named(way) for way in (*ways_to_hold(text), *ways_to_hold(mirrored)))


def start(level, **kwargs):
    env = CubeEnv(level=level.split("/"), **kwargs)
    observation, info = env.reset(seed=0)
    return env, observation, info


def scrambled(actions):
    cube = Slow()
    for action in actions:
        cube.step(action)
    return cube


# ---- rules --------------------------------------------------------------------------------------


@given(ACTIONS, ACTIONS)
@settings(QUICK, max_examples=75)
def test_steps_agree_with_the_slow_cube(scramble, actions):
    slow = scrambled(scramble)
    if slow.solved:
        return
    env, observation, info = start(slow.text())
    assert info["success"] is False
    for action in actions:
        observation, reward, ended, cut, info = env.step(action)
        slow.step(action)
        assert "".join(LETTERS[c] for c in observation) == slow.text().replace("/", "")
        assert reward == ended == info["success"] == slow.solved
        assert (cut, info["action_is_effective"]) == (False, True)
        if ended:
            break


@given(ACTIONS, st.integers(0, 5))
@QUICK
def test_a_turn_back_undoes_a_turn(scramble, action):
    level = scrambled(scramble)
    if level.solved:
        return
    env, before, _ = start(level.text())
    if env.step(action)[2]:
        return
    assert not np.array_equal(env.observe(), before)
    np.testing.assert_array_equal(env.step(action ^ 1)[0], before)


# ---- the optimum --------------------------------------------------------------------------------


def test_as_many_states_as_known_at_every_distance():
    """The published counts of positions of the 2x2x2 cube by quarter turns."""
    known = [1, 6, 27, 120, 534, 2256, 8969, 33058, 114149, 360508, 930588, 1350852, 782536, 90280]
    assert np.bincount(distances()).tolist() == [*known, 276]


def brute_force(limit):
    """Return the fewest turns to every cube within a limit, by plain search over slow cubes."""
    found, layer = {Slow().text(): 0}, [Slow().text()]
    for turns in range(1, limit + 1):
        following = []
        for text, action in product(layer, range(6)):
            there = read(text).step(action).text()
            if there not in found:
                found[there] = turns
                following.append(there)
        layer = following
    return found


@pytest.mark.slow
def test_the_oracle_agrees_with_brute_force():
    for text, fewest in brute_force(4).items():
        if fewest:
            env, _, _ = start(text)
            plan = env.oracle(fewest + 3).actions
            assert env.oracle(Budget(10, 1, 10)).value == 1
            assert env.oracle(fewest).value == 1 == env.oracle(fewest).expected_return
            assert env.oracle(fewest - 1).value == 0 == env.oracle(fewest - 1).expected_return
            assert len(env.oracle(Budget(10, 1, 10)).actions) == fewest
            assert len(plan) == 1


@given(ACTIONS)
@settings(QUICK, max_examples=75)
def test_solutions_solve_and_no_turn_brings_one_nearer_by_more_than_one(scramble):
    slow = scrambled(scramble)
    state = bytes(LETTERS.index(c) for c in slow.text().replace("/", ""))
    plan = solution(state)
    assert len(plan) <= min(len(scramble), 14)
    assert (len(plan) - len(scramble)) % 2 == 0
    for action in range(6):
        there = read(slow.text()).step(action).text().replace("/", "")
        after = len(solution(bytes(LETTERS.index(c) for c in there)))
        assert abs(after - len(plan)) == 1
    for action in plan:
        slow.step(action)
    assert slow.solved


def test_the_oracle_minds_turns_and_actions():
    env, _, _ = start(scrambled([0, 2, 4, 0, 2, 4]).text())
    whole = env.oracle(Budget(6, 6, 6))
    assert len(whole.actions) == 6
    assert (whole.value, whole.expected_return) == (1, 1)
    assert env.oracle(Budget(6, 2, 3)).actions == whole.actions[:3]
    assert env.oracle(Budget(6, 1, 5)).value == 0
    assert env.oracle(Budget(5, 6, 6)).value == 0
    for action in whole.actions:
        env.step(action)
    assert (env.oracle().actions, env.oracle().value) == ((), 1)


# ---- levels -------------------------------------------------------------------------------------


@given(ACTIONS, st.permutations(LETTERS), st.integers(0, 23), st.booleans())
@settings(QUICK, max_examples=100)
def test_keys_ignore_how_a_cube_is_held_mirrored_and_named(scramble, names, way, mirrored):
    cube = scrambled(scramble)
    if cube.solved:
        return
    env, _, _ = start(cube.text())
    key = env.key(cube.text())
    fewest = len(env.oracle(Budget(14, 1, 14)).actions)
    if mirrored:
        cube.look_in_a_mirror()
    ways = ways_to_hold(cube.text())
    other = ways[way % len(ways)].translate(str.maketrans(LETTERS, "".join(names)))
    assert env.key(other) == key
    assert len(start(other)[0].oracle(Budget(14, 1, 14)).actions) == fewest


@pytest.mark.slow
def test_keys_tell_levels_apart():
    """Of all cubes within 4 turns those that look the same in no way have different keys."""
    env = CubeEnv()
    texts = [text for text, fewest in brute_force(4).items() if fewest]
    pairs = {(env.key(text), canonical(text)) for text in texts}
    assert len(pairs) == len({key for key, _ in pairs}) == len({form for _, form in pairs})
    assert len(pairs) == 1 + 3 + 6 + 17


def test_the_slow_cube_can_be_held_in_24_ways():
    assert len(set(ways_to_hold("WOGR/BYWO/GRBY/WOGB/RYWG/OBRY"))) == 24


def test_packs_hold_every_level():
    env = CubeEnv()
    keys = {split: {env.key(row.level) for row in load_pack("cube-8", split)} for split in SPLITS}
    assert sum(map(len, keys.values())) == 2702
    for split in SPLITS:
        for seed in range(150):
            env.reset(seed=seed, options={"split": split})
            assert int(env.instance.key, 16) in keys[split]


@pytest.mark.parametrize("split", SPLITS)
def test_pack_facts_are_the_fewest_turns(split):
    env = CubeEnv()
    for index, row in enumerate(load_pack("cube-8", split)[:80]):
        env.reset(options={"split": split, "index": index})
        assert env.oracle(row.facts["moves"]).value == 1
        assert env.oracle(row.facts["moves"] - 1).value == 0


@pytest.mark.parametrize("scramble", [2, 3, 5, 8, 14])
def test_levels_need_at_most_as_many_turns_as_were_made(scramble):
    env = CubeEnv(scramble=scramble)
    lengths = []
    for seed in range(60):
        env.reset(seed=seed)
        lengths.append(len(env.oracle(Budget(14, 1, 14)).actions))
        assert split_of(int(env.instance.key, 16)) == "train"
    assert {(scramble - length) % 2 for length in lengths} == {0}
    assert 1 <= min(lengths) <= max(lengths) <= min(scramble, 14)
    assert np.mean(lengths) > 0.75 * min(scramble, 10)


def test_one_turn_makes_one_level_of_one_split():
    (owner,) = {split_of(CubeEnv().key(scrambled([a]).text())) for a in range(6)}
    CubeEnv(scramble=1).reset(seed=0, options={"split": owner})
    for split in set(SPLITS) - {owner}:
        with pytest.raises(GenerationError, match="none of 10000 generated levels"):
            CubeEnv(scramble=1).reset(seed=0, options={"split": split})


GOOD = "WGWG/OOOO/GYGY/RRRR/WBWB/YBYB"
BAD_LEVELS = [
    ("", "six|faces"),
    ("WGWG/OOOO/GYGY/RRRR/WBWB", "faces"),
    ("WGWG/OOOO/GYGY/RRRR/WBWB/YBY", "faces"),
    ("WGWG/OOOO/GYGY/RRRR/WBWB/YBYX", "WOGRBY"),
    ("WWWW/OOOO/GGGG/RRRR/BBBB/YYYY", "solved already"),
    ("RRRR/WWWW/GGGG/YYYY/BBBB/OOOO", "solved already"),
    ("WGWG/OOOO/GYGY/RRRR/WBWB/WBWB", "cannot be solved"),  # eight corners with three colors each
    ("WWWW/OOOO/GGGG/RRRR/BBBB/YYBY", "cannot be solved"),
    ("WGWG/GOOO/WOGY/RRRR/WBWB/YBYB", "cannot be solved"),
]


def test_the_good_level_is_one():
    assert start(GOOD)[0].oracle(1).actions == (1,)


@pytest.mark.parametrize(("level", "words"), BAD_LEVELS)
def test_bad_levels(level, words):
    with pytest.raises(InstanceError, match=words):
        CubeEnv(level=level.split("/"))


@pytest.mark.parametrize("twists", list(permutations(range(3))))
def test_a_twisted_corner_makes_no_cube(twists):
    """A third of a turn of one corner is what no turn of the layers can make or mend."""
    cube = read(GOOD)
    corner = (("U", 3), ("R", 0), ("F", 1))
    colors = [cube.faces[face][place] for face, place in corner]
    for (face, place), number in zip(corner, twists, strict=True):
        cube.faces[face][place] = colors[number]
    if twists == (0, 1, 2):
        assert start(cube.text())[0].oracle(1).value == 1
    else:
        with pytest.raises(InstanceError, match="cannot be solved by any sequence of turns"):
            CubeEnv(level=cube.text().split("/"))


@pytest.mark.parametrize("scramble", [0, 101, -1, 2.5, "3", None])
def test_bad_scrambles(scramble):
    with pytest.raises(RagenError, match=re.escape(f"scramble is {scramble!r}")):
        CubeEnv(scramble=scramble)


# ---- words and pictures -------------------------------------------------------------------------


def test_the_unfolded_cube_and_the_faces_show_the_same():
    level = scrambled([0, 2, 4, 3]).text()
    env = make("ragen/Cube-v0", level=level.split("/"), observation="both")
    env.reset(seed=0)
    grid, faces = env.state_text().split("\nEach face")
    rows = grid.splitlines()
    assert {len(row) for row in rows} == {8}
    places = {"U": (0, 2), "L": (2, 0), "F": (2, 2), "R": (2, 4), "B": (2, 6), "D": (4, 2)}
    found = {face: rows[r][c : c + 2] + rows[r + 1][c : c + 2] for face, (r, c) in places.items()}
    assert "/".join(found[face] for face in "ULFRBD") == level
    assert grid.count(".") == 24
    told = [line.partition(": ")[2].replace(",", "").split() for line in faces.splitlines()[1:]]
    assert "/".join("".join(color[0].upper() for color in colors) for colors in told) == level


def test_the_prompt_says_how_to_play():
    env = make("ragen/Cube-v0")
    prompt, _ = env.reset(options={"split": "test", "index": 0})
    for words in ("single color", "unfolded", "clockwise", "W white", "R+, R-, U+, U-, F+, F-"):
        assert words in prompt
    assert "Symbols" not in make("ragen/Cube-v0", observation="coordinates").reset()[0]


def test_the_usual_notation_of_a_turn_back_is_not_taken_for_the_turn():
    env = make("ragen/Cube-v0")
    env.reset(seed=0)
    result = env.play(format_reply(["R'"], ""))
    assert result.executed == ()
    assert result.parsed.defects == ("unknown_action",)


def test_the_oracle_needs_two_of_the_turns_of_a_conversation():
    env = make("ragen/Cube-v0")
    for index in range(20):
        env.reset(options={"split": "test", "index": index})
        turns = 0
        while env.end is None:
            env.play(format_reply([env.names[a] for a in env.oracle().actions], ""))
            turns += 1
        assert env.success
        assert turns <= 2


def test_the_picture_shows_the_unfolded_cube():
    env, _, _ = start(GOOD, render_mode="rgb_array")
    picture = env.render()
    assert picture.shape == (6 * 48, 8 * 48, 3)
    tiles = image.TILES.draw(48)
    white, red, nothing = tiles[0], tiles[3], tiles[6]
    assert np.array_equal(picture[:48, 96:144], white)
    assert np.array_equal(picture[96:144, 192:240], red)
    assert np.array_equal(picture[:48, :48], nothing)


def test_several_cubes_at_once():
    envs = gym.make_vec("ragen/Cube-v0", num_envs=3, vectorization_mode="sync", scramble=3)
    observations, _ = envs.reset(seed=5)
    assert observations.shape == (3, 24)
    solved = np.zeros(3, bool)
    for _ in range(3):
        actions = [env.unwrapped.oracle().action or 0 for env in envs.envs]
        _, rewards, ended, _, _ = envs.step(np.array(actions))
        assert (rewards == ended).all()
        solved |= ended
    assert solved.all()
