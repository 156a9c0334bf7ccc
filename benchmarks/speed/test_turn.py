"""Turns of conversation: a vector of conversations, its parts, and one conversation through ``gym.make``."""

# ruff: noqa: D103

from typing import Any

import gymnasium as gym
import pytest
from measuring import measure

from ragen_envs.conversation import format_reply, make_vector, parse_reply

TURN = "Turns of conversation"
COUNT = 128
THOUGHT = "The box is right of me and the target is behind it, so I push the box to the right."
ENDLESS: dict[str, Any] = {"max_turns": 1 << 30, "max_actions": 1 << 30, "history": "none"}
NEVER_ENDING: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "Sokoban": (
        {"level": ["######", "#P___#", "#__X_#", "#__O_#", "#____#", "######"]},
        ("Down", "Up"),
    ),
    "FrozenLake": (
        {"level": ["P___", "OO__", "____", "___G"], "success_rate": 1.0},
        ("Left", "Up"),
    ),
}
"""Levels, and actions that never end them."""


def reply_for(names: tuple[str, ...], actions: int, number: int = 0) -> str:
    """Return one of many replies, whose actions are the binary digits of the number."""
    chosen = [names[number >> k & 1] for k in range(actions)]
    return format_reply(chosen, f"{THOUGHT} This was thought number {number}.")


@pytest.mark.parametrize("actions", [1, 3, 5])
@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake"])
def test_turns_of_a_vector(benchmark: Any, game: str, actions: int) -> None:
    kwargs, names = NEVER_ENDING[game]
    vector = make_vector(f"ragen/{game}-v0", COUNT, **ENDLESS, **kwargs)
    vector.reset(seeds=range(COUNT))
    replies = [reply_for(names, actions, number) for number in range(COUNT)]

    def work() -> None:
        vector.messages()
        vector.play(replies)

    row = f"{game}, {COUNT} conversations, {actions} action{'s' * (actions > 1)} a turn"
    measure(benchmark, work, TURN, row, items=COUNT)


def test_parsing(benchmark: Any) -> None:
    reply = reply_for(("Up", "Down"), 3)
    names = ("Up", "Down", "Left", "Right")
    measure(benchmark, lambda: parse_reply(reply, names, 5, True), TURN, "of it: parsing 3 actions")


def test_episodes_of_a_vector(benchmark: Any) -> None:
    vector = make_vector("ragen/Sokoban-v0", COUNT)
    frozen = list(range(COUNT))
    reply = reply_for(("Up", "Down"), 2)

    def work() -> None:
        vector.reset(split="test", indices=frozen)
        while running := vector.running:
            vector.messages(running)
            vector.play([reply] * len(running), running)

    measure(benchmark, work, TURN, "Sokoban, whole episodes of 5 turns on frozen levels", items=COUNT)


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_one_conversation(benchmark: Any, game: str) -> None:
    """Reset only where an episode is one turn; a fresh level costs more than many turns."""
    limits = {} if game == "Bandit" else ENDLESS
    env = gym.make(f"ragen/{game}Text-v0", **limits)
    env.reset(seed=0)
    reply = reply_for(env.get_wrapper_attr("names"), 1)

    def work() -> None:
        _, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            env.reset()

    row = f"{game}, gym.make, 1 action a turn{', with resets' if game != 'Sokoban' else ''}"
    measure(benchmark, work, TURN, row)
