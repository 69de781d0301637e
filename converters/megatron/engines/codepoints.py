"""Sets of code points as ranges: few numbers for many of them, and plain JSON."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

# First and last code point of each, both within; ascending, apart from each other.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

LARGEST: int = 0x10FFFF
FIRST_SURROGATE, LAST_SURROGATE = 0xD800, 0xDFFF


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Any ranges as those of a set: what touches or overlaps is one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def count(ranges: Ranges) -> int:
    """How many code points there are."""
    return sum(last - first + 1 for first, last in ranges)


def shown(ranges: Ranges, most: int) -> list[str]:
    """The first ranges for people, as `U+0899-U+089B`."""
    names = [
        f"U+{first:04X}" if first == last else f"U+{first:04X}-U+{last:04X}"
        for first, last in ranges[:most]
    ]
    return [*names, "..."] if len(ranges) > most else names


def pattern(ranges: Ranges) -> re.Pattern[str]:
    """Matches runs of them."""
    if not ranges:
        return re.compile(r"(?!)")
    parts = (f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    return re.compile(f"[{''.join(parts)}]+")


@cache
def unassigned() -> Ranges:
    """The code points that mean nothing yet, by the tables of this Python."""
    found: list[tuple[int, int]] = []
    first = None
    for point in range(LARGEST + 2):
        within = point <= LARGEST and unicodedata.category(chr(point)) == "Cn"
        if within and first is None:
            first = point
        elif not within and first is not None:
            found.append((first, point - 1))
            first = None
    return tuple(found)
