"""Dense values: counts to logarithms, with numpy's bits.

Only `np.log(int32, dtype=float32)` gives the reference's bits; other routines differ in the last.
"""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DENSE

_ROWS: Final = 1 << 18


def ln3(raw: NDArray[np.int32]) -> NDArray[np.float32]:
    """ln(x + 3) in float32; x + 3 wraps at the end of int32, ln of 0 and below are -inf and NaN.

    Args:
        raw: int32[R, 13], overwritten.
    """
    raw += 3
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(raw, dtype=np.float32)


def min2_in_place(path: Path, rows: int, offset: int, least: int) -> NDArray[np.int64]:
    """Replace raw values in a file by ln(x - least + 2), with int32's wrapping.

    Args:
        path: a file with int32[rows, 13] at `offset`.
        rows: see there.
        offset: in bytes.
        least: the smallest of all values.

    Returns:
        int64[13], the values that are no finite number, by column.
    """
    nonfinite = np.zeros(DENSE, np.int64)
    subtract = np.int32((least - 2 + (1 << 31)) % (1 << 32) - (1 << 31))
    for start in range(0, rows, _ROWS):
        shape = (min(_ROWS, rows - start), DENSE)
        at = offset + start * DENSE * 4
        values = np.memmap(path, np.int32, "r+", at, shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            changed = np.log(values - subtract, dtype=np.float32)
        nonfinite += count_nonfinite(changed)
        values.view(np.float32)[:] = changed
    return nonfinite


def count_nonfinite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """int64[13], infinities and NaNs by column."""
    bad: NDArray[np.bool_] = ~np.isfinite(values)
    if not bad.any():
        return np.zeros(DENSE, np.int64)
    counts: NDArray[np.int64] = bad.sum(axis=0, dtype=np.int64)
    return counts
