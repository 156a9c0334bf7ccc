import gymnasium as gym
import numpy as np
import pytest

from ragen_envs.games.bandit import image as bandit
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.sokoban import SokobanEnv
from ragen_envs.pictures.drawing import GOLD, Canvas
from ragen_envs.pictures.font import measure, shorten, write
from ragen_envs.pictures.tiles import TILE, TileSet
from ragen_envs.registration import GAMES

BOARDS = {game.env_class: game.env_class.tile_set for game in GAMES if game.env_class.tile_set}
GRIDS = pytest.mark.parametrize(
    ("render", "codes"),
    [(tiles.render, len(env.text.vocabularies["standard"])) for env, tiles in BOARDS.items()],
    ids=[env.__name__ for env in BOARDS],
)
PICTURED = [game.id for game in GAMES if "rgb_array" in game.env_class.metadata["render_modes"]]
NAMES = ("Phoenix", "Dragon")
MACHINE = np.s_[:, : bandit.WIDTH // 2], np.s_[:, bandit.WIDTH // 2 :]


def board(*rows):
    return np.array(rows, np.uint8)


def colours(image):
    return {tuple(pixel) for pixel in image.reshape(-1, 3).tolist()}


# ---- boards -----------------------------------------------------------------------------------


@GRIDS
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (6, 6)])
def test_grid_image_is_rgb_of_the_board_size(render, codes, shape):
    image = render(np.zeros(shape, np.uint8))
    assert image.shape == (shape[0] * 48, shape[1] * 48, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous


@GRIDS
@pytest.mark.parametrize("tile", [16, 24, 48])
def test_cell_codes_look_clearly_different(render, codes, tile):
    tiles = render.__self__.draw(tile).astype(int)
    for first in range(codes):
        for second in range(first):
            changed = (abs(tiles[first] - tiles[second]).max(axis=2) > 40).mean()
            assert changed > 0.04, (first, second)


@GRIDS
def test_every_cell_shows_its_own_tile(render, codes):
    cells = np.random.default_rng(0).integers(0, codes, (4, 6)).astype(np.uint8)
    image = render(cells)
    for (row, column), code in np.ndenumerate(cells):
        part = image[row * 48 : row * 48 + 48, column * 48 : column * 48 + 48]
        assert np.array_equal(part, render(board([code])))


@GRIDS
def test_images_are_equal_but_never_shared(render, codes):
    cells = board([0, 1], [2, 3])
    first = render(cells)
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(render(cells), kept)
    assert np.array_equal(cells, board([0, 1], [2, 3]))


@GRIDS
def test_a_board_may_be_a_view(render, codes):
    cells = (np.arange(6, dtype=np.uint8) % codes).reshape(2, 3)
    assert np.array_equal(render(cells.T), render(cells.T.copy()))


@GRIDS
def test_unknown_codes_are_refused(render, codes):
    with pytest.raises(IndexError):
        render(board([codes]))


def test_tiles_are_laid_out_by_code():
    painters = [lambda canvas: None, lambda canvas: canvas.fill(canvas.disc(0.5, 0.5, 0.3), (1, 2, 3))]
    drawn = TileSet(painters, (9, 9, 9))
    tiles = drawn.draw(TILE)
    rows = [np.concatenate([tiles[c] for c in row], axis=1) for row in ((0, 1, 1), (1, 0, 1))]
    expected = np.concatenate(rows, axis=0)
    assert np.array_equal(drawn.render(board([0, 1, 1], [1, 0, 1])), expected)


def test_the_board_games_have_tiles():
    assert {SokobanEnv, FrozenLakeEnv} <= set(BOARDS)


@pytest.mark.slow
@pytest.mark.parametrize("game", PICTURED)
def test_envs_render_rgb_arrays(game):
    env = gym.make(game, render_mode="rgb_array")
    env.reset(seed=3)
    image = env.render()
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert len(colours(image)) > 10


# ---- canvas -----------------------------------------------------------------------------------


def test_edges_are_anti_aliased_and_the_area_is_right():
    canvas = Canvas(40, 40, (0, 0, 0))
    canvas.fill(canvas.disc(20, 20, 15), (200, 200, 200))
    image = canvas.image()
    assert len(colours(image)) > 5
    assert image.mean() * 1600 / 200 == pytest.approx(np.pi * 15**2, rel=0.01)


def test_opacity_mixes_with_what_is_there():
    canvas = Canvas(2, 2, (100, 0, 200))
    canvas.fill(canvas.box(0, 0, 2, 2), (200, 100, 0), 0.25)
    assert colours(canvas.image()) == {(125, 25, 150)}


# ---- bandit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("chosen", "paid"), [(None, None), (0, 0.15), (1, 1.0), (1, 0.0)])
def test_bandit_image_is_rgb_fresh_and_deterministic(chosen, paid):
    first = bandit.render(NAMES, chosen, paid)
    assert first.shape == (bandit.HEIGHT, bandit.WIDTH, 3)
    assert first.dtype == np.uint8
    assert first.flags.c_contiguous
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(bandit.render(NAMES, chosen, paid), kept)


@pytest.mark.parametrize("arm", [0, 1])
def test_a_name_changes_its_own_machine_only(arm):
    other = tuple("Turtle" if i == arm else name for i, name in enumerate(NAMES))
    before, after = bandit.render(NAMES, None, None), bandit.render(other, None, None)
    assert not np.array_equal(before[MACHINE[arm]], after[MACHINE[arm]])
    assert np.array_equal(before[MACHINE[1 - arm]], after[MACHINE[1 - arm]])


def test_the_choice_is_shown_on_both_machines():
    views = [bandit.render(("Same", "Same"), chosen, None) for chosen in (None, 0, 1)]
    assert np.array_equal(views[0][MACHINE[0]], views[0][MACHINE[1]])
    assert np.array_equal(views[1][MACHINE[0]], views[2][MACHINE[1]])
    assert np.array_equal(views[1][MACHINE[1]], views[2][MACHINE[0]])
    assert len({view[MACHINE[0]].tobytes() for view in views}) == 3


def test_payoffs_look_different_and_appear_on_the_pulled_machine():
    paid = [bandit.render(NAMES, 1, value) for value in (0.0, 0.1, 0.15, 1.0, 2.5, -1.0)]
    assert len({view[MACHINE[1]].tobytes() for view in paid}) == len(paid)
    assert len({view[MACHINE[0]].tobytes() for view in paid}) == 1


def test_a_larger_payoff_fills_more_of_the_coin():
    gold = [
        (bandit.render(NAMES, 0, paid)[90:150, 60:125] == GOLD).all(axis=2).sum()
        for paid in (0.0, 0.15, 0.5, 1.0, 9.0)
    ]
    assert gold[0] == 0
    assert gold[0] < gold[1] < gold[2] < gold[3] == gold[4]


@pytest.mark.parametrize("name", ["W" * 12, "W" * 40, "x" * 100_000, "é/漢字 🎰", "i", " "])
def test_any_name_stays_inside_its_sign(name):
    plain, lettered = bandit.render((" ", " "), None, None), bandit.render((name, " "), None, None)
    rows, columns = np.nonzero((plain != lettered).any(axis=2))
    assert all(24 <= row < 60 for row in rows)
    assert all(10 <= column < 174 for column in columns)


def test_twelve_letters_are_never_cut():
    views = [bandit.render(("W" * 11 + last, "b"), None, None) for last in "WM"]
    assert not np.array_equal(*views)


@pytest.mark.parametrize("paid", [1e-7, 123456.0, -1.5e300])
def test_any_payoff_stays_inside_its_tray(paid):
    views = [bandit.render(NAMES, 0, value) for value in (paid, 0.0)]
    rows, columns = np.nonzero((views[0] != views[1]).any(axis=2))
    tray = rows >= 165
    assert all(174 <= row < 206 for row in rows[tray])
    assert all(42 <= column < 142 for column in columns[tray])


# ---- letters ----------------------------------------------------------------------------------

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-+?"


def lettered(text, scale=2, width=300):
    image = np.zeros((40, width, 3), np.uint8)
    write(image, text, width // 2, 20, scale, (255, 255, 255))
    return image


@pytest.mark.parametrize("scale", [1, 2])
def test_glyphs_are_all_different_and_never_blank(scale):
    drawn = {lettered(letter, scale).tobytes() for letter in LETTERS}
    assert len(drawn | {lettered(" ", scale).tobytes()}) == len(LETTERS) + 1


def test_unknown_characters_are_boxes():
    assert np.array_equal(lettered("é"), lettered("漢"))
    assert lettered("é").any()


@pytest.mark.parametrize("text", ["Dragon", "i", "0.15", "Lake Wx"])
@pytest.mark.parametrize("scale", [1, 2, 3])
def test_text_is_centred_and_as_wide_as_measured(text, scale):
    columns = np.nonzero(lettered(text, scale).any(axis=(0, 2)))[0]
    width = measure(text, scale)
    assert width - 2 * scale <= np.ptp(columns) + 1 <= width
    assert abs((columns[0] + columns[-1]) / 2 - 150) <= scale


def test_text_is_cut_only_where_it_must_be():
    assert shorten("Dragon", 2, measure("Dragon", 2)) == "Dragon"
    cut = shorten("Dragon", 2, measure("Dragon", 2) - 1)
    assert cut.endswith("..")
    assert cut[:-2]
    assert "Dragon".startswith(cut[:-2])
    assert measure(cut, 2) < measure("Dragon", 2)
