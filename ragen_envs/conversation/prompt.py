"""Write the prompts: one system message, then one user message per turn."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.parser import whole_turn
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.game.text import COORDINATES, GRID, IMAGE, OwnText, Symbols, renamed

_DEFECTS: Final[dict[str, str]] = {
    Defect.EMPTY: "empty reply",
    Defect.TRUNCATED: "cut off by the token limit",
    Defect.NO_THINK: "no <think>",
    Defect.UNCLOSED_THINK: "<think> without </think>",
    Defect.UNEXPECTED_THINK: "<think> not allowed",
    Defect.NO_ANSWER: "no <answer>",
    Defect.UNCLOSED_ANSWER: "<answer> without </answer>",
    Defect.TWO_ANSWERS: "more than one <answer>",
}
"""Words for defects whose name does not say it all."""
_IN_PICTURE: Final = "The picture shows the current state of the game."


@lru_cache(maxsize=1024)
def system_prompt(
    rules: str,
    legend: str,
    names: tuple[str, ...],
    settings: ConversationSettings,
    in_words: bool = False,
) -> str:
    """Return the introduction, the format of a reply and what happens to an invalid one.

    ``in_words`` says that the game's actions are words, of which ``names`` has the forms.
    """
    start = introduction(rules, legend, names, settings)
    return "\n".join([start, reply_format(settings), invalid_reply(settings, in_words)])


def introduction(rules: str, legend: str, names: tuple[str, ...], settings: ConversationSettings) -> str:
    """Return the rules, the legend of the symbols in use, the actions and the limits."""
    lines = [renamed(rules, settings.action_names)]
    if legend and settings.observation not in (COORDINATES, IMAGE):
        lines.append(f"Symbols: {legend}.")
    lines.append(f"Actions: {', '.join(names)}.")
    lines.append(_limits(settings))
    return "\n".join(lines)


def _limits(settings: ConversationSettings) -> str:
    turns, most, total = settings.max_turns, settings.most_per_turn, settings.max_actions
    replies = "one turn (one reply)" if turns == 1 else f"at most {turns} turns (replies)"
    each = "one action" if most == 1 else f"up to {most} actions"
    if total == 1 and turns > 1:
        return f"You have {replies} and one action in the whole game."
    text = f"You have {replies}, with {each}{' per turn' if turns > 1 else ''}"
    if settings.total_matters:
        text += f" and at most {total} in the whole game"
    return f"{text}. Actions are executed in order until the game ends." if most > 1 else f"{text}."


def reply_format(settings: ConversationSettings) -> str:
    """Return the form that a reply must have."""
    if settings.most_per_turn > 1:
        request = "Reply in this format, with actions separated by ||:"
        answer = "<answer>action || action</answer>"
    else:
        request, answer = "Reply in this format:", "<answer>action</answer>"
    thought = "<think>your reasoning</think>" if settings.think else ""
    return f"{request}\n{thought}{answer}"


def invalid_reply(settings: ConversationSettings, in_words: bool) -> str:
    """Return the sentence on what happens to an invalid reply."""
    if settings.most_per_turn > 1:
        extra, executed = "too many", "its actions before the first invalid one are"
    else:
        extra, executed = "several", "its first action, if valid, is"
    penalty = settings.format_penalty
    costs = f"costs {-penalty:.10g}" if penalty else "uses up the turn"
    effects = {
        "penalise": f"{costs}; {executed} still executed",
        "discard": f"is ignored and {costs}",
        "end": f"is ignored, {costs} and ends the game" if penalty else "ends the game",
    }
    unknown = "illegal" if in_words else "unknown"
    subject = f"An invalid reply (wrong format, {unknown} action or {extra} actions)"
    return f"{subject} {effects[settings.invalid]}."


def state_text(face: OwnText, game: Any, form: str, symbols: Symbols) -> str:
    """Return the present state of an unwrapped game in the form of the setting ``observation``."""
    if form == IMAGE:
        if face.legend(symbols):
            return _IN_PICTURE
        form = GRID
    return face.observation(game, form, symbols)


def turn_prompt(observation: str, turn: int, left: int, settings: ConversationSettings) -> str:
    """Return the user message that asks for the reply of a turn, counted from 1, with ``left`` actions."""
    if settings.max_turns == 1:
        return observation
    most = settings.actions_per_turn
    total = f" Actions left: {left}." if settings.total_matters else ""
    limit = f" Limit for this turn: {min(left, most)}." if most > 1 else ""
    return f"Turn {turn} of {settings.max_turns}.{total}{limit}\n{observation}"


def chat(system: str, turns: Iterable[tuple[str, str]], prefix: str) -> list[dict[str, str]]:
    """Return the chat that ends with the message to reply to.

    Turns are user messages and their replies, of which that of the last one is left out. Every turn of the
    assistant begins with the prefix; see ``whole_turn``.
    """
    messages = [{"role": "system", "content": system}]
    for user, reply in turns:
        messages.append({"role": "user", "content": user})
        messages.append({"role": "assistant", "content": whole_turn(reply, prefix)})
    return messages[:-1]


def example_prompt(user: str, number: int) -> str:
    """Return the user message of a worked example, counted from 0, as the chat shows it."""
    begin = "The example ends here. Here is another one." if number else "Here is an example."
    return f"{begin}\n\n{user}"


def prompt_after_examples(user: str) -> str:
    """Return the first of the episode's own user messages as the chat shows it after worked examples."""
    return f"The example ends here. Now play your own level.\n\n{user}"


def describe_defect(name: str) -> str:
    """Return the words with which feedback names a defect."""
    return _DEFECTS.get(name, name.replace("_", " "))


def feedback(
    executed: Sequence[str],
    effective: Sequence[bool],
    defects: Sequence[Defect | SoftDefect],
    reward: float,
    settings: ConversationSettings,
    reason: str = "",
) -> str:
    """Describe the effects of a turn: each executed action, whether it changed anything, and the reward.

    Where nothing of an invalid reply was executed, the format follows. ``reason`` is why an action is
    illegal, or "".
    """
    names = executed
    if not all(effective):
        pairs = zip(executed, effective, strict=True)
        names = tuple(name if changed else f"{name} (no effect)" for name, changed in pairs)
    text = f"Executed: {', '.join(names)}. " if names else ""
    if defects:
        reasons = ", ".join(map(describe_defect, defects)) + (f": {reason}" if reason else "")
        nothing = "" if names else ", so no action was executed"
        text = f"Your reply was invalid ({reasons}){nothing}. {text}"
    text += f"Reward: {reward:.6g}."
    return f"{text}\n{reply_format(settings)}" if defects and not names else text


def final_prompt(feedback_text: str, success: bool | None, observation: str) -> str:
    """Return the text after the last turn; a success of None is not mentioned."""
    outcome = {True: " You succeeded.", False: " You did not succeed.", None: ""}[success]
    return f"{feedback_text}\nThe game is over.{outcome}\n{observation}"
