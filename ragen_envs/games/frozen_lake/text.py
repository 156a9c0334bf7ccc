"""FrozenLake in words: symbols, rules, board and coordinates, and the text form of levels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import (
    CELL,
    END,
    MOVE,
    Cell,
    Claim,
    cells_of,
    listed,
    made,
    read_places,
    read_steps,
)
from ragen_envs.game.grids import BoardText, cells_with, places_text
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import Symbols, countdown
from ragen_envs.games.frozen_lake.dynamics import ACTION_NAMES, GOAL, HOLE, walk

MAX_SIDE: Final = 16
"""Most rows and columns of a level."""

CELL_NAMES: Final = (
    "frozen", "hole", "goal", "player", "player in hole", "player on goal",
)  # fmt: skip
"""Names of the cell codes, in their order."""

STANDARD: Final = dict(zip(CELL_NAMES, "_OGPX√", strict=True))

_ENDS: Final = {GOAL: ", the goal", HOLE: ", a hole"}
_END: Final = re.compile(r"[\s,(:]*(?:the |a |into the |into a )?(goal|hole)\b", re.IGNORECASE)
_OUTCOME: Final = (
    rf"(?:\s|->|=>|:|\bto\b|leads to|moves?|(?P<stays>stays)|at|player)*{CELL}"
    rf"(?:,?\s*(?:slips to|or)\s*{CELL})*"
)


class FrozenLakeText(BoardText):
    """The text face of FrozenLake."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}
    cell_names = CELL_NAMES

    def rules(self, env: Any) -> str:
        return (
            "You are playing FrozenLake. Reach the goal and avoid the holes. Each action moves you one "
            f"tile. {ice_text(env.success_rate)} A move off the edge leaves you where you are but "
            "still counts as an action. The goal and the holes end the game. "
            "Rewards: 1 at the goal, otherwise 0."
        )

    def cells(self, env: Any) -> tuple[bytes, int]:
        return env.cells, env.width

    def coordinates(self, env: Any) -> str:
        goals, holes = cells_with(env.tiles, GOAL), cells_with(env.tiles, HOLE)
        places = {"player": [env.position], "goal": goals, "hole": holes}
        return places_text(places, env.height, env.width, "Tiles not listed are frozen.")

    def claims(self, env: Any, thought: str, executed: Sequence[int], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about player, goal and holes, and about each move.

        On slippery ice, a claim names all places to which the moves up to there may have led.
        """
        claims = [*read_places(thought, _things(env))]
        places = [env.position]
        for match, action in read_steps(thought, names, _OUTCOME):
            before, places = places, _led(env, places, action)
            stated, real = cells_of(match["said"] or ""), [divmod(p, env.width) for p in places]
            true = None
            if stated:  # the intended place is told before those of slips
                true = sorted(stated) == sorted(real) if len(before) == 1 else set(stated) == set(real)
                true = true and (stated[0] == real[0] or len(before) > 1)
                true = true and (match["stays"] is None or places == before)
            fact = f"{names[action]} to {listed(real, ' or ')}"
            claims.append(made(MOVE, match, true, fact, action))
            ending = _END.match(thought, match.end())
            if stated and ending is not None:
                tiles = {env.tiles[place] for place in places}
                fact = " or ".join(sorted(CELL_NAMES[tile] for tile in tiles))
                true = tiles == {GOAL if ending[1].casefold() == "goal" else HOLE}
                claims.append(made(END, ending, true, fact))
        return claims

    def explain(self, env: Any, actions: Sequence[int], budget: Budget) -> str:
        """State where things are, then the moves, counted down, and where each leads.

        On slippery ice that is known of the first move only: three places.
        """
        things = _things(env)
        steps = _slippery_steps if env.success_rate < 1 else _sure_steps
        parts = [
            f"Places as row column. Player {listed(things['player'])}. Goal {listed(things['goal'])}.",
            f"Hole {listed(things['hole'])}." if things["hole"] else "No hole.",
            countdown(budget),
        ]
        for left, step in zip(range(budget.this_turn, 0, -1), steps(env, actions), strict=False):
            parts.append(f"{left} {step}.")
        return " ".join(parts)


def _things(env: Any) -> dict[str, list[Cell]]:
    """Return the places of what a thought names."""
    cells = {
        "player": [env.position],
        "goal": cells_with(env.tiles, GOAL),
        "hole": cells_with(env.tiles, HOLE),
    }
    return {name: [divmod(cell, env.width) for cell in some] for name, some in cells.items()}


def _led(env: Any, places: Sequence[int], action: int) -> list[int]:
    """Return the cells to which an action may lead, the intended one first, without repeats."""
    slips = (0,) if env.success_rate == 1 else (0, 3, 1)
    ahead = [
        walk(place, (action + slip) % 4, env.height, env.width) if env.tiles[place] not in _ENDS else place
        for slip in slips
        for place in places
    ]
    return ahead if len(places) == 1 else [*dict.fromkeys(ahead)]


def ice_text(success_rate: float) -> str:
    """Return the sentence about slipping, with probabilities that add up to 1."""
    if success_rate == 1:
        return "The ice is not slippery: you always move in the chosen direction."
    ahead, side = _probabilities(success_rate)
    return (
        f"The ice is slippery: you move in the chosen direction with probability {ahead}, 90 degrees "
        f"to its left with probability {side} and to its right with probability {side}."
    )


@lru_cache(maxsize=64)
def _probabilities(success_rate: float) -> tuple[str, str]:
    """Return the chances to move as intended and to each side: fractions, or decimals of 6 places."""
    ahead = Fraction(success_rate).limit_denominator(12)
    if ahead.denominator % 3 == 0 and abs(ahead - success_rate) < 1e-9:
        return str(ahead), str((1 - ahead) / 2)
    rounded = round(Decimal(success_rate), 6)
    return f"{rounded.normalize():f}", f"{((1 - rounded) / 2).normalize():f}"


def _sure_steps(env: Any, actions: Sequence[int]) -> Iterator[str]:
    """Yield each move with the cell that it leads to, until one ends the game."""
    position = env.position
    for action in actions:
        before, position = position, walk(position, action, env.height, env.width)
        way = "to" if position != before else "stays at"
        end = _ENDS.get(env.tiles[position], "")
        yield f"{ACTION_NAMES[action]} {way} {listed([divmod(position, env.width)])}{end}"
        if end:
            return


def _slippery_steps(env: Any, actions: Sequence[int]) -> Iterator[str]:
    """Yield each move, the first with the cells to which it may lead."""
    ahead, left, right = (listed([divmod(cell, env.width)]) for cell in _led(env, [env.position], actions[0]))
    yield f"{ACTION_NAMES[actions[0]]} to {ahead}, slips to {left} or {right}"
    yield from (ACTION_NAMES[action] for action in actions[1:])


def encode_level(tiles: bytes | bytearray, width: int, start: int) -> str:
    """Return the text form of a map: rows of ``_OGP`` (P is the start), joined by /."""
    signs = ["_OG"[tile] for tile in tiles]
    signs[start] = "P"
    return "/".join("".join(signs[i : i + width]) for i in range(0, len(signs), width))


@lru_cache(maxsize=8192)
def decode_level(level: str) -> tuple[bytes, int, int, int]:
    """Return tiles (h*w,), height, width and start of a level in text form.

    Gymnasium's letters are understood too: S start, F frozen, H hole, G goal.

    Raises:
        InstanceError: Rows differ in length or are too many, or there is not one start and at
            least one goal.
    """
    signs, rows = "_OGP", level.split("/")
    if set(level) <= set("SFHG/"):
        signs, rows = "SFHG", level.translate(str.maketrans("SFH", "P_O")).split("/")
    height, width = len(rows), len(rows[0])
    cells = "".join(rows)
    if any(len(row) != width for row in rows) or set(cells) - set("_OGP"):
        raise InstanceError(f"level {level!r} must be rows of equal length of the symbols {signs}")
    if max(height, width) > MAX_SIDE:
        raise InstanceError(f"level {level!r} is {height}x{width}, but at most {MAX_SIDE} a side")
    if cells.count("P") != 1 or "G" not in cells:
        raise InstanceError(
            f"level {level!r} needs one start ({'S' if 'S' in signs else 'P'}) and a goal (G)"
        )
    tiles = bytes("_OG".index(c) if c != "P" else 0 for c in cells)
    return tiles, height, width, cells.index("P")


def is_file_row(line: str) -> bool:
    """Return whether a line of a level file is a row of a map."""
    return bool(line.strip()) and line.lstrip()[0] != ";" and ":" not in line


def read_file_rows(rows: Sequence[str]) -> str:
    """Return the text form of a map from the rows of a file.

    Raises:
        InstanceError: They are not a map.
    """
    level = "/".join(row.strip() for row in rows)
    if strange := sorted(set(level) - set("SFHG/_OP")):
        raise InstanceError(f"unknown symbol {strange[0]!r}; known are S F H G")
    try:
        tiles, _, width, start = decode_level(level)
    except InstanceError as error:
        raise InstanceError(str(error).replace(f"level {level!r}", "it")) from None
    return encode_level(tiles, width, start)
