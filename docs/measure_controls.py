"""Measure the controls on games of words: ``python docs/measure_controls.py`` writes ``docs/controls.json``.

Each control plays the first test levels under the limits of the game's conversation.
``docs/generate.py`` shows the numbers on the games' pages.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragen_agents.policies import CONTROLS, SHOP_RULES, Policy, Request
from ragen_agents.rollout import EpisodeSpec, sampling_seed
from ragen_envs import GAMES
from ragen_envs.conversation import make
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.games.webshop import WebShopEnv
from ragen_envs.levels.splits import TEST
from ragen_envs.registration import GameSpec

LEVELS: Final = 256
FILE: Final = Path(__file__).with_name("controls.json")


def measure(game: GameSpec, policy: Policy) -> dict[str, Any]:
    """Return the numbers of one control; rates are in [0, 1]."""
    env = make(game.text_id)
    wins, returns, turns, optima = [], [], [], []
    wrong: Counter[str] = Counter()
    for index in range(LEVELS):
        env.reset(options={"split": TEST, "index": index})
        optima.append(env.oracle().value)
        spec, total, turn = EpisodeSpec(game.name, game.text_id, index), 0.0, 0
        while env.end is None:
            request = Request(env.messages, sampling_seed(0, spec, turn), env)
            (reply,) = policy.act([request])
            total += env.play(reply.text).reward
            turn += 1
        wins.append(env.success)
        returns.append(total)
        turns.append(turn)
        if isinstance(env.unwrapped, WebShopEnv):
            verdict = env.unwrapped.verdict
            wrong.update(("nothing bought",) if verdict is None else verdict.wrong(env.unwrapped.goal))
    row = {
        "control": policy.name, "levels": LEVELS, "success": round(fmean(wins), 4),
        "return": round(fmean(returns), 4), "turns": round(fmean(turns), 3),
        "optimum": round(fmean(optima), 4),
    }  # fmt: skip
    return {**row, "wrong": {name: round(n / LEVELS, 4) for name, n in sorted(wrong.items())}}


def main() -> None:
    """Measure every control and write the file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for game in GAMES:
        if not issubclass(game.env_class, WordGameEnv):
            continue
        kinds = [CONTROLS["random"], CONTROLS["oracle"]]
        shop = list(SHOP_RULES.values()) if issubclass(game.env_class, WebShopEnv) else []
        for kind in (kinds[0], *shop, kinds[1]):
            print(f"{game.name} {kind.name}", file=sys.stderr)
            found.setdefault(game.module, []).append(measure(game, kind()))
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
