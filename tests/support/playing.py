"""Help tests that play games: actions of every game, and boards that can be walked."""

import numpy as np

from ragen_envs.game.word_game import WordGameEnv


def numeric_action(env, number):
    """Return an action of a game without its conversation, legal in most states."""
    game = env.unwrapped
    if not isinstance(game, WordGameEnv):
        return int(number % env.action_space.n)
    choices = game.available()
    return choices[number % len(choices)] if choices and number % 5 else "nonsense"


def action_text(env, number):
    """Return an action of a conversation as replies write it."""
    game = env.unwrapped
    names = env.get_wrapper_attr("names")
    choices = game.available() if isinstance(game, WordGameEnv) else names
    return choices[number % len(choices)] if choices else "nonsense"


def best_texts(env):
    """Return the oracle's actions of a conversation as replies write them."""
    names = env.get_wrapper_attr("names")
    actions = env.get_wrapper_attr("oracle")().actions
    return [each if isinstance(each, str) else names[each] for each in actions]


def reachable(board):
    """Return whether the goal can be walked to, by growing the set of cells from the start."""
    free = np.isin(board, (0, 2, 3))
    grown = board == 3
    for _ in range(board.size):
        padded = np.pad(grown, 1)
        near = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        grown = grown | (near & free)
    return bool(grown[board == 2].all())
