"""Texts of strangers, with what could hide in them or obey them made visible."""


def visible(text: str, kept: str = "") -> str:
    """Return a text whose unprintable characters are written by number, such as ⟨U+202E⟩.

    Those are control characters, marks that turn the direction of text, and signs without width.

    Args:
        text: Any text.
        kept: Characters to leave as they are, such as a line's end.
    """
    if text.isprintable():
        return text
    return "".join(s if s.isprintable() or s in kept else f"⟨U+{ord(s):04X}⟩" for s in text)
