"""Measure the games' level distributions: ``python docs/measure_levels.py`` writes ``docs/levels.json``.

For each distribution and split, fresh levels from seeds 0 on: how many differ, how long their shortest
solutions are, and how often random play succeeds, exactly. ``docs/generate.py`` shows the numbers on the
games' pages.
"""

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragen_envs import GAMES
from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Budget
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.games.cube import CubeEnv
from ragen_envs.games.cube.oracle import fewest_turns
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.frozen_lake.dynamics import Lake
from ragen_envs.games.frozen_lake.oracle import advise
from ragen_envs.games.packs import USUAL
from ragen_envs.games.sokoban import SokobanEnv, solve
from ragen_envs.levels.splits import SPLITS, TRAIN
from ragen_envs.registration import GameSpec

LEVELS: Final = 2000
"""Fresh levels of each split."""
FILE: Final = Path(__file__).with_name("levels.json")
VARIANTS: Final = {
    "ragen/Sokoban-v0": ({"generator": "gym-sokoban"},),
    "ragen/SokobanLarge-v0": ({"generator": "gym-sokoban", "search_depth": None},),
}
"""Other distributions of a game that its page compares with its own, on training levels."""


def shortest(env: GameEnv[Any]) -> int | None:
    """Return the fewest actions that can solve the present level, or None for a game without levels."""
    if isinstance(env, SokobanEnv):
        plan = solve(env.board)
        return None if plan is None else len(plan)
    if isinstance(env, FrozenLakeEnv):
        far = env.height * env.width
        lake = Lake(env.tiles, env.height, env.width, 1.0)
        return len(advise(lake, env.position, Budget(far, 1, far)).actions)
    return fewest_turns(env.state) if isinstance(env, CubeEnv) else None


def measure(env: GameEnv[Any], split: str) -> dict[str, Any]:
    """Return the numbers of one distribution and split; rates are in [0, 1]."""
    keys, moves, random, best = set(), [], [], []
    for seed in range(LEVELS):
        env.reset(seed=seed, options={"split": split})
        keys.add(env.instance.key)
        moves.append(shortest(env))
        chance = env.random_baseline(USUAL)
        random.append(None if chance is None else chance.success)
        best.append(env.oracle(USUAL).value)
    row: dict[str, Any] = {"levels": LEVELS, "distinct": len(keys)}
    lengths = [length for length in moves if length is not None]
    if lengths:
        row["mean"] = round(fmean(lengths), 3)
        row |= {f"within_{k}": round(sum(n <= k for n in lengths) / LEVELS, 4) for k in (1, 3, 10)}
    chances = [value for value in random if value is not None]
    if len(chances) == LEVELS:
        row["random"] = round(fmean(chances), 4)
    row["optimum"] = round(fmean(best), 4)
    return row


def distributions(game: GameSpec) -> list[tuple[str, GameEnv[Any]]]:
    """Return a name and an env for each distribution that the game's page shows."""
    own = dict(game.kwargs)
    found = [(f"`{game.id}`", game.env_class(**own))]
    for change in VARIANTS.get(game.id, ()):
        told = ", ".join(
            f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}"
            for key, value in change.items()
        )
        found.append((f"the same with `{told}`", game.env_class(**{**own, **change})))
    return found


def main() -> None:
    """Measure every distribution and write the file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for game in GAMES:
        if issubclass(game.env_class, WordGameEnv):
            continue  # their pages show the packs and the controls
        for number, (name, env) in enumerate(distributions(game)):
            for split in SPLITS if number == 0 else (TRAIN,):
                print(f"{name} {split}", file=sys.stderr)
                row = {"distribution": name, "split": split, **measure(env, split)}
                found.setdefault(game.module, []).append(row)
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
