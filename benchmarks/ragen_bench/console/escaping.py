"""Escape the characters of untrusted text that are not shown as they are."""


def escape_unprintable(text: str, kept: str = "") -> str:
    """Return a text with its unprintable characters written as code points, such as ⟨U+202E⟩.

    These are control characters, marks that change the direction of text, and zero-width characters.
    """
    if text.isprintable():
        return text
    return "".join(s if s.isprintable() or s in kept else f"⟨U+{ord(s):04X}⟩" for s in text)
