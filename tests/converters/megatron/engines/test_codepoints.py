"""Sets of code points."""

import re

from ingot.converters.megatron.engines.engine import (
    count_points,
    format_ranges,
    merge_ranges,
    ranges_pattern,
)


def test_ranges_are_merged_where_they_touch():
    assert merge_ranges([(9, 9), (1, 3), (4, 5), (2, 2), (7, 7)]) == ((1, 5), (7, 7), (9, 9))
    assert merge_ranges([]) == ()
    assert count_points(((1, 5), (7, 7))) == 6


def test_ranges_are_shown_shortened():
    ranges = ((0x17F, 0x17F), (0x899, 0x89B), (0x113C2, 0x113C5))
    assert format_ranges(ranges, 2) == ["U+017F", "U+0899-U+089B", "..."]
    assert format_ranges(ranges, 3)[-1] == "U+113C2-U+113C5"


def test_the_pattern_matches_them_alone():
    found = ranges_pattern(((0x17F, 0x17F), (0x5D, 0x5E), (0x113C2, 0x113C5)))
    assert found.sub("", "aſ]b^\U000113c3\\-[c") == "ab\\-[c"
    assert ranges_pattern(()).sub("", "any") == "any"
    assert isinstance(found, re.Pattern)
