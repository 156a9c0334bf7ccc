"""The prompts: one system message, then one user message per turn."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragen_envs.conversation.parser import Defect
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.text import COORDINATES, IMAGE

_INVALID: Final = {
    "discard": "Of a reply in another form nothing runs.",
    "end": "A reply in another form ends the game.",
}
"""What is said of replies with a defect where it is not the usual."""


@lru_cache(maxsize=1024)
def system_prompt(
    rules: str, legend: str, names: tuple[str, ...], settings: ConversationSettings
) -> str:
    """Return the introduction and the form of a reply."""
    lines = [introduction(rules, legend, names, settings), _form(settings)]
    if settings.invalid in _INVALID:
        lines.append(_INVALID[settings.invalid])
    if settings.format_penalty:
        lines.append(f"A reply in another form costs {-settings.format_penalty:g}.")
    return "\n".join(lines)


def introduction(
    rules: str, legend: str, names: tuple[str, ...], settings: ConversationSettings
) -> str:
    """Return the rules, the legend of the symbols in use, the actions and the limits."""
    lines = [rules]
    if legend and settings.observation not in (COORDINATES, IMAGE):
        lines.append(f"Symbols: {legend}.")
    lines.append(f"Actions: {', '.join(names)}.")
    lines.append(
        f"Limits: {_count(settings.actions_per_turn, 'action')} in a turn, "
        f"{_count(settings.max_actions, 'action')} and {_count(settings.max_turns, 'turn')} in all."
    )
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _form(settings: ConversationSettings) -> str:
    several = min(settings.actions_per_turn, settings.max_actions) > 1
    answer = "<answer>action || action</answer>" if several else "<answer>action</answer>"
    what = "your actions, separated by ||" if several else "your action"
    if settings.think:
        return f"First think, then give {what}, in this form:\n<think>your thoughts</think>{answer}"
    return f"Give only {what}, in this form:\n{answer}"


def turn_prompt(observation: str, turn: int, left: int, settings: ConversationSettings) -> str:
    """Return the user message that asks for the reply of a turn, counted from 1, with actions left."""
    limits = f"Turn {turn} of {settings.max_turns}, {_count(left, 'action')} left."
    return f"{limits}\n{observation}"


def example_prompt(user: str, number: int) -> str:
    """Return the user message of a worked example, counted from 0, as the chat shows it."""
    begin = "The example ends here. Here is another one." if number else "Here is an example."
    return f"{begin}\n\n{user}"


def prompt_after_examples(user: str) -> str:
    """Return the first of the episode's own user messages as the chat shows it after worked examples."""
    return f"The example ends here. Now play your own level.\n\n{user}"


def feedback(ran: Sequence[tuple[str, bool]], defects: Sequence[Defect], reward: float) -> str:
    """Return what a turn did: each action that ran and whether it changed anything, and the reward."""
    parts = []
    if defects:
        parts.append(f"Not valid: {', '.join(d.replace('_', ' ') for d in defects)}.")
    names = [name if effective else f"{name} (no effect)" for name, effective in ran]
    parts.append(f"Done: {', '.join(names) or 'nothing'}.")
    parts.append(f"Reward: {reward:.6g}.")
    return " ".join(parts)


def final_prompt(feedback_text: str, success: bool, observation: str) -> str:
    """Return the text after the last turn."""
    return f"{feedback_text}\nThe game is over: {'success' if success else 'no success'}.\n{observation}"
