"""Conversations of an imperfect solver with the games: the starter model's training data.

The prompts are the ones that the harness sends to any model. Levels are of the train split, and the names of
the bandits' arms are its pairs or any two words: the pairs of the validation and test splits never appear.
Their words do, in other pairs, whose roles are the game's: they follow from a word that is listed as
risky-sounding, or else from the order. So, as any language model does, the starter model has an idea of which
words sound risky; the held-out pairs it has never seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ragen_envs.conversation import ConversationWrapper, format_reply, make
from ragen_envs.game.oracle import Budget
from ragen_envs.games.bandit import all_names, arm_names
from ragen_envs.games.bandit.env import BanditEnv
from ragen_envs.games.cube.env import CubeEnv
from ragen_envs.games.frozen_lake import dynamics as lake
from ragen_envs.games.frozen_lake.env import FrozenLakeEnv
from ragen_envs.games.frozen_lake.oracle import advise
from ragen_envs.games.sokoban import dynamics as sokoban
from ragen_envs.games.sokoban.env import SokobanEnv
from ragen_envs.games.sokoban.oracle import solve
from ragen_envs.levels.splits import TEST, TRAIN, VALIDATION

_NOUNS: Final = """
Actor Alley Apple Archer Arrow Artist Author Badger Beacon Bishop Boulder Bridge Broker Buffalo Builder
Butcher Cabin Camel Candy Canyon Captain Castle Cavern Chef Cloud Coach Convoy Courier Cricket Crow
Dancer Desert Doctor Driver Duke Eagle Elder Falls Ferry Fiddler Fire Fisher Flame Forest Fortress
Fountain Fox Friar Gale Ghost Glacier Goose Guard Guide Hammer Hermit Heron Island Jester Joker Keeper
King Knight Ladder Lawyer Lizard Locksmith Lotus Magnet Marble Marsh Mason Mayor Merchant Mill Monk
Monsoon Mountain Musician Needle Oasis Officer Owl Peacock Pilot Poet Prairie Printer Prophet Python
Quarry Queen Ranger Raven Reef Ridge River Sailor Scout Sculptor Seal Senator Sentry Sergeant Singer
Skater Spider Squire Stable Stork Sultan Surgeon Temple Torch Tower Walker Warden Whale Wizard Worker
Writer Zebra
""".split()
WORDS: Final = tuple(dict.fromkeys([*_NOUNS, *all_names()]))
"""Every word that names an arm, the held-out ones among them."""
TRAIN_PAIRS: Final = 0.25
"""Least share of the pairs that are of the train split."""
Messages = list[dict[str, str]]
Settings = tuple[tuple[str, Any], ...]
MAX_NOISE: Final = 0.3
"""A trajectory's chance that an action is random is uniform between 0 and this."""
SAFE_LEAN: Final = 0.54
"""Chance that the safe-sounding arm is pulled."""
DEFAULTS: Final = 0.75
"""Chance of the default limits."""
UNTHINKING: Final = 0.1
"""Chance that the reply holds no thought."""
SLIPPERY_MAPS: Final = 1024
"""Slippery demonstrations come from this many seeds, because exact plans are costly."""
BANDIT: Final = "ragen/BanditText-v0"
CUBE: Final = "ragen/CubeText-v0"
LARGE: Final = "ragen/SokobanLargeText-v0"
SHARES: Final = {
    "ragen/SokobanText-v0": 0.24,
    "ragen/SokobanNewVocabText-v0": 0.19,
    LARGE: 0.09,
    "ragen/FrozenLakeDeterministicText-v0": 0.18,
    "ragen/FrozenLakeText-v0": 0.08,
    CUBE: 0.03,
    BANDIT: 0.19,
}
"""Share of each game in the demonstrations; the bandits tell the same prompt."""


def name_pair(rng: np.random.Generator) -> tuple[str, str]:
    """Draw the two arms in the order shown: a train pair, or any two words that are no held-out pair."""
    if rng.random() < TRAIN_PAIRS:
        return _train_pair(rng)
    while True:
        first, second = (str(word) for word in rng.choice(WORDS, size=2))
        if first != second and not _is_held_out(first, second):
            return first, second


def _train_pair(rng: np.random.Generator) -> tuple[str, str]:
    safe, risky = (str(rng.choice(names)) for names in arm_names()[TRAIN])
    return (safe, risky) if rng.random() < 0.5 else (risky, safe)


def _is_held_out(first: str, second: str) -> bool:
    return any(
        (first in names.safe and second in names.risky) or (second in names.safe and first in names.risky)
        for names in (arm_names()[split] for split in (VALIDATION, TEST))
    )


@dataclass(frozen=True)
class Mixture:
    """Choose the games of demonstrations and the way they are played."""

    bandits: float = SHARES[BANDIT]
    """Share of the bandits, at the others' cost."""
    hurried: float = 0.0
    """Share of the other games that have 1 to 6 actions in all, so that their turns have few left."""
    late: float = 0.0
    """Share of the other games whose first turns are random and not learned, until few actions are left, to
    which the solver seldom comes."""
    most_left: int = 4
    """Most actions that are left then; at least one is."""
    cubes: float | None = None
    """Share of the cube, at the cost of all but the bandits; None for what ``SHARES`` leaves it."""
    large: float | None = None
    """Share of SokobanLarge, likewise."""
    guided: float = 0.1
    """Share of the episodes that one or two worked examples precede."""


class Demonstration(NamedTuple):
    """One episode."""

    chat: Messages
    """Ends with a reply."""
    skipped: int
    """Replies at the beginning that are not to be learned, those of worked examples among them."""


def demonstrate(rng: np.random.Generator, mixture: Mixture) -> Demonstration:
    """Play one episode of a game drawn by ``SHARES``; all randomness is from ``rng``."""
    text_id = _draw_game(rng, mixture)
    env = _env(text_id, rng, mixture)
    noise = MAX_NOISE * rng.random()
    is_late = mixture.late and text_id != BANDIT and rng.random() < mixture.late
    left = int(rng.integers(1, mixture.most_left + 1)) if is_late else env.budget.actions
    chat: Messages = []
    skipped = env.settings.demonstrations
    while env.end is None:
        chat = env.messages
        surplus = env.budget.actions - left
        skipped += surplus > 0
        limit = env.budget.this_turn
        if surplus > 0:
            actions = _waste(env, rng, min(surplus, limit))
        else:
            actions = _CHOICES[type(env.unwrapped)](env, rng, noise, limit)
        answer = [env.names[a] for a in actions]
        thought = env.explain(actions) if env.settings.think else None
        reply = format_reply(answer, thought)
        chat.append({"role": "assistant", "content": reply})
        env.play(reply)
    return Demonstration(chat, skipped)


def _draw_game(rng: np.random.Generator, mixture: Mixture) -> str:
    given = {BANDIT: mixture.bandits, CUBE: mixture.cubes, LARGE: mixture.large}
    set_apart = {name: share for name, share in given.items() if share is not None}
    others = 1 - sum(SHARES[name] for name in set_apart)
    left = 1 - sum(set_apart.values())
    shares = {name: share * left / others for name, share in SHARES.items()} | set_apart
    return str(rng.choice(list(shares), p=list(shares.values())))


def _env(text_id: str, rng: np.random.Generator, mixture: Mixture) -> ConversationWrapper:
    settings = _settings(text_id, rng, mixture.guided)
    if mixture.hurried and text_id != BANDIT and rng.random() < mixture.hurried:
        settings = (*settings, ("max_actions", int(rng.integers(1, 7))))
    if text_id == BANDIT:
        env = make(text_id, level=name_pair(rng), **dict(settings))
    else:
        env = _shared(text_id, settings)
    seeds = SLIPPERY_MAPS if text_id == "ragen/FrozenLakeText-v0" else 1 << 62
    env.reset(seed=int(rng.integers(seeds)), options={"noise": int(rng.integers(1 << 30))})
    return env


@lru_cache(maxsize=512)
def _shared(text_id: str, settings: Settings) -> ConversationWrapper:
    return make(text_id, **dict(settings))


def _settings(text_id: str, rng: np.random.Generator, guided: float) -> Settings:
    """Draw settings, most of which are the defaults.

    The others are worked examples, and what the paper's ablations vary: actions per turn, the action
    budget that grows with them, and thinking.
    """
    drawn: Settings = (("think", False),) if rng.random() < UNTHINKING else ()
    if rng.random() < guided:
        drawn = (*drawn, ("demonstrations", int(rng.integers(1, 3))))
    if text_id in (BANDIT, CUBE, "ragen/FrozenLakeText-v0") or rng.random() < DEFAULTS:
        return drawn
    per_turn = int(rng.integers(1, 8))
    budget = 5 * per_turn if rng.random() < 0.5 else 10
    return (*drawn, ("actions_per_turn", per_turn), ("max_actions", budget))


def _waste(env: ConversationWrapper, rng: np.random.Generator, most: int) -> list[int]:
    count = most if rng.random() < 0.6 else rng.integers(1, most + 1)
    return [int(action) for action in rng.integers(len(env.names), size=count)]


def _choose_sokoban(
    env: ConversationWrapper, rng: np.random.Generator, noise: float, limit: int
) -> list[int]:
    """Follow shortest solutions, planning again after each random action."""
    game = env.unwrapped
    assert isinstance(game, SokobanEnv)
    board = game.board
    cells = bytearray(board.tobytes())
    actions: list[int] = []
    while len(actions) < limit and cells.count(sokoban.BOX):
        plan = solve(np.frombuffer(cells, np.uint8).reshape(board.shape))
        best = plan[0] if plan else int(rng.integers(4))
        action = int(rng.integers(4)) if rng.random() < noise else best
        player = max(range(len(cells)), key=cells.__getitem__)
        sokoban.move(cells, player, sokoban.offsets(game.width)[action])
        actions.append(action)
    return actions


def _choose_lake(env: ConversationWrapper, rng: np.random.Generator, noise: float, limit: int) -> list[int]:
    game = env.unwrapped
    assert isinstance(game, FrozenLakeEnv)
    if game.success_rate < 1:
        plan = env.oracle().actions or (int(rng.integers(4)),)
        return [int(rng.integers(4)) if rng.random() < noise else a for a in plan]
    ice, position = lake.Lake(game.tiles, game.height, game.width, 1.0), game.position
    actions: list[int] = []
    while len(actions) < limit and ice.tiles[position] == lake.FROZEN:
        best = advise(ice, position, Budget.closed_loop(99)).action
        action = int(rng.integers(4)) if best is None or rng.random() < noise else best
        position = lake.walk(position, action, ice.height, ice.width)
        actions.append(action)
    return actions


def _choose_arm(env: ConversationWrapper, rng: np.random.Generator, noise: float, limit: int) -> list[int]:
    """Pull either arm, whatever the noise, with a slight lean to the safe-sounding one."""
    del noise, limit
    game = env.unwrapped
    assert isinstance(game, BanditEnv)
    safe = game.sure_arm
    return [safe if rng.random() < SAFE_LEAN else 1 - safe]


def _choose_turns(env: ConversationWrapper, rng: np.random.Generator, noise: float, limit: int) -> list[int]:
    """Follow a shortest solution of the cube, without seeing where a random turn leads."""
    plan = env.oracle().actions[:limit] or (int(rng.integers(len(env.names))),)
    return [int(rng.integers(len(env.names))) if rng.random() < noise else a for a in plan]


_CHOICES: Final[dict[type, Callable[[ConversationWrapper, np.random.Generator, float, int], list[int]]]] = {
    SokobanEnv: _choose_sokoban,
    FrozenLakeEnv: _choose_lake,
    BanditEnv: _choose_arm,
    CubeEnv: _choose_turns,
}
