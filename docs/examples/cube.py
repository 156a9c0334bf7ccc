"""A game added from outside the suite: the 2x2x2 cube, scrambled by a few quarter turns."""

import zlib
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, SupportsInt

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs import GameSpec, register_game
from ragen_envs.base import GameEnv, read_action
from ragen_envs.oracle import Advice, Budget, as_budget
from ragen_envs.seeding import STREAM_MASK, advance, below
from ragen_envs.splits import split_of

FACES = "LRDUBF"  # along x, y and z, the negative side first; also the names of the colors
NAMES = ("R+", "R-", "U+", "U-", "F+", "F-")
SOLVED = "".join(4 * face for face in FACES)


def turns() -> tuple[tuple[int, ...], ...]:
    """Return each action as a permutation of the 24 stickers, from the geometry of the cube."""
    corners = list(product((-1, 1), repeat=3))
    places = [(c, f) for f in range(6) for c in corners if c[f // 2] == 2 * (f % 2) - 1]
    found = []
    for axis in range(3):
        turn = list(range(24))
        for number, (corner, face) in enumerate(places):
            if corner[axis] == 1:  # this sticker comes from a quarter turn away
                a, b = (axis + 1) % 3, (axis + 2) % 3
                came = list(corner)
                came[a], came[b] = corner[b], -corner[a]
                sides = {axis: face, a: 2 * b + 1 - face % 2, b: 2 * a + face % 2}
                turn[number] = places.index((tuple(came), sides[face // 2]))
        back = sorted(range(24), key=turn.__getitem__)
        found += [tuple(turn), tuple(back)]
    return tuple(found)


TURNS = turns()


def turned(state: str, action: int) -> str:
    """Return the stickers after one action."""
    return "".join(map(state.__getitem__, TURNS[action]))


@lru_cache(maxsize=256)
def ball(center: str, radius: int) -> dict[str, tuple[int, ...]]:
    """Return every state within some turns of a state, with the turns that lead there."""
    found, layer = {center: ()}, [center]
    for _ in range(radius):
        following = []
        for state, action in product(layer, range(6)):
            there = turned(state, action)
            if there not in found:
                found[there] = (*found[state], action)
                following.append(there)
        layer = following
    return found


def solution(state: str, limit: int) -> tuple[int, ...] | None:
    """Return the shortest solution within a limit, by search from both ends."""
    known = ball(SOLVED, min(limit, 6))
    ahead = ball(state, max(limit - 6, 0)) if state not in known else {state: ()}
    plans = [(*way, *(a ^ 1 for a in reversed(known[s]))) for s, way in ahead.items() if s in known]
    return min(plans, key=len, default=None)


class CubeText:
    """The words of the game."""

    vocabularies: ClassVar = {"standard": {}}

    def rules(self, env: Any) -> str:
        return (
            "You turn a 2x2x2 cube until each face has one color. R+, U+ and F+ turn the right, upper "
            "and front face by a quarter, R-, U- and F- turn it back. Rewards: 1 when solved, else 0."
        )

    def legend(self, symbols: Any) -> str:
        return ""

    def actions(self, env: Any) -> tuple[str, ...]:
        return NAMES

    def observation(self, env: Any, form: str, symbols: Any) -> str:
        return "\n".join(f"{f}: {env.state[4 * i : 4 * i + 4]}" for i, f in enumerate(FACES))


class CubeEnv(GameEnv[NDArray[np.int64]]):
    """Turn a 2x2x2 cube until each face has one color; the observation is the 24 colors."""

    metadata: ClassVar = {"render_modes": ["ansi"], "render_fps": 4}
    text = CubeText()
    numbered = True

    def __init__(self, scramble: int = 5, render_mode: str | None = None) -> None:
        self.scramble = scramble
        self.render_mode = render_mode
        self.distribution = f"cube-{scramble}"
        self.observation_space = spaces.MultiDiscrete([6] * 24)
        self.action_space = spaces.Discrete(6)

    def act(self, action: SupportsInt) -> tuple[float, bool, bool]:
        self.state = turned(self.state, read_action(action, NAMES))
        done = self.state == SOLVED
        return float(done), done, True

    def render(self) -> str:
        return self.text.observation(self, "grid", {})

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        left = as_budget(10 if budget is None else budget)
        plan = solution(self.state, min(left.reach, 10))
        value = float(plan is not None)
        return Advice((plan or ())[: left.actions_per_turn], value, value if plan else 0.0)

    def level_key(self, level: str) -> int:
        return zlib.crc32(level.encode()) * 0x9E3779B97F4A7C15 & STREAM_MASK

    def _draw_level(self, stream: int, split: str) -> int:
        self._load(SOLVED)
        while self.start == SOLVED or split_of(self.level_key(self.start)) != split:
            self._load(SOLVED)
            for _ in range(self.scramble):
                stream = advance(stream)
                self._load(turned(self.start, below(stream, 6)))
        return stream

    def _load(self, level: str) -> None:
        self.start = self.state = level

    def _level(self) -> str:
        return self.start

    def _observe(self) -> NDArray[np.int64]:
        return np.array([FACES.index(color) for color in self.state])

    def _info(self, effective: bool) -> dict[str, Any]:
        done = self.state == SOLVED
        return {"success": done, "action_is_valid": True, "action_is_effective": effective}


GAME = GameSpec("Cube", "cube:CubeEnv", None, "solve a 2x2x2 cube", 100, namespace="mine")
register_game(GAME)
