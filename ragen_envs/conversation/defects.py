"""What can be wrong with a reply, by name."""

from enum import StrEnum


class Defect(StrEnum):
    """What makes a reply invalid."""

    EMPTY = "empty"
    """Nothing but white space."""
    TRUNCATED = "truncated"
    """The model was cut off by its token limit."""
    TOO_LONG = "too_long"
    """More than ``MAX_REPLY_CHARACTERS`` characters."""
    NO_THINK = "no_think"
    """No ``<think>`` before the answer although thinking is on."""
    UNCLOSED_THINK = "unclosed_think"
    """``<think>`` without ``</think>``."""
    UNEXPECTED_THINK = "unexpected_think"
    """``<think>`` although thinking is off."""
    NO_ANSWER = "no_answer"
    """No ``<answer>``."""
    UNCLOSED_ANSWER = "unclosed_answer"
    """``<answer>`` without ``</answer>``; what follows is still read."""
    TWO_ANSWERS = "two_answers"
    """More than one answer; the first is read."""
    EMPTY_ANSWER = "empty_answer"
    """An answer without any action."""
    EMPTY_ACTION = "empty_action"
    """Nothing between two ``||``; skipped."""
    UNKNOWN_ACTION = "unknown_action"
    """A name that the game does not have; reading stops there."""
    TOO_MANY_ACTIONS = "too_many_actions"
    """More actions than a turn may have; the first ones count."""


class SoftDefect(StrEnum):
    """How an answer that can be read without guessing departs from ``A || B``.

    A soft defect leaves a reply valid, unless the setting ``soft_defects`` is "penalise".
    """

    LINE_BREAKS = "line_breaks"
    """Actions on separate lines."""
    COMMAS = "commas"
    """Actions separated by commas."""
    SEMICOLONS = "semicolons"
    """Actions separated by semicolons."""
    SINGLE_BARS = "single_bars"
    """Actions separated by ``|``."""
    ARROW_SEPARATORS = "arrow_separators"
    """Actions separated by arrows, such as ``->``."""
    WORD_SEPARATORS = "word_separators"
    """Actions separated by "and" or "then"."""
    NUMBERED_LIST = "numbered_list"
    """Actions with numbers before them, such as ``1. Up``."""
    BULLETED_LIST = "bulleted_list"
    """Actions with bullets before them, such as ``- Up``."""
    BRACKETED_LIST = "bracketed_list"
    """A list in square brackets, such as JSON's."""
    ARROW_SYMBOLS = "arrow_symbols"
    """Arrows that stand for the actions Up, Down, Left and Right."""
    MARKDOWN = "markdown"
    """Asterisks or backticks around an action."""
    PUNCTUATION = "punctuation"
    """Quotes, brackets or other punctuation around an action."""
    UNUSUAL_CHARACTERS = "unusual_characters"
    """Full-width characters, invisible characters or spaces other than the usual one."""
