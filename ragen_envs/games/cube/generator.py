"""Scrambled cubes from a stream: random quarter turns from the solved cube, none undone by the next."""

from typing import Final

from ragen_envs.errors import GenerationError
from ragen_envs.games.cube.dynamics import SOLVED, is_solved, turned
from ragen_envs.games.cube.symmetry import cube_key
from ragen_envs.levels.seeding import advance, below
from ragen_envs.levels.splits import split_of

MAX_ATTEMPTS: Final = 2000


def attempt(scramble: int, stream: int) -> tuple[bytes, int]:
    """Scramble a cube once; return it, which may be solved again, and the advanced stream."""
    stream = advance(stream)
    action = below(stream, 6)
    state = turned(SOLVED, action)
    for _ in range(scramble - 1):
        stream = advance(stream)
        back, pick = action ^ 1, below(stream, 5)
        action = pick + (pick >= back)
        state = turned(state, action)
    return state, stream


def generate(scramble: int, stream: int, split: str) -> tuple[bytes, int]:
    """Scramble cubes until one is not solved and belongs to the split; also return the stream.

    Raises:
        GenerationError: No such cube within ``MAX_ATTEMPTS`` scrambles: a few turns make only a few
            levels, and all of them may belong to other splits.
    """
    for _ in range(MAX_ATTEMPTS):
        state, stream = attempt(scramble, stream)
        if not is_solved(state) and split_of(cube_key(state)) == split:
            return state, stream
    raise GenerationError(
        f"no level of split '{split}' with scramble={scramble} in {MAX_ATTEMPTS} scrambles; "
        "use a larger scramble"
    )
