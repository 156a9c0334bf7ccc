"""Sokoban in words: symbols, rules, board and coordinates, and the text form of levels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import (
    CELL,
    MOVE,
    Cell,
    Claim,
    cells_of,
    listed,
    made,
    read_places,
    read_solved,
    read_steps,
)
from ragen_envs.game.grids import BoardText, cells_with, places_text, rewards_text
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import Symbols, countdown
from ragen_envs.games.sokoban.dynamics import (
    ACTION_NAMES,
    BOX,
    BOX_ON_TARGET,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    Reward,
    move,
    offsets,
)  # fmt: skip

MAX_SIDE: Final = 128
"""Most rows and columns of a level; the generator's rooms have at most ``level_key.SIDE``."""
MAX_BOXES: Final = 100
"""Most boxes of a level; the keys of the searches' states are sums over boxes that must fit 63 bits."""

CELL_NAMES: Final = (
    "wall", "empty", "target", "box on target", "box", "player", "player on target",
)  # fmt: skip
"""Names of the cell codes, in their order."""

STANDARD: Final = dict(zip(CELL_NAMES, "#_O√XPS", strict=True))
NEW_VOCAB: Final = dict(zip(CELL_NAMES, "W.GCBA@", strict=True))

UNLISTED: Final = "The border is wall and not listed; other cells not listed are empty."

PIECES: Final = {
    "player": (PLAYER, PLAYER_ON_TARGET),
    "box": (BOX, BOX_ON_TARGET),
    "target": (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET),
}
"""The cell codes of each kind of thing."""
_DECODE: Final = bytes.maketrans(b"#_O+XPS", bytes(range(7)))
_XSB: Final = str.maketrans("-_ .*$@+", "___O+XPS")
_RUN: Final = re.compile(r"(\d+)([^\d|])")
_OUTCOME: Final = (
    rf"\s*(?:is )?blocked|(?:\s|->|=>|:|\bto\b|leads to|moves?|player)*{CELL}"
    rf"(?:(?:\s|,|;|and|the)*box(?:\s|:|\bto\b|at|is|moves?)*{CELL})?"
)


class SokobanText(BoardText):
    """The text face of Sokoban."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD, "new_vocab": NEW_VOCAB}
    cell_names = CELL_NAMES

    def rules(self, env: Any) -> str:
        goal, solved = goal_of(env.boxes, env.targets)
        return (
            f"You are playing Sokoban. {goal}; then the game ends. Each action "
            "moves you one cell. Moving into a box pushes it if the cell behind it is free (no wall "
            "or box); you cannot pull boxes. A blocked move changes nothing but still counts as an action. "
            f"{rewards_text(reward_terms(env.reward, 'action', solved))}"
        )

    def cells(self, env: Any) -> tuple[bytes, int]:
        return env.cells, env.width

    def coordinates(self, env: Any) -> str:
        cells, height, width = env.cells, env.height, env.width
        places = {name: cells_with(cells, *codes) for name, codes in PIECES.items()}
        places["wall"] = inner_walls(cells, height, width)
        return places_text(places, height, width, UNLISTED)

    def explain(self, env: Any, actions: Sequence[int], budget: Budget) -> str:
        """State where things are, then where each move leads; the moves are counted down."""
        width, cells = env.width, bytearray(env.cells)
        seen = _things(cells, width)
        lists = " ".join(f"{name.capitalize()} {listed(places)}." for name, places in seen.items())
        parts = [f"Places as row column. {lists} {countdown(budget)}"]
        for left, action in zip(range(budget.this_turn, 0, -1), actions, strict=False):
            parts.append(f"{left} {ACTION_NAMES[action]} {_outcome(*_moved(cells, width, action))}.")
        if not open_targets(cells):
            parts.append("Solved.")
        return " ".join(parts)

    def claims(self, env: Any, thought: str, executed: Sequence[int], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about player, boxes and targets, about each move, and "Solved"."""
        width, cells = env.width, bytearray(env.cells)
        claims = [*read_places(thought, _things(cells, width))]
        steps = [*read_steps(thought, names, _OUTCOME)]
        for match, action in steps:
            player, box = _moved(cells, width, action) if open_targets(cells) else (None, None)
            stated, true = cells_of(match["said"] or ""), None
            if stated:
                true = stated[0] == (player or _player(cells, width)) and stated[1:] in ([], [box])
            elif match["said"]:
                true = player is None
            fact = f"{names[action]} {_outcome(player, box)}"
            claims.append(made(MOVE, match, true, fact, action))
        final = bytearray(env.cells)
        for action in executed:
            _moved(final, width, action)
        solved = not open_targets(cells if steps else final)
        return [*claims, *read_solved(thought, solved)]


def _things(cells: bytearray, width: int) -> dict[str, list[Cell]]:
    """Return the places of what a thought names."""
    return {name: [divmod(i, width) for i in cells_with(cells, *codes)] for name, codes in PIECES.items()}


def _player(cells: bytearray, width: int) -> Cell:
    return divmod(max(cells.find(PLAYER), cells.find(PLAYER_ON_TARGET)), width)


def _moved(cells: bytearray, width: int, action: int) -> tuple[Cell | None, Cell | None]:
    """Play an action, and return where the player went and where a box was pushed, if any."""
    offset = offsets(width)[action]
    row, column = _player(cells, width)
    player, moved, pushed, _ = move(cells, row * width + column, offset)
    return (divmod(player, width) if moved else None, divmod(pushed + offset, width) if pushed else None)


def _outcome(player: Cell | None, box: Cell | None) -> str:
    """Describe the outcome of a move, in the words of a thought."""
    if player is None:
        return "blocked"
    return f"to {listed([player])}" + (f", box to {listed([box])}" if box else "")


def goal_of(boxes: int, targets: int) -> tuple[str, str]:
    """Return what to do on a level, and when it is solved."""
    if boxes > targets:
        return "Push a box onto every target, no matter where the other boxes are", "every target has a box"
    return "Push every box onto a target", "every box is on a target"


def inner_walls(cells: bytes | bytearray, height: int, width: int) -> list[int]:
    """Return the indices of walls, without those of the border."""
    inner = [row * width + column for row in range(1, height - 1) for column in range(1, width - 1)]
    return [i for i in inner if cells[i] == WALL]


def reward_terms(reward: Reward, unit: str, solved: str) -> list[tuple[float, str]]:
    """Return each amount that is paid, with what it is paid for.

    Args:
        reward: What is paid.
        unit: What ``per_action`` is paid for.
        solved: When the level is solved.
    """
    on, off = "for pushing a box onto a target", "for pushing a box off a target"
    if reward.box_on != -reward.box_off:  # a push from target to target pays nothing
        on, off = "when one more box is on a target", "when one fewer box is on a target"
    return [
        (reward.per_action, f"for every {unit}"),
        (reward.box_on, on),
        (reward.box_off, off),
        (reward.solved, f"when {solved}"),
    ]


def open_targets(board: bytes | bytearray) -> int:
    """Return the number of targets without a box."""
    return board.count(TARGET) + board.count(PLAYER_ON_TARGET)


def encode_level(board: bytes | bytearray, width: int) -> str:
    """Return the text form of a board: rows of ``#_O+XPS`` (+ is a box on a target), joined by /."""
    text = "".join("#_O+XPS"[cell] for cell in board)
    return "/".join(text[i : i + width] for i in range(0, len(text), width))


@lru_cache(maxsize=8192)
def decode_level(level: str) -> tuple[bytes, int, int]:
    """Return cell codes (h*w,), height and width of a level in text form; √ may stand for +.

    Raises:
        InstanceError: Rows differ in length or are too many, the border is not wall, the pieces do
            not make a level, or it is solved already.
    """
    rows = level.replace("√", "+").split("/")
    height, width = len(rows), len(rows[0])
    if not width or any(len(row) != width for row in rows) or set("".join(rows)) - set("#_O+XPS"):
        raise InstanceError(f"level {level!r} must be rows of equal length of the symbols #_O√XPS")
    board = "".join(rows).encode().translate(_DECODE)
    if max(height, width) > MAX_SIDE:
        raise InstanceError(f"level {level!r} is {height}x{width}, but at most {MAX_SIDE} a side")
    border = [*rows[0], *rows[-1], *(row[0] + row[-1] for row in rows)]
    if set("".join(border)) != {"#"}:
        raise InstanceError(f"level {level!r} must be bordered by walls (#)")
    boxes = board.count(BOX) + board.count(BOX_ON_TARGET)
    left = open_targets(board)
    targets = left + board.count(BOX_ON_TARGET)
    players = board.count(PLAYER) + board.count(PLAYER_ON_TARGET)
    if players != 1 or not 0 < targets <= boxes <= MAX_BOXES:
        raise InstanceError(
            f"level {level!r} has {players} players, {boxes} boxes and {targets} targets, but needs "
            f"one player, at least one target, and as many boxes as targets or more, at most {MAX_BOXES}"
        )
    if not left:
        raise InstanceError(f"level {level!r} is solved already")
    return board, height, width


def is_file_row(line: str) -> bool:
    """Return whether a line of a level file is a row, or several in run lengths, of a level."""
    return "#" in line and line.strip()[0] in "#0123456789@+$*.-_" and ":" not in line


def read_file_rows(rows: Sequence[str]) -> str:
    """Return the text form of a level from the rows of a file; floor that is out of reach becomes wall.

    Raises:
        InstanceError: They are not a level.
    """
    spread = [_RUN.sub(lambda run: min(int(run[1]), MAX_SIDE + 1) * run[2], row) for row in rows]
    lines = [line for row in spread for line in row.split("|")]
    if strange := sorted(set("".join(lines)) - set("#-_ .*$@+")):
        raise InstanceError(f"unknown symbol {strange[0]!r}; known are # @ + $ * . and space, - or _")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    width = max(map(len, lines)) - indent
    height = len(lines)
    if max(height, width) > MAX_SIDE:
        raise InstanceError(f"it is {height}x{width}, but a level has at most {MAX_SIDE} a side")
    cells = [*"".join(line[indent:].ljust(width) for line in lines).translate(_XSB)]
    reached = [cell for cell, sign in enumerate(cells) if sign in "PS"]
    seen = set(reached)
    for cell in reached:
        row, column = divmod(cell, width)
        if row in (0, height - 1) or column in (0, width - 1):
            raise InstanceError("the walls do not enclose the player")
        for beside in (cell - width, cell + width, cell - 1, cell + 1):
            if cells[beside] != "#" and beside not in seen:
                seen.add(beside)
                reached.append(beside)
    signs = ["#" if s == "_" and i not in seen else s for i, s in enumerate(cells)]
    level = "/".join("".join(signs[i : i + width]) for i in range(0, len(signs), width))
    try:
        decode_level(level)
    except InstanceError as error:
        raise InstanceError(str(error).replace(f"level {level!r}", "it")) from None
    return level


CORRIDORS: Final = "corridors"
"""Name of the built-in levels, in place of a file."""


def corridors() -> Iterator[str]:
    """Yield the levels of SokoBench (Monti et al. 2026, arXiv 2601.20856): corridors of 5 to 100 cells.

    In each, the player pushes the box beside it to the other end. First come those that lead to the right,
    then those that lead down, to the left and up: the shortest solution has two moves fewer than cells.
    """
    for turn in range(4):
        for length in range(5, 101, 5):
            inner = "PX" + "_" * (length - 3) + "O"
            wall = "#" * (length + 2)
            rows = [wall, f"#{inner if turn < 2 else inner[::-1]}#", wall]
            if turn % 2:
                rows = ["".join(column) for column in zip(*rows, strict=True)]
            yield "/".join(rows)
