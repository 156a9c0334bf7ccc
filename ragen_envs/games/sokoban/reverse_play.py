"""Reverse play: pull the boxes of a solved Sokoban room away from their targets.

A depth-first search from the solved state visits each state once and keeps the first state that
maximises (changes of the pulled box) x (sum of the boxes' Manhattan distances to where they began), with
nothing on a target. Every level is solvable, because each pull can be undone by a push. A ``Law`` says
which steps the search has, what a change of box is, and how far it goes. Plain integer code on the
buffers it is given, so that it runs the same when compiled.
"""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, Final, NamedTuple

from ragen_envs.games.sokoban.dynamics import FLOOR, TARGET, WALL
from ragen_envs.games.sokoban.laws import Law
from ragen_envs.levels.seeding import STREAM_MASK, advance, below, word

WALK: Final = 1 << 31
"""The player takes a step when its word is below this: probability 0.5."""
WALK_FROM_NEAR: Final = 3435973837
"""Bound for the first step when a single box was pulled by one cell: probability 0.8."""
MOST_STEPS: Final = 3
"""The player walks at most so far at the end."""
NOTES: Final = 8
"""Items of the trail for each depth: how many choices were tried, the last step, the box that it pulled or
-1, and what such a pull changed: key, boxes on targets, distance, changes of box, the box pulled before."""

Ints = MutableSequence[int]


class Scratch(NamedTuple):
    """Buffers of a search, which leaves ``pulls``, ``occupied`` and ``table`` as they were: all zero."""

    origin: Ints
    """Indices of the targets, one a box."""
    now: Ints
    """Indices of the boxes, one a box."""
    best: Ints
    """Receives the boxes' indices of the best state."""
    pulls: Ints
    """Number of pulls of each box on the way to the present state."""
    occupied: Ints
    """One item a cell: 1 + the number of the box here, or 0."""
    table: Ints
    """The visited states, a hash table with a power of two of slots."""
    trail: Ints
    """``NOTES`` items for each depth, then the slots in use."""
    stack: Ints
    seen: Ints
    """One item a cell, for ``room_key``."""


def scratch(size: int, boxes: int, law: Law, make: Callable[[int], Any]) -> Scratch:
    """Return the buffers for rooms of ``size`` cells, made of zeros by ``make(length)``."""
    slots = 2
    while slots < 2 * law.nodes + 3:
        slots *= 2
    trail = NOTES * (law.depth + 2) + law.nodes + 1
    return Scratch(*map(make, (boxes, boxes, boxes, boxes, size, slots, trail, size, size)))


def reverse_play(
    board: Ints, width: int, boxes: int, start: int, law: Law, weights: Sequence[int], buffers: Scratch
) -> int:  # fmt: skip
    """Search backwards from the solved state; return the player's index in the best state, or 0.

    The board has walls, floor and targets only and is not changed; ``weights`` are one hash weight a cell.
    ``buffers``, with ``origin`` filled, receive ``best``.
    """
    origin, now, best, pulls, occupied, table, trail, _, _ = buffers
    off = (-width, width, -1, 1)
    choices = 4 if law.ragen else 8
    key = 0
    for b in range(boxes):
        now[b] = origin[b]
        occupied[origin[b]] = b + 1
        key += weights[origin[b]]
    player = start
    on_target = boxes
    distance = 0
    swaps = 0
    last = -1
    best_score = 0
    best_player = 0
    nodes = 1
    depth = 0
    trail[0] = 0
    used = NOTES * (law.depth + 2)
    trail[used] = first_visit(table, ((key + 3 * weights[player]) & STREAM_MASK) | 1)
    while depth >= 0:
        top = NOTES * depth
        choice = trail[top]
        if choice == choices or depth == law.depth or nodes >= law.nodes:
            if depth > 0:
                step = trail[top + 1]
                pulled = trail[top + 2]
                if pulled >= 0:
                    here = now[pulled]
                    occupied[here] = 0
                    occupied[here - step] = pulled + 1
                    now[pulled] = here - step
                    pulls[pulled] -= 1
                    key = trail[top + 3]
                    on_target = trail[top + 4]
                    distance = trail[top + 5]
                    swaps = trail[top + 6]
                    last = trail[top + 7]
                player -= step
            depth -= 1
            continue
        trail[top] = choice + 1
        step = off[choice & 3]
        ahead = player + step
        if board[ahead] == WALL or occupied[ahead] != 0:
            continue
        behind = player - step
        pulled = occupied[behind] - 1 if choice < 4 else -1
        moved = key
        if pulled >= 0:
            moved -= _box_key(board, behind, weights, pulls[pulled])
            moved += _box_key(board, player, weights, 1)
        slot = first_visit(table, ((moved + 3 * weights[ahead]) & STREAM_MASK) | 1)
        if slot < 0:
            continue
        trail[used + nodes] = slot
        nodes += 1
        depth += 1
        top = NOTES * depth
        trail[top] = 0
        trail[top + 1] = step
        trail[top + 2] = pulled
        if pulled >= 0:
            # What the step changes is noted: less to compile than its reversal.
            trail[top + 3] = key
            trail[top + 4] = on_target
            trail[top + 5] = distance
            trail[top + 6] = swaps
            trail[top + 7] = last
            key = moved
            occupied[behind] = 0
            occupied[player] = pulled + 1
            now[pulled] = player
            pulls[pulled] += 1
            on_target += int(board[player] == TARGET) - int(board[behind] == TARGET)
            distance += apart(player, origin[pulled], width)
            distance -= apart(behind, origin[pulled], width)
            if pulled != last or not law.ragen:
                swaps += 1
                last = pulled
        player = ahead
        # As in both published codes, a state with the player on a target counts for nothing.
        hidden = int(board[player] == TARGET)
        if on_target + hidden == 0 and swaps * distance > best_score:
            best_score = swaps * distance
            best_player = player
            for b in range(boxes):
                best[b] = now[b]
    for b in range(boxes):
        occupied[now[b]] = 0
        pulls[b] = 0
    for k in range(nodes):
        table[trail[used + k]] = 0
    return best_player


def _box_key(board: Ints, cell: int, weights: Sequence[int], pulled: int) -> int:
    """Return the part of a box in the key of a state.

    As in both published codes, a box that was pulled onto a target makes another state than one that never
    left it.
    """
    return weights[cell] * (5 if pulled > 0 and board[cell] == TARGET else 1)


def first_visit(table: Ints, key: int) -> int:
    """Enter a key into the table and return its slot, or -1 if it was there."""
    mask = len(table) - 1
    slot = (key >> 20) & mask
    while table[slot] != 0:
        if table[slot] == key:
            return -1
        slot = (slot + 1) & mask
    table[slot] = key
    return slot


def apart(a: int, b: int, width: int) -> int:
    """Return the Manhattan distance between two cells."""
    return abs(a // width - b // width) + abs(a % width - b % width)


def walk_away(
    board: Ints, width: int, player: int, steps: int, displacement: int, stream: int
) -> tuple[int, int]:
    """Walk the player up to some steps to free neighbours that it has not visited.

    The first step is taken with probability 0.8 if ``displacement``, the sum of the boxes' distances to
    their targets, is 1, else 0.5; each further one with probability 0.5. ``board`` holds the boxes and no
    player. Returns the player's index and the advanced stream.
    """
    off = (-width, width, -1, 1)
    before = player
    threshold = WALK_FROM_NEAR if displacement == 1 else WALK
    for _ in range(steps):
        stream = advance(stream)
        if word(stream) >= threshold:
            break
        free = 0
        for step in off:
            # Of the cells that were visited, only the one before can be a neighbour.
            free += int(_is_free(board, player + step) and player + step != before)
        if free == 0:
            break
        stream = advance(stream)
        pick = below(stream, free)
        here = player
        for step in off:
            if _is_free(board, here + step) and here + step != before:
                if pick == 0:
                    player = here + step
                pick -= 1
        before = here
        threshold = WALK
    return player, stream


def _is_free(board: Ints, cell: int) -> bool:
    return board[cell] == FLOOR or board[cell] == TARGET
