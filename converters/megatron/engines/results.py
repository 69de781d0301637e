"""What engines give back, put together: rows, parts of a batch, bad texts found by halving."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded, Ids, Lengths

Call: TypeAlias = Callable[[pa.LargeStringArray], Encoded]


class RefusedError(Exception):
    """A library refused a call; one bad text fails the whole of it."""


def nothing() -> Encoded:
    """The ids of no text."""
    return Encoded(ids=np.empty(0, np.uint32), lengths=np.empty(0, np.int64))


def from_rows(rows: Sequence[npt.NDArray[np.uint32]]) -> Encoded:
    """Texts whose ids stand in an array each."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Encoded(ids=np.concatenate([np.empty(0, np.uint32), *rows]), lengths=lengths)


def ends(lengths: Lengths) -> Lengths:
    """Where the ids of each text begin and, one more, where the last ones end; int64."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def same(one: Encoded, other: Encoded) -> bool:
    """Whether two results hold the same ids, text by text, and fail on the same texts."""
    return (
        np.array_equal(one.lengths, other.lengths)
        and np.array_equal(one.ids, other.ids)
        and [position for position, _ in one.failed] == [position for position, _ in other.failed]
    )


def differing(one: Encoded, other: Encoded) -> list[int]:
    """Positions of the texts on which two results of the same texts differ, ascending."""
    if same(one, other):
        return []
    failed = [{position for position, _ in encoded.failed} for encoded in (one, other)]
    unlike = one.lengths != other.lengths
    starts, other_starts = ends(one.lengths), ends(other.lengths)
    return [
        position
        for position, (length, start, other_start) in enumerate(
            zip(one.lengths.tolist(), starts.tolist(), other_starts.tolist(), strict=False)
        )
        if unlike[position]
        or (position in failed[0]) != (position in failed[1])
        or not np.array_equal(
            one.ids[start : start + length], other.ids[other_start : other_start + length]
        )
    ]


def merged(count: int, parts: Sequence[tuple[npt.NDArray[np.int64], Encoded]]) -> Encoded:
    """The results of parts of a batch as the result of the batch.

    Args:
        count: number of texts in the batch.
        parts: positions in the batch (ascending within a part; every one in one part) and what
            the texts there gave.
    """
    lengths = np.zeros(count, np.int64)
    for positions, encoded in parts:
        lengths[positions] = encoded.lengths
    starts = ends(lengths)
    ids: Ids = np.empty(starts[-1], np.uint32)
    for positions, encoded in parts:
        _place(ids, starts[positions], encoded)
    failed = [
        (int(positions[position]), problem)
        for positions, encoded in parts
        for position, problem in encoded.failed
    ]
    return Encoded(ids=ids, lengths=lengths, failed=tuple(sorted(failed)))


def _place(ids: Ids, starts: Lengths, encoded: Encoded) -> None:
    """Copy the ids of each text to where they start: runs that stay together in one go."""
    if not len(encoded.lengths):
        return
    begins = ends(encoded.lengths)
    shift = starts - begins[:-1]
    breaks = np.flatnonzero(np.diff(shift)) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(shift)], strict=True):
        begin, end = int(begins[first]), int(begins[last])
        ids[begin + shift[first] : end + shift[first]] = encoded.ids[begin:end]


def bisected(texts: pa.LargeStringArray, call: Call) -> Encoded:
    """Encode; a call that is refused is halved until the text that is the reason stands alone.

    Args:
        texts: the texts.
        call: encodes them, or raises RefusedError.
    """
    try:
        return call(texts) if len(texts) else nothing()
    except RefusedError as error:
        if len(texts) == 1:
            return Encoded(
                ids=np.empty(0, np.uint32),
                lengths=np.zeros(1, np.int64),
                failed=((0, str(error)),),
            )
    middle = len(texts) // 2
    first, second = bisected(texts[:middle], call), bisected(texts[middle:], call)
    return Encoded(
        ids=np.concatenate([first.ids, second.ids]),
        lengths=np.concatenate([first.lengths, second.lengths]),
        failed=first.failed + tuple((middle + at, problem) for at, problem in second.failed),
    )
