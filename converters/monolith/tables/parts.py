"""Rows taken apart, so that what is made of them at a time is bounded.

What all rows of a batch share lies in the bytes once, and is written for each row.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ingot.converters.monolith.records import Places
from ingot.converters.monolith.rows import Rows

PART_BYTES: Final = 32 << 20
"""Bytes of what the rows of a part say, or of one row."""


def bounded(rows: Rows, most: int = 1 << 62) -> Iterator[Rows]:
    """Consecutive rows that say no more than `PART_BYTES`, at least one at a time.

    Args:
        rows: to be taken apart.
        most: rows at a time.
    """
    ends = np.cumsum(_row_bytes(rows))
    first, before = 0, 0
    while first < len(rows):
        fitting = int(np.searchsorted(ends, before + PART_BYTES, "right"))
        last = min(max(first + 1, fitting), first + most)
        yield rows.part(first, last)
        first, before = last, int(ends[last - 1])


def _row_bytes(rows: Rows) -> Places:
    """int64[R], bytes that each row says; as columns a varint may be eight of them."""
    of_entries = (rows.stop - rows.start) + (rows.extra_stop - rows.extra_start)
    ends = np.concatenate([[0], np.cumsum(of_entries)])
    line, rest = rows.line_stop - rows.line_start, rows.rest_stop - rows.rest_start
    labels, sort_id = np.diff(rows.label_first) * 4, rows.sort_stop - rows.sort_start
    size: Places = np.diff(ends[rows.first]) + line + rest + labels + sort_id
    return size
