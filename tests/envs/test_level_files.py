"""Level files of other people: XSB, SOK and Boxoban files of Sokoban, maps of FrozenLake."""

import re

import gymnasium as gym
import numpy as np
import pytest

from ragen_envs.conversation import make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.games.cube import CubeEnv
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.sokoban import SokobanEnv, solve

SOKOBAN, LAKE = "ragen/Sokoban-v0", "ragen/FrozenLake-v0"

XSB = """\
; two rooms, outside floor left blank, one box per target

    #####
    #   ###
    # $   #
  ###   . #
  #  @$ ###
  #   . #
  #######

; more boxes than targets
#######
#@ $ .#
# $   #
#     #
#######
"""
SOK = """\
Title: Dashes for floor
Author: example

#######
#-----#
#-$@$-#
#.---.#
#######

Title: Run lengths

7#|#5-#|#-$@$-#|#.3-.#|7#

Title: On targets
#######
#+--$_#
#--*--#
#-----#
#######
"""
BOXOBAN = "; 0\n##########\n" + "#   ######\n# @$  .###\n" + "##########\n" * 7
TWO_LAKES = "; from the docs\nSFFF\nFHFH\nFFFH\nHFFG\n\nSFG\n"


@pytest.fixture
def write(tmp_path):
    def file(text, name="levels.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return file


def test_sokoban_files(write):
    rooms, spare = SokobanEnv.read_levels(write(XSB))
    assert rooms == "#########/###___###/###_X___#/###___O_#/#__PX_###/#___O_###/#########"
    assert spare == "#######/#P_X_O#/#_X___#/#_____#/#######"
    dashes, runs, on_targets = SokobanEnv.read_levels(str(write(SOK)))
    assert dashes == runs == "#######/#_____#/#_XPX_#/#O___O#/#######"
    assert on_targets == "#######/#S__X_#/#__+__#/#_____#/#######"
    (boxoban,) = SokobanEnv.read_levels(write(BOXOBAN))
    assert boxoban.splitlines() == ["/".join(["#" * 10, "#___######", "#_PX__O###"] + ["#" * 10] * 7)]


def test_lake_files(write):
    first, second = FrozenLakeEnv.read_levels(write(TWO_LAKES))
    assert first == "P___/_O_O/___O/O__G"
    assert second == "P_G"


@pytest.mark.parametrize(
    ("game", "text", "number", "reason"),
    [
        (SokobanEnv, "#####\n#@$.\n#####\n", 0, "the walls do not enclose the player"),
        (
            SokobanEnv,
            XSB + "\n#####\n#@ $#\n#####\n",
            2,
            "1 boxes and 0 targets, but needs one player",
        ),
        (SokobanEnv, "#####\n#@*##\n#####\n", 0, "it is solved already"),
        (SokobanEnv, "######\n#@x$.#\n######\n", 0, "unknown symbol 'x'"),
        (SokobanEnv, "999#|#@$.#|5#\n", 0, "at most 128 a side"),
        (SokobanEnv, "#####\n# $.#\n#####\n", 0, "0 players"),
        (FrozenLakeEnv, TWO_LAKES + "\nSFG\nFF\n", 2, "rows of equal length"),
        (FrozenLakeEnv, "FFG\n", 0, "one start (S) and a goal"),
        (FrozenLakeEnv, "SXG\n", 0, "unknown symbol 'X'"),
    ],
)
def test_a_bad_file_gets_one_line(write, game, text, number, reason):
    path = write(text)
    with pytest.raises(InstanceError, match=re.escape(reason)) as error:
        game.read_levels(path)
    assert str(error.value).startswith(f"levels '{path}', index {number}: ")
    assert "\n" not in str(error.value)


def test_files_without_levels(write, tmp_path):
    with pytest.raises(InstanceError, match="has no level"):
        SokobanEnv.read_levels(write("; nothing\n"))
    with pytest.raises(InstanceError, match=r"nowhere\.xsb' cannot be read: No such file"):
        gym.make(SOKOBAN, levels=tmp_path / "nowhere.xsb")
    binary = tmp_path / "binary.xsb"
    binary.write_bytes(b"\xff\xfe\x00#")
    with pytest.raises(InstanceError, match="not a text file"):
        SokobanEnv.read_levels(binary)


def test_levels_by_index_and_by_seed(write):
    path = str(write(XSB))
    env = gym.make(SOKOBAN, levels=path)
    board, _ = env.reset(options={"index": 1})
    assert board.shape == env.observation_space.shape == (7, 9)
    assert not board[5:].any()  # walls
    assert not board[:, 7:].any()
    assert env.unwrapped.instance.level == SokobanEnv.read_levels(path)[1]
    seen = {env.reset(seed=seed)[1] and env.unwrapped.instance.level for seed in range(8)}
    assert len(seen) == 2
    assert env.unwrapped.picture().shape[1] > 0
    with pytest.raises(InstanceError, match="index is 2, but levels has instances 0 to 1"):
        env.reset(options={"index": 2})
    talk = make("ragen/SokobanText-v0", levels=path)
    prompt, _ = talk.reset(options={"index": 1})
    assert "#######\n#P_X_O#\n#_X___#\n" in prompt
    assert "Push a box onto every target, no matter where the other boxes are" in prompt
    assert "when every target has a box" in prompt
    assert "the other boxes are" not in talk.reset(options={"index": 0})[0]


def test_spare_boxes_are_left(write):
    env = SokobanEnv(levels=[SokobanEnv.read_levels(write(XSB))[1]])
    env.reset(seed=0)
    while not env.success:
        *_, terminated, _, info = env.step(env.oracle().action)
    assert terminated
    assert info["boxes_on_target"] == 1


def test_a_spare_box_in_a_corner_does_not_matter():
    level = ["########", "#X__PXO#", "########"]
    env = SokobanEnv(level=level)
    env.reset()
    assert solve(env.board) == (3,)
    assert env.random_baseline(1).success == 0.25
    assert env.step(3)[2]


def test_long_corridors():
    level = "#" * 102 + "/#PX" + "_" * 97 + "O#/" + "#" * 102
    rows = [*map("/".join, zip(*level.split("/"), strict=True))]
    upright = "/".join(row.replace("/", "") for row in rows)
    env = SokobanEnv(levels=[level, upright])
    keys = {env.reset(options={"index": i})[1] and env.instance.key for i in (0, 1)}
    assert len(keys) == 1
    assert env.oracle().value == 1.0
    assert env.oracle(97).value == 0.0
    assert len(solve(env.board)) == 98


def test_vector_envs_take_lakes_of_one_size():
    with pytest.raises(RagenError, match="one size"):
        gym.make_vec(LAKE, num_envs=2, levels=["P_G", "P__G"])
    envs = gym.make_vec(LAKE, num_envs=2, levels=["P_G", "G_P"])
    first, _ = envs.reset(options={"index": np.array([0, 1])})
    np.testing.assert_array_equal(first[0], first[1][:, ::-1])


def test_demonstrations_are_other_levels():
    level = "######/#P_X_#/#___O#/#____#/######"
    talk = make("ragen/SokobanText-v0", levels=[level, level], demonstrations=2)
    talk.reset(options={"index": 0})
    assert len(talk.examples) == 2
    assert level not in {example.instance.level for example in talk.examples}


def test_a_game_without_level_files():
    with pytest.raises(InstanceError, match="CubeEnv reads no level files"):
        CubeEnv.read_levels("cubes.txt")


@pytest.mark.parametrize(
    ("game", "levels"),
    [
        ("Sokoban", ["######/#_O###/#___##/#_X_##/##P__#/######",
                     "########/#______#/#_O_XO_#/#__X___#/#______#/#P_____#/########"]),
        ("FrozenLake", ["P_G", "P___/_O_G/____"]),
    ],
)  # fmt: skip
def test_worked_examples_do_not_depend_on_the_level_before(game, levels):
    told = []
    for before in (0, 1):
        talk = make(f"ragen/{game}Text-v0", levels=levels, demonstrations=1)
        talk.reset(options={"index": before})
        talk.reset(options={"index": 0})
        told.append(talk.messages)
    assert told[0] == told[1]


def test_errors_show_a_map_in_the_letters_that_it_was_given_in():
    with pytest.raises(InstanceError, match=r"level 'SFF/FG' must be rows of equal length .* SFHG"):
        gym.make(LAKE, level=["SFF", "FG"])
    with pytest.raises(InstanceError, match=r"level 'FG' needs one start \(S\)"):
        gym.make(LAKE, level=["FG"])
