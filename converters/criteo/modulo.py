"""Ids modulo the sizes of their tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def take_modulo(columns: npt.NDArray[Any], sizes: Sequence[int]) -> None:
    """Take ids modulo sizes, in place; results are from 0, as Python's and numpy's `%` has it.

    Args:
        columns: int32 or int64 [F, B].
        sizes: F numbers from 1 to 2**31 - 1.
    """
    if not columns.size:
        return
    # As unsigned numbers, those below 0 are beyond every size.
    largest = columns.view(f"u{columns.dtype.itemsize}").max(axis=1)
    for place in np.flatnonzero(largest >= np.asarray(sizes, largest.dtype)).tolist():
        # Few columns have such an id. numpy divides by one number four times as fast as it finds
        # remainders.
        quotients = np.floor_divide(columns[place], sizes[place])
        quotients *= sizes[place]
        columns[place] -= quotients
