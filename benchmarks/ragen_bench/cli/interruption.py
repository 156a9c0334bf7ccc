"""Ctrl-C in commands that say what they have saved."""


class InterruptedCommandError(Exception):
    """Ctrl-C or SIGTERM ended a command; the message says what is saved and how to resume."""
