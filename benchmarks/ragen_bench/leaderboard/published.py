"""Entries of older suite versions that stay on the leaderboard until others replace them.

Their episodes can no longer be replayed, so only those that were checked when they were published are
accepted.
"""

from collections.abc import Mapping
from typing import Final

PUBLISHED: Final[Mapping[int, frozenset[str]]] = {
    1: frozenset(
        {
            "78bfbbab9f3ce23d0093e604dfd9766bef06764089f58e7efee307ea62e08e80",
            "45bdb01b1276e7f0ac729205d61ca7bb45aa87e2c545f25ddf16e658464447bf",
            "1eb5e978c3774d8fdafbeb2a6f2cd63a5db844743a7089ffdbd9aeaaeaddf6fd",
            "f829354ddb5dc28e9492eb8cf6aa00aafa63bf67101df9b91050e25faad4c817",
            "5b20097e0941f450e756fa824fc111ca531760f9bf8b0aa68fec3146b9588b40",
            "772f4fc13e944fa654b55faa3172dfb23fccbc8b528b03a036d05151506559d0",
            "8465fb738cf20bb4ab0567891355f012124f0acb26b28e9ebca07714e38dc78a",
            "cf252523d499b6b0b25f789543a10b48ee24de89edf0eda4740b862fc64d37ef",
            "9768ff7adb68531135016d31039ab8ca2818d1885b55ee8b003f9d7310438373",
            "71292ff1752f9f8bc192324b8e082e4ca26790acb5cf7a1dc62ea5e8be063ab2",
        }
    ),
}
"""By suite version the hashes of the entries' episodes."""
