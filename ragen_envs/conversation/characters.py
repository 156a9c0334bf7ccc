"""Characters that look like others, or like nothing, replaced by the usual ones."""

from typing import Final

INVISIBLE: Final = "\u00ad\u180e\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff"
"""Zero-width spaces and joiners, soft hyphens, byte order marks and variation selectors."""
_SPACES: Final = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTES: Final = {"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "、": ",", "。": "."}
FULL_WIDTH: Final = 0xFEE0
"""Distance of a full-width form from its ASCII character."""

_USUAL: Final = str.maketrans(
    {
        **dict.fromkeys(INVISIBLE, ""),
        **dict.fromkeys(_SPACES, " "),
        **_QUOTES,
        **{chr(code + FULL_WIDTH): chr(code) for code in range(ord("!"), ord("~") + 1)},
    }
)


def usual_characters(text: str) -> str:
    """Return a text without invisible characters and with ASCII spaces, quotes and letters.

    Each character is replaced by itself, so the time is linear; ``unicodedata.normalize`` takes quadratic
    time on a long run of combining characters.
    """
    return text if text.isascii() else text.translate(_USUAL)
