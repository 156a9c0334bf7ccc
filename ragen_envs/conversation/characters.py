"""Characters that look like others, or like nothing, replaced by the usual ones."""

from typing import Final

INVISIBLE: Final = "\u00ad\u180e\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff"
"""Zero-width spaces and joiners, soft hyphens, byte order marks and variation selectors."""
_SPACES: Final = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTES: Final = {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "、": ",", "。": "."}
_SIGNS: Final = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-"),
    **dict.fromkeys("⋅∙‧・", "·"), **dict.fromkeys("✕✖⨉⨯", "×"), "∗": "*", "∕": "/", "⁄": "/",
}  # fmt: skip
"""Dashes and minus signs, dots, crosses and slashes, which models take for each other."""
FULL_WIDTH: Final = 0xFEE0
"""Distance of a full-width form from its ASCII character."""

_USUAL: Final = str.maketrans(
    {
        **dict.fromkeys(INVISIBLE, ""),
        **dict.fromkeys(_SPACES, " "),
        **_QUOTES,
        **_SIGNS,
        **{chr(code + FULL_WIDTH): chr(code) for code in range(ord("!"), ord("~") + 1)},
    }
)


def usual_characters(text: str) -> str:
    """Return a text without invisible characters and with usual spaces, quotes, letters and signs.

    Each character is replaced by itself, so the time is linear; ``unicodedata.normalize`` takes quadratic
    time on a long run of combining characters.
    """
    return text if text.isascii() else text.translate(_USUAL)
