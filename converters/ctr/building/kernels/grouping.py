"""Tokens by row, then by field: from one list of all to a list for each field."""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel


@kernel
def group(
    rows: NDArray[np.int32],
    fields: NDArray[np.int16],
    codes: NDArray[np.int32],
    values: NDArray[np.float32],
    count: int,
    kinds: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Order tokens by (field, row), keeping the order within both.

    Args:
        rows: row of each token, ascending.
        fields: field of each token.
        codes: code of each token.
        values: value of each token.
        count: rows.
        kinds: fields.

    Returns:
        starts[kinds + 1] of each field's tokens; offsets[kinds, count + 1] of each row's tokens
        among them; codes and values in the new order.
    """
    offsets = np.zeros((kinds, count + 1), np.int32)
    for at in range(len(rows)):
        offsets[fields[at], rows[at] + 1] += 1
    starts = np.zeros(kinds + 1, np.int64)
    for kind in range(kinds):
        for row in range(count):
            offsets[kind, row + 1] += offsets[kind, row]
        starts[kind + 1] = starts[kind] + offsets[kind, count]
    free = starts[:-1].copy()
    new_codes = np.empty(len(rows), np.int32)
    new_values = np.empty(len(rows), np.float32)
    for at in range(len(rows)):
        place = free[fields[at]]
        new_codes[place] = codes[at]
        new_values[place] = values[at]
        free[fields[at]] = place + 1
    return starts, offsets, new_codes, new_values


@kernel
def count_codes(codes: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Count occurrences."""
    for at in range(len(codes)):
        counts[codes[at]] += 1


@kernel
def count_weighted(
    offsets: NDArray[np.int32],
    codes: NDArray[np.int32],
    weights: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count occurrences, those of row i weights[i] times."""
    for row in range(len(weights)):
        if weights[row]:
            for at in range(offsets[row], offsets[row + 1]):
                counts[codes[at]] += weights[row]
