"""Reverse play against the published search, which is recursive and copies the room at every step."""

import sys

import pytest

from ragen_envs.games.sokoban.generator import search_weights
from ragen_envs.games.sokoban.laws import law_name, law_of
from ragen_envs.games.sokoban.reverse_play import reverse_play, scratch
from ragen_envs.games.sokoban.rooms import carve_room, place_targets
from ragen_envs.levels.seeding import new_stream

FLOOR, TARGET, PULLED, UNMOVED, PLAYER = 1, 2, 3, 4, 5


class Published:
    """The search of gym-sokoban 0.0.6, or with ``pulls_only`` that of RAGEN's code."""

    def __init__(self, board, width, origin, start, pulls_only):
        self.board, self.width, self.pulls_only = board, width, pulls_only
        self.targets = len(origin)
        self.seen, self.score, self.found = set(), -1, None
        room = list(board)
        for cell in origin:
            room[cell] = UNMOVED
        room[start] = PLAYER
        self.first = room, start, {cell: cell for cell in origin}

    def search(self, depth):
        self._visit(*self.first, 0, None, depth)
        return self.found if self.score > 0 else None

    def _visit(self, room, player, boxes, swaps, last, depth):
        depth -= 1
        if depth <= 0 or tuple(room) in self.seen:
            return
        self.seen.add(tuple(room))
        score = swaps * sum(self._apart(*pair) for pair in boxes.items())
        if room.count(TARGET) != self.targets:
            score = 0
        if score > self.score:
            self.score, self.found = score, (player, frozenset(boxes.values()))
        steps = (-self.width, self.width, -1, 1)
        for choice in range(4 if self.pulls_only else 8):
            after = self._moved(room, player, boxes, steps[choice % 4], choice < 4)
            moved, there, places, pulled = after
            changed = pulled is not None and pulled != last
            kept = pulled if self.pulls_only and pulled is not None else last
            self._visit(moved, there, places, swaps + changed, kept, depth)

    def _moved(self, room, player, boxes, step, pulls):
        if room[player + step] not in (FLOOR, TARGET):
            return room, player, boxes, None
        room, boxes, pulled = list(room), dict(boxes), None
        room[player], room[player + step] = self.board[player], PLAYER
        behind = player - step
        if pulls and room[behind] in (PULLED, UNMOVED):
            room[player], room[behind] = PULLED, self.board[behind]
            (pulled,) = (target for target, cell in boxes.items() if cell == behind)
            boxes[pulled] = player
        return room, player + step, boxes, pulled

    def _apart(self, a, b):
        width = self.width
        return abs(a // width - b // width) + abs(a % width - b % width)


@pytest.mark.parametrize(
    ("generator", "height", "width", "boxes", "depth", "count"),
    [
        ("ragen", 6, 6, 1, None, 150),
        ("ragen", 8, 8, 2, 10, 250),
        ("ragen", 7, 6, 2, 12, 100),
        ("gym-sokoban", 6, 6, 1, None, 80),
        ("gym-sokoban", 7, 7, 2, 9, 60),
    ],
)
def test_reverse_play_is_the_published_search(generator, height, width, boxes, depth, count):
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    law = law_of(generator, depth, height, width, boxes)
    board, weights = bytearray(height * width), search_weights(height, width).tolist()
    buffers = scratch(height * width, boxes, law, lambda n: [0] * n)
    stream, compared, levels = new_stream("train", "published", boxes), 0, 0
    while compared < count:
        stream = carve_room(board, height, width, stream)
        start, stream = place_targets(board, height * width, boxes, buffers.origin, stream)
        if not start:
            continue
        player = reverse_play(board, width, boxes, start, law, weights, buffers)
        ours = (player, frozenset(buffers.best)) if player else None
        published = Published(board, width, list(buffers.origin), start, law.ragen)
        assert ours == published.search(depth or 300)
        assert not any(buffers.pulls)
        compared, levels = compared + 1, levels + (ours is not None)
    assert levels > count / 5


def test_the_default_depth_has_no_name_of_its_own():
    assert law_name("ragen", 300) == law_name("ragen", None) == ""
    assert law_of("ragen", 300, 6, 6, 1) == law_of("ragen", None, 6, 6, 1)
    assert law_name("gym-sokoban", 10) == "-gym-sokoban-depth10"


@pytest.mark.parametrize("generator", ["ragen", "gym-sokoban"])
def test_a_very_large_depth_is_the_deepest_search(generator):
    assert law_of(generator, 10**12, 8, 8, 2) == law_of(generator, 10**6, 8, 8, 2)
