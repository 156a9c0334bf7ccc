"""Choose worked examples: first turns of training levels, with the replies of the game's oracle."""

import copy
import pickle
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.conversation.parser import format_reply
from ragen_envs.conversation.prompt import state_text, turn_prompt
from ragen_envs.conversation.settings import ConversationSettings, rename_actions, resolve_symbols
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.base import GameEnv, Instance
from ragen_envs.game.oracle import Action, Budget
from ragen_envs.game.text import IMAGE, action_texts, explain
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.levels.seeding import new_stream
from ragen_envs.levels.splits import TRAIN

_TRIES: Final = 64
"""Levels drawn at most for each example."""
_REFUSALS: Final = 8
"""Levels without an example after which the oracle's error is raised."""


class WorkedExample(NamedTuple):
    """One turn of a training level."""

    user: str
    """The first user message of the level."""
    reply: str
    """The oracle's reply, in the form that the settings ask for."""
    solves: bool
    """Whether the reply ends the level in success."""
    picture: NDArray[np.uint8] | None
    """The picture that belongs to the user message, or None without the observation "image"."""
    instance: Instance
    """The level."""


def worked_examples(game: Any, settings: ConversationSettings) -> tuple[WorkedExample, ...]:
    """Return as many examples as the settings ask for; the unwrapped game is left as it is.

    They depend on the game's constructor arguments and the settings only, so all episodes of a task
    show the same ones, and a smaller number is a prefix of a larger one. A level that the constructor
    is given is never an example; the examples are then other levels of its distribution.

    Raises:
        RagenError: The game is no ``GameEnv``, cannot be copied, or has no levels to show.
    """
    if not settings.demonstrations:
        return ()
    try:
        own_keys = frozenset(f"{game.key(level):016x}" for level in game.own_levels)
        drawing = copy.deepcopy(game)
        drawing.own_levels = ()
        drawing.reset(seed=0, options={"split": TRAIN})
        # Games that are equal after the same reset share their examples.
        return _examples(pickle.dumps(drawing), own_keys, settings)
    except (RagenError, pickle.PicklingError, AttributeError, TypeError) as error:
        raise RagenError(
            f"demonstrations is {settings.demonstrations}, but {game} gives no worked examples: {error}"
        ) from error


@lru_cache(maxsize=32)
def _examples(
    pickled: bytes, excluded: frozenset[str], settings: ConversationSettings
) -> tuple[WorkedExample, ...]:
    game: GameEnv[Any] = pickle.loads(pickled)
    examples: list[WorkedExample] = []
    openings: Counter[Action] = Counter()
    for _ in range(settings.demonstrations):
        example, opening = _choose(game, excluded, settings, examples, openings)
        openings[opening] += 1
        examples.append(example)
    return tuple(examples)


def _choose(
    game: GameEnv[Any], excluded: frozenset[str], settings: ConversationSettings,
    earlier: Sequence[WorkedExample], openings: Counter[Action],
) -> tuple[WorkedExample, Action]:  # fmt: skip
    """Return the next example and its first action.

    The levels drawn are compared by three wishes: it is a new level, the reply solves it, and its first
    action is among those that began the fewest examples so far.
    """
    keys = {example.instance.key for example in earlier}
    best: tuple[tuple[bool, bool, int], WorkedExample, Action] | None = None
    for attempt in range(_TRIES):
        seed = new_stream("demonstrations", game.distribution, len(earlier), attempt)
        game.reset(seed=seed, options={"split": TRAIN})
        if game.instance.key in excluded:
            continue
        rarest = 0  # words never run out
        if not isinstance(game, WordGameEnv):
            rarest = min(openings[action] for action in range(len(game.text.actions(game))))
        try:
            made = _answer(game, settings)
        except SolverLimitError:
            if best is None and attempt >= _REFUSALS:
                raise
            continue
        if made is None:
            continue
        example, opening = made
        rank = (example.instance.key in keys, not example.solves, openings[opening])
        if best is None or rank < best[0]:
            best = rank, example, opening
        if rank == (False, False, rarest):
            break
    if best is None:
        raise RagenError(f"none of {_TRIES} training levels is another one that can be solved")
    _, chosen, opening = best
    if settings.observation == IMAGE:
        game.reset(seed=chosen.instance.seed, options={"split": TRAIN})
        chosen = chosen._replace(picture=np.asarray(game.render(), np.uint8))
    return chosen, opening


def _answer(game: GameEnv[Any], settings: ConversationSettings) -> tuple[WorkedExample, Action] | None:
    """Return the example of the game's level and its first action, or None if no action helps.

    The example lacks its picture, which takes long to draw.
    """
    budget = Budget(settings.max_actions, settings.max_turns, settings.actions_per_turn)
    actions = game.oracle(budget).actions
    if not actions:
        return None
    face = game.text
    names = rename_actions(face.actions(game), settings.action_names)
    symbols = resolve_symbols(settings.symbols, face.vocabularies)
    shown = state_text(face, game, settings.observation, symbols)
    thought = explain(game, actions, budget, settings.action_names) if settings.think else None
    example = WorkedExample(
        user=turn_prompt(shown, 1, settings.max_actions, settings),
        reply=format_reply(action_texts(names, actions), thought),
        picture=None,
        instance=game.instance,
        solves=_solves(game, actions),
    )
    return example, actions[0]


def _solves(game: GameEnv[Any], actions: Sequence[Action]) -> bool:
    for action in actions:
        _, _, terminated, truncated, info = game.step(action)
        if terminated or truncated:
            return bool(info["success"])
    return False
