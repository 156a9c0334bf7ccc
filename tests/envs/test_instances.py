import hashlib
import json
import shutil
import sys
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import ragen_envs.levels.instances as instances
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.games import packs
from ragen_envs.games.bandit import arm_names
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.packs import USUAL, recipes
from ragen_envs.games.sokoban import SokobanEnv, solve
from ragen_envs.levels.instances import load_pack, manifest
from ragen_envs.levels.keys import grid_key
from ragen_envs.levels.splits import SPLITS, split_code, split_of
from ragen_envs.registration import GAMES, text_ids

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

FOLDER = Path(instances.__file__).parent / "packs"
GRIDS = {
    "sokoban-6x6-1": "ragen/Sokoban-v0",
    "sokoban-8x8-2-depth10": "ragen/SokobanLarge-v0",
    "frozen_lake-4x4-0.8": "ragen/FrozenLake-v0",
}
FROZEN = [game.id for game in GAMES if game.env_class.has_packs]
PACKS = {gym.make(env_id).unwrapped.distribution: env_id for env_id in reversed(FROZEN)}
"""For each frozen distribution a game that has it."""
WORDS = sorted(
    distribution for distribution, env_id in PACKS.items()
    if isinstance(gym.make(env_id).unwrapped, WordGameEnv)
)  # fmt: skip
"""Distributions of games whose actions are words, which say other things of their levels."""
KEYED = sorted(set(PACKS) - {"bandit"})
"""Distributions whose splits own levels by their keys; the bandits' own names."""
WITH_CHANCES = sorted(set(KEYED) - set(WORDS))
WITHOUT_REPEATS = ["bandit", "cube-8"]
"""Distributions whose packs hold no level twice; the others are independent draws."""
EVERY = FROZEN + [text_id for text_id in text_ids() if gym.spec(text_id).kwargs["game"] in FROZEN]


@cache
def keys_of(distribution, split):
    env = gym.make(PACKS[distribution]).unwrapped
    return [env.key(instance.level) for instance in load_pack(distribution, split)]


def test_manifest_lists_every_file():
    files = {path.name for path in FOLDER.glob("*.jsonl")}
    assert set(manifest()) == files == {f"{d}.{split}.jsonl" for d in PACKS for split in SPLITS}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("distribution", PACKS)
def test_packs_are_the_published_ones(distribution, split):
    name = f"{distribution}.{split}.jsonl"
    data = (FOLDER / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == manifest()[name]["sha256"]
    pack = load_pack(distribution, split)
    assert len(pack) == manifest()[name]["instances"] == data.count(b"\n")
    assert len(pack) >= {"train": 1024, "validation": 256, "test": 512}[split]


def test_every_pack_has_a_recipe():
    assert set(recipes()) == set(PACKS)


@pytest.mark.slow
@pytest.mark.parametrize("distribution", KEYED)
def test_splits_are_disjoint(distribution):
    keys = {split: set(keys_of(distribution, split)) for split in SPLITS}
    everything = [key for found in keys.values() for key in found]
    assert len(set(everything)) == len(everything)
    for split, found in keys.items():
        assert {split_of(key) for key in found} == {split}


def test_bandit_splits_are_disjoint():
    names = {
        split: {name for row in load_pack("bandit", split) for name in row.level.split("/")}
        for split in SPLITS
    }
    for split, found in names.items():
        assert found == {name for names in arm_names()[split] for name in names}
    assert sum(map(len, names.values())) == len(set().union(*names.values()))


def test_split_shares():
    rng = np.random.default_rng(0)
    codes = [split_code(int(key)) for key in rng.integers(0, 2**63, 20_000)]
    shares = np.bincount(codes) / len(codes)
    np.testing.assert_allclose(shares, [10 / 16, 2 / 16, 4 / 16], atol=0.015)
    assert [split_of(k << 40) for k in (0, 9, 10, 11, 12, 15, 16)] == [
        "train", "train", "validation", "validation", "test", "test", "train",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("distribution", ["sokoban-6x6-1", "sokoban-8x8-2-depth10"])
def test_sokoban_moves_are_shortest(distribution, split):
    env = gym.make(GRIDS[distribution])
    pack = load_pack(distribution, split)
    for index in range(0, len(pack), len(pack) // 40):
        board, _ = env.reset(options={"split": split, "index": index})
        assert len(solve(board)) == pack[index].facts["moves"]


@pytest.mark.parametrize("split", SPLITS)
def test_lake_moves_are_shortest(split):
    pack = load_pack("frozen_lake-4x4-0.8", split)
    env = gym.make("ragen/FrozenLakeDeterministic-v0")
    for index in range(0, len(pack), len(pack) // 60):
        env.reset(options={"split": split, "index": index})
        moves = pack[index].facts["moves"]
        assert env.unwrapped.oracle(moves).value == 1
        assert env.unwrapped.oracle(moves - 1).value == 0


@pytest.mark.parametrize("env_id", EVERY)
def test_reset_loads_the_instance(env_id):
    env = gym.make(env_id)
    for split in SPLITS:
        pack = load_pack(env.unwrapped.distribution, split)
        for index in (0, 1, 7, len(pack) - 1):
            env.reset(options={"split": split, "index": index})
            instance = env.unwrapped.instance
            assert instance.level == pack[index].level
            assert (instance.split, instance.index, instance.noise) == (split, index, 0)
            assert instance.seed is None
            assert instance.distribution == env.unwrapped.distribution
            assert int(instance.key, 16) == env.unwrapped.key(instance.level)
            assert len(instance.key) == 16


def test_split_defaults_to_train():
    env = gym.make("ragen/Sokoban-v0")
    env.reset(options={"index": 5})
    assert env.unwrapped.instance.split == "train"
    assert env.unwrapped.instance.level == load_pack("sokoban-6x6-1", "train")[5].level


@pytest.mark.parametrize(("env_id", "last"), [("ragen/Sokoban-v0", 1023), ("ragen/Bandit-v0", 1023)])
def test_index_out_of_range(env_id, last):
    env = gym.make(env_id)
    env.reset(options={"split": "test", "index": last})
    with pytest.raises(InstanceError, match=rf"index is {last + 1}.*'test'.*0 to {last}"):
        env.reset(options={"split": "test", "index": last + 1})
    with pytest.raises(RagenError, match="index is -1"):
        env.reset(options={"split": "test", "index": -1})


def test_a_failed_reset_leaves_the_episode():
    env = gym.make("ragen/Sokoban-v0").unwrapped
    env.reset(seed=1)
    before = env.board, env.instance
    with pytest.raises(InstanceError):
        env.reset(options={"split": "test", "index": 10**6})
    np.testing.assert_array_equal(env.board, before[0])
    assert env.instance == before[1]


def test_load_pack_names_the_splits():
    with pytest.raises(InstanceError, match="split is 'eval', but must be one of train, validation"):
        load_pack("sokoban-6x6-1", "eval")


def test_an_unknown_split_is_refused():
    with pytest.raises(InstanceError, match=r"split is 'dev'.*train, validation, test"):
        gym.make("ragen/Sokoban-v0").reset(options={"split": "dev", "index": 0})


@pytest.fixture
def copied(tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "packs")
    monkeypatch.setattr(instances.resources, "files", lambda _: tmp_path)
    for kept in (load_pack, manifest):
        kept.cache_clear()
    yield tmp_path / "packs"
    for kept in (load_pack, manifest):
        kept.cache_clear()


def test_the_copy_is_accepted(copied):
    gym.make("ragen/Sokoban-v0").reset(options={"split": "test", "index": 0})


@pytest.mark.parametrize("change", [b"", b"\n", b'{"level":"P_G","moves":2}\n'])
def test_a_tampered_pack_is_refused(copied, change):
    path = copied / "frozen_lake-4x4-0.8.test.jsonl"
    data = path.read_bytes()
    path.write_bytes(data + change if change else data[:-1])
    env = gym.make("ragen/FrozenLake-v0")
    with pytest.raises(InstanceError, match=r"frozen_lake-4x4-0\.8\.test\.jsonl differs"):
        env.reset(options={"split": "test", "index": 0})
    env.reset(options={"split": "train", "index": 0})


def test_one_changed_byte_is_refused(copied):
    path = copied / "sokoban-6x6-1.validation.jsonl"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InstanceError, match="differs"):
        load_pack("sokoban-6x6-1", "validation")


BOARDS = nps.arrays(np.uint8, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.integers(0, 6))


def images(board):
    """Return the rotations and reflections that keep the board's shape."""
    found = []
    for turns in range(4):
        turned = np.rot90(board, turns)
        found += [turned, np.flipud(turned), np.fliplr(turned)]
    return [image for image in found if image.shape == board.shape]


def key(board):
    return grid_key(np.ascontiguousarray(board).tobytes(), *board.shape)


@given(BOARDS)
@QUICK
def test_keys_ignore_symmetries(board):
    assert {key(image) for image in images(board)} == {key(board)}
    assert 0 <= key(board) < 2**63


@given(BOARDS, st.data())
@QUICK
def test_keys_tell_boards_apart(board, data):
    other = board.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, board.size - 1))
        other.flat[place] = data.draw(st.integers(0, 6))
    same = any(np.array_equal(image, other) for image in images(board))
    assert (key(board) == key(other)) == same


def test_keys_of_shifted_walls_differ():
    boards = []
    for place in range(36):
        board = np.ones((6, 6), np.uint8)
        board.flat[place] = 0
        boards.append(board)
    assert len({key(board) for board in boards}) == 6


@given(st.integers(0, 3), st.booleans(), st.integers(0, 1023))
@settings(QUICK, max_examples=60)
def test_level_keys_ignore_symmetries(turns, mirrored, index):
    for distribution, env_id in GRIDS.items():
        level = load_pack(distribution, "test")[index].level
        cells = np.array([list(row) for row in level.split("/")])
        image = np.rot90(cells, turns)
        image = image[:, ::-1] if mirrored else image
        env = gym.make(env_id).unwrapped
        assert env.key("/".join(map("".join, image))) == env.key(level)


@given(st.integers(0, 1023), st.data())
@settings(QUICK, max_examples=60)
def test_sokoban_keys_see_the_room_and_not_the_frame(index, data):
    level = load_pack("sokoban-6x6-1", "test")[index].level
    room = np.array([list(row) for row in level.split("/")])[1:-1, 1:-1]
    top, bottom, left, right = (data.draw(st.integers(1, 5)) for _ in range(4))
    framed = np.pad(room, ((top, bottom), (left, right)), constant_values="#")
    env = SokobanEnv()
    assert env.key("/".join(map("".join, framed))) == env.key(level)


def test_sokoban_keys_do_not_see_floor_out_of_reach():
    env = SokobanEnv()
    closed = env.key("#######/#PXO###/#######/#######/#######")
    assert env.key("#######/#PXO#_#/#####_#/#_#####/#######") == closed
    assert env.key("#######/#PXO#_#/#___#_#/#######/#######") != closed
    assert env.key("#######/#POX###/#######/#######/#######") != closed


@pytest.mark.parametrize(
    ("level", "same", "other"),
    [
        ("#######/#P_X_O#/#######", "#######/#_PX_O#/#######", "#######/#__XPO#/#######"),
        ("#####/#P_##/#_XO#/#####", "#####/#_P##/#_XO#/#####", "#####/#__##/#_XS#/#####"),
        ("#####/#S__#/#_X##/#####", "#####/#OP_#/#_X##/#####", "#####/#P_O#/#_X##/#####"),
    ],
)
def test_sokoban_keys_see_where_the_player_can_walk(level, same, other):
    env = SokobanEnv()
    assert env.key(level) == env.key(same) != env.key(other)


def test_lake_keys_see_what_can_be_walked_to():
    env = FrozenLakeEnv()
    key = env.key("P___/____/____/___G")
    assert env.key("G___/____/____/___P") == env.key("____/__P_/____/___G") == key
    assert env.key("P___/____/____/__G_") != key
    assert env.key("P__G/____/OOOO/____") == env.key("__PG/____/OOOO/_O_O") != key


@pytest.mark.slow
@pytest.mark.parametrize("distribution", KEYED)
def test_fresh_levels_are_train_levels(distribution):
    env = gym.make(PACKS[distribution])
    held = {
        k
        for split in ("validation", "test")
        for k in keys_of(distribution, split)
    }  # fmt: skip
    env.reset(seed=0)
    for seed in range(40):
        env.reset(seed=seed if seed % 2 else None)
        found = int(env.unwrapped.instance.key, 16)
        assert split_of(found) == "train"
        assert found not in held


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("distribution", KEYED)
def test_fresh_levels_of_a_split_belong_to_it(distribution, split):
    env = gym.make(PACKS[distribution])
    for seed in range(6):
        env.reset(seed=seed, options={"split": split})
        assert env.unwrapped.instance.split == split
        assert split_of(int(env.unwrapped.instance.key, 16)) == split


@pytest.mark.parametrize("distribution", WITHOUT_REPEATS)
@pytest.mark.parametrize("split", SPLITS)
def test_some_packs_hold_no_level_twice(distribution, split):
    keys = keys_of(distribution, split)
    assert len(set(keys)) == len(keys)


def test_a_recipe_with_fewer_levels_than_asked_for_gives_all_of_them(monkeypatch, caplog):
    few = [{"level": str(number)} for number in (3, 1, 2)]
    monkeypatch.setattr(packs, "recipes", lambda: {"few": lambda split: iter(few)})
    with caplog.at_level("INFO", "ragen.instances"):
        files = packs.build()
    assert files["few.test.jsonl"].splitlines() == [
        f'{{"level":"{number}"}}'.encode() for number in (3, 1, 2)
    ]
    assert "few.test: 3 instances, all there are of 1024" in caplog.text


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("distribution", WITH_CHANCES)
def test_chances_of_the_packs_are_exact(distribution, split):
    pack = load_pack(distribution, split)
    for env_id in [each for each in FROZEN if gym.make(each).unwrapped.distribution == distribution]:
        env = gym.make(env_id).unwrapped
        for index in range(0, len(pack), len(pack) // 20):
            env.reset(options={"split": split, "index": index})
            chance = env.random_baseline(USUAL).success
            assert pack[index].facts["chance"] == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("distribution", WITH_CHANCES)
@pytest.mark.parametrize("fact", ["chance", "moves"])
def test_every_quarter_of_a_pack_is_like_the_whole(distribution, split, fact):
    values = np.array([row.facts[fact] for row in load_pack(distribution, split)], float)
    quarters = [quarter.mean() for quarter in np.array_split(values, 4)]
    error = values.std() / np.sqrt(len(values) / 4)
    assert np.abs(np.array(quarters) - values.mean()).max() < 3.5 * error + 1e-6


@pytest.mark.parametrize("distribution", WITH_CHANCES)
def test_splits_are_equally_hard(distribution):
    means = [np.mean([row.facts["chance"] for row in load_pack(distribution, s)]) for s in SPLITS]
    assert max(means) - min(means) < 0.02


SHORT = {"train": 20, "validation": 8, "test": 10}
SHORTEST = {"train": 3, "validation": 1, "test": 2}


@pytest.mark.slow
def test_building_gives_the_shipped_files(monkeypatch, caplog):
    monkeypatch.setattr(packs, "COUNTS", SHORT)
    caplog.set_level("INFO", "ragen.instances")
    files = packs.build()
    assert set(files) == {path.name for path in FOLDER.iterdir()}
    listed = json.loads(files.pop("MANIFEST.json"))
    for name, data in files.items():
        count = SHORT[name.split(".")[-2]]
        shipped = (FOLDER / name).read_bytes().splitlines(keepends=True)
        assert data == b"".join(shipped[:count])
        assert listed[name] == {
            "instances": count, "sha256": hashlib.sha256(data).hexdigest(),
        }  # fmt: skip
    assert "sokoban-8x8-2-depth10.test: 10 instances" in caplog.messages


@pytest.mark.slow
def test_build_check(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(packs, "COUNTS", SHORTEST)
    monkeypatch.setattr(packs, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(sys, "argv", ["packs"])
    assert packs.main() == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    monkeypatch.setattr(sys, "argv", ["packs", "--check"])
    assert packs.main() == 0
    (tmp_path / "made" / "bandit.test.jsonl").unlink()
    (tmp_path / "made" / "sokoban-6x6-1.train.jsonl").write_bytes(b"{}\n")
    capsys.readouterr()
    assert packs.main() == 1
    said = capsys.readouterr().err
    assert "bandit.test.jsonl differs" in said
    assert "sokoban-6x6-1.train.jsonl differs" in said
    assert said.count("differs") == 2
    assert set(made) == {path.name for path in FOLDER.iterdir()}
