"""Characters beside which every normalization of Unicode is independent of both sides."""

import unicodedata
from functools import lru_cache
from typing import Final

# Conjoining Hangul; Thai and Lao, whose AM vowels join the cluster before them; compatibility
# and halfwidth Hangul, which decompose into conjoining ones.
_JOINING: Final = (
    (0x0E00, 0x0EFF),
    (0x1100, 0x11FF),
    (0x3130, 0x318F),
    (0xA960, 0xA97F),
    (0xD7B0, 0xD7FF),
    (0xFFA0, 0xFFDC),
)


@lru_cache(maxsize=1 << 16)
def is_plain(char: str) -> bool:
    """Does nothing before this character compose, reorder or cluster with it?

    Neither with what comes behind it, if that is plain too. Only characters that every version of
    Unicode since 3.2 puts in the same category: a library's tables may be older or newer.
    """
    if char < "\x80":
        return char.isprintable() or char in "\t\n"
    category = unicodedata.category(char)
    if category[0] in "MC" or unicodedata.ucd_3_2_0.category(char) != category:
        return False
    if any(first <= ord(char) <= last for first, last in _JOINING):
        return False
    return starts_apart(unicodedata.normalize("NFKD", char))


def starts_apart(text: str) -> bool:
    """Does the text begin with a character that composes with none before it?"""
    return unicodedata.category(text[0])[0] != "M" and unicodedata.combining(text[0]) == 0
