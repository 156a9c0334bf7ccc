"""Two environments of MiniGrid in words: what the agent sees, from where it stands. Needs minigrid."""

from typing import Any

import minigrid  # noqa: F401  registers MiniGrid and BabyAI
from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

from ragen_envs import register_text

HEADINGS = ("east", "south", "west", "north")
DOORS = {0: "open ", 1: "closed ", 2: "locked "}


def place(ahead: int, right: int) -> str:
    """Return where a cell is as the agent sees it."""
    side = f", {abs(right)} {'right' if right > 0 else 'left'}" if right else ""
    return f"{ahead} ahead{side}"


def describe(seen: dict[str, Any]) -> str:
    """Return mission, heading, next wall and objects; the agent is in the middle of the last row of cells."""
    things, walls = [], []
    for column, cells in enumerate(seen["image"]):
        for row, (kind, color, state) in enumerate(cells):
            name, ahead, right = IDX_TO_OBJECT[kind], 6 - row, column - 3
            if name == "wall" and right == 0:
                walls.append(ahead)
            elif name not in ("unseen", "empty", "wall", "floor"):
                door = DOORS[state] if name == "door" else ""
                things.append(f"{door}{IDX_TO_COLOR[color]} {name} ({place(ahead, right)})")
    return (
        f"Mission: {seen['mission']}. You face {HEADINGS[seen['direction']]}. "
        f"Next wall: {min(walls, default='more than 6')} ahead. You see: {', '.join(things) or 'nothing'}."
    )


register_text(
    "mine/GoToObjText-v0", "BabyAI-GoToObj-v0",
    describe=describe, success=0.01, max_turns=10, max_actions=50,
)  # fmt: skip
register_text(
    "mine/DoorKeyText-v0", "MiniGrid-DoorKey-5x5-v0",
    describe=describe, success=0.01, max_turns=10, max_actions=50,
)  # fmt: skip
