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


def runs(texts: pa.LargeStringArray, size: int) -> list[pa.LargeStringArray]:
    """The texts in runs of about `size` bytes; a longer text is a run by itself."""
    starts = offsets(texts)
    found: list[pa.LargeStringArray] = []
    first = 0
    while first < len(texts):
        last = int(np.searchsorted(starts, starts[first] + size, side="right")) - 1
        last = max(last, first + 1)
        found.append(texts[first:last])
        first = last
    return found


def offsets(texts: pa.LargeStringArray) -> Lengths:
    """Where the texts begin in their buffer of bytes and, one more, where the last ends; int64."""
    first = texts.offset
    if not len(texts):
        return np.zeros(1, np.int64)
    return np.frombuffer(texts.buffers()[1], np.int64)[first : first + len(texts) + 1]


def text_bytes(texts: pa.LargeStringArray) -> npt.NDArray[np.uint8]:
    """The bytes of all texts, without a copy; `offsets` tells where each begins, less the first."""
    starts = offsets(texts)
    buffer = texts.buffers()[2] if len(texts) else None
    if buffer is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(buffer, np.uint8)[starts[0] : starts[-1]]


def joined(parts: Sequence[Encoded]) -> Encoded:
    """Results of runs of texts as the result of all."""
    if len(parts) == 1:
        return parts[0]
    starts = ends(np.array([len(part.lengths) for part in parts], np.int64)).tolist()
    failed = [
        (start + position, problem)
        for start, part in zip(starts[:-1], parts, strict=True)
        for position, problem in part.failed
    ]
    return Encoded(
        ids=np.concatenate([np.empty(0, np.uint32), *(part.ids for part in parts)]),
        lengths=np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]),
        failed=tuple(failed),
    )


def bisected(texts: pa.LargeStringArray, call: Call) -> Encoded:
    """Encode; a call that is refused is halved until the text that is the reason stands alone.

    Args:
        texts: the texts.
        call: encodes them, or raises RefusedError.
    """
    try:
        return call(texts)
    except RefusedError as error:
        if len(texts) == 1:
            return Encoded(
                ids=np.empty(0, np.uint32),
                lengths=np.zeros(1, np.int64),
                failed=((0, str(error)),),
            )
    middle = len(texts) // 2
    return joined([bisected(texts[:middle], call), bisected(texts[middle:], call)])
