"""Rows to their places, within memory.

A record is a uint32[W]: the row's place among all shuffled rows, its label, then the bits of its
dense values and its ids.
"""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel


@kernel
def invert(permutation: NDArray[np.uint32], done: NDArray[np.uint8]) -> None:
    """Replace a permutation by its inverse, cycle by cycle.

    Args:
        permutation: uint32[n], overwritten.
        done: uint8[ceil(n / 8)], zeros: a bit per place.
    """
    for start in range(len(permutation)):
        if done[start >> 3] >> (start & 7) & 1:
            continue
        before, at = np.int64(start), np.int64(permutation[start])
        while at != start:
            following = np.int64(permutation[at])
            permutation[at] = before
            done[at >> 3] |= np.uint8(1 << (at & 7))
            before = at
            at = following
        permutation[start] = before


@kernel
def count_buckets(places: NDArray[np.uint32], size: int, counts: NDArray[np.int64]) -> None:
    """Add the rows of each bucket of `size` places to `counts`."""
    for place in places:
        counts[np.int64(place) // size] += 1


@kernel
def sort_into_buckets(
    places: NDArray[np.uint32],
    size: int,
    labels: NDArray[np.uint32],
    dense: NDArray[np.uint32],
    sparse: NDArray[np.uint32],
    ends: NDArray[np.int64],
    records: NDArray[np.uint32],
) -> None:
    """Make records of rows, those of a bucket side by side.

    Args:
        places: uint32[R], where each row goes.
        size: places of a bucket.
        labels: uint32[R].
        dense: uint32[R, D].
        sparse: uint32[S, R].
        ends: int64[buckets], where each bucket's records begin; moved to where they end.
        records: uint32[R, 2 + D + S], filled.
    """
    width = dense.shape[1]
    for row in range(len(places)):
        bucket = np.int64(places[row]) // size
        record = records[ends[bucket]]
        ends[bucket] += 1
        record[0] = places[row]
        record[1] = labels[row]
        for column in range(width):
            record[2 + column] = dense[row, column]
        for column in range(len(sparse)):
            record[2 + width + column] = sparse[column, row]


@kernel
def put_in_order(
    records: NDArray[np.uint32],
    first: int,
    labels: NDArray[np.uint32],
    dense: NDArray[np.uint32],
    sparse: NDArray[np.uint32],
) -> None:
    """Put the records of a bucket, which begins at place `first`, where they belong."""
    width = dense.shape[1]
    for number in range(len(records)):
        record = records[number]
        row = np.int64(record[0]) - first
        labels[row, 0] = record[1]
        for column in range(width):
            dense[row, column] = record[2 + column]
        for column in range(sparse.shape[1]):
            sparse[row, column] = record[2 + width + column]
