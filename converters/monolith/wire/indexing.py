"""Rows of records: where in their bytes the parts of an Example lie."""

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.contract import MAX_BATCH_ROWS, MAX_FEATURES
from ingot.converters.monolith.records import Bad, Places, Records, unframed
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.assembling import (
    UNSUPPORTED,
    Noted,
    assembled,
    joined,
    special_names,
)
from ingot.converters.monolith.wire.kernels import batches as b
from ingot.converters.monolith.wire.kernels import examples as w
from ingot.converters.monolith.wire.kernels.checking import scratch
from ingot.converters.monolith.wire.shapes import shapes
from ingot.converters.monolith.wire.unknown import is_known, known_by

_ENTRIES: Final = 1 << 17
"""Features of the rows of a batch that are taken at a time."""
_REPEATED: Final = 16 << 20
"""Bytes that a batch says once and each of its rows has, of the rows that are taken at a time."""
_SEED: Final = secrets.randbits(63)


def index_examples(records: Records) -> tuple[Rows, list[Bad]]:
    """The rows of records that are Examples.

    Records that are encoded in an unusual way are encoded anew by protobuf first.

    Returns:
        The rows of the good ones, in order, and what is wrong with the others.

    Raises:
        ConversionError: numba or protobuf is not installed.
    """
    rows, wrong, _ = examples_and_doubled(records)
    return rows, wrong


def examples_and_doubled(records: Records) -> tuple[Rows, list[Bad], NDArray[np.bool_]]:
    """The same, and which rows say something both in a field and in a feature: bool[R]."""
    records, at, wrong = _with_few_features(records)
    noted = _walked(records, at)
    odd = np.flatnonzero(noted.status == w.ODD)
    if len(odd):
        records, complaints = _encoded_anew(records, odd, at[odd], "Example")
        wrong += complaints
        noted = _walked(records, at)
        gone = {bad.record for bad in complaints}
        wrong += [
            _bad(records, int(one), int(at[one]), "message", UNSUPPORTED)
            for one in np.flatnonzero(noted.status == w.ODD)
            if int(at[one]) not in gone
        ]
    rows, of_rows, doubled = assembled(noted)
    return rows, sorted(wrong + of_rows, key=lambda bad: bad.record), doubled


def _with_few_features(records: Records) -> tuple[Records, Places, list[Bad]]:
    """Without records of too many features; the numbers of the records that are left."""
    counts = _counts(records)
    at = np.arange(records.number, records.number + len(records), dtype=np.int64)
    many = counts > MAX_FEATURES
    wrong = [_too_many(records, int(one), int(counts[one])) for one in np.flatnonzero(many)]
    return (chosen(records, ~many), at[~many], wrong) if wrong else (records, at, wrong)


def _counts(records: Records) -> Places:
    counts = np.empty(len(records), np.int64)
    w.count_entries(records.data, records.start, records.stop, counts)
    return counts


def _too_many(records: Records, one: int, count: int) -> Bad:
    number = records.number + one
    return _bad(
        records, one, number, "features", f"{count:,} of them; {MAX_FEATURES:,} are read at most"
    )


def chosen(records: Records, which: NDArray[np.bool_]) -> Records:
    """Some of the records. Their numbers are no longer consecutive: keep them elsewhere."""
    return replace(
        records,
        start=records.start[which],
        stop=records.stop[which],
        sort_start=records.sort_start[which],
        sort_stop=records.sort_stop[which],
        source=records.source[which],
        offset=records.offset[which],
    )


def _bad(records: Records, one: int, number: int, reason: str, detail: str) -> Bad:
    return Bad(
        offset=int(records.offset[one]),
        bytes=0,
        record=number,
        row=None,
        reason=reason,
        detail=detail,
    )


def _walked(records: Records, at: Places) -> Noted:
    count, entries_at_most = len(records), int(_counts(records).sum())
    first, status = np.empty(count + 1, np.int64), np.empty(count, np.int8)
    entries = np.empty((w.ENTRY, entries_at_most), np.int64)
    rows = np.empty((w.ROW, count), np.int64)
    name_start, name_stop = (np.empty(entries_at_most, np.int64) for _ in range(2))
    table = np.full(1 << max(4, (2 * entries_at_most).bit_length()), -1, np.int32)
    _, fields = shapes()
    names = w.walk_examples(
        records.data,
        records.start,
        records.stop,
        *special_names(),
        fields,
        scratch(),
        first,
        entries,
        rows,
        status,
        name_start,
        name_stop,
        table,
        _SEED,
    )
    if records.source.any():
        rows[w.SOURCE] = np.where(records.source > 0, records.source, rows[w.SOURCE])
    spans = zip(name_start[:names], name_stop[:names], strict=True)
    return Noted(
        data=records.data,
        names=tuple(records.data[start:stop].tobytes() for start, stop in spans),
        first=first,
        entries=entries[:, : first[-1]],
        rows=rows,
        status=status,
        sort_start=records.sort_start,
        sort_stop=records.sort_stop,
        record=at,
        offset=records.offset,
        row=np.full(count, -1, np.int64),
    )


def _encoded_anew(
    records: Records, odd: Places, at: Places, message: str
) -> tuple[Records, list[Bad]]:
    """Records of which some were encoded by protobuf, and those of them that it cannot read."""
    from ingot.converters.monolith.messages import DecodeError, example_pb2

    kind = getattr(example_pb2, message)
    wrong, pieces = [], {}
    for one, number in zip(odd, at, strict=True):
        try:
            pieces[one] = kind.FromString(records.message(one)).SerializeToString()
        except DecodeError:
            wrong.append(_bad(records, int(one), int(number), "message", f"it is no {message}"))
    data, begin, end = joined(records.data, list(pieces.values()))
    start, stop = records.start.copy(), records.stop.copy()
    which = np.fromiter(pieces, np.int64, len(pieces))
    start[which], stop[which] = begin, end
    return replace(records, data=data, start=start, stop=stop), wrong


def index_batches(records: Records, most: int = _ENTRIES) -> Iterator[tuple[Rows, list[Bad]]]:
    """The rows of records that are ExampleBatches, some at a time.

    Args:
        records: of which each is a batch.
        most: features of the rows that are given at a time; at least one row is.

    Yields:
        Rows of one batch, in order, and what is wrong with others of its rows; or no rows and what
        is wrong with the batch.

    Raises:
        ConversionError: numba or protobuf is not installed.
    """
    counts = _counts(records)
    for one in range(len(records)):
        number = records.number + one
        if counts[one] > MAX_FEATURES:
            yield no_rows(), [_too_many(records, one, int(counts[one]))]
            continue
        batch = records.part(one, one + 1)
        walked = _walked_batch(batch)
        if walked is None:
            batch, complaints = _encoded_anew(batch, _FIRST, _FIRST + number, "ExampleBatch")
            walked = None if complaints else _walked_batch(batch)
            if walked is None:
                unsupported = [_bad(batch, 0, number, "message", UNSUPPORTED)]
                yield no_rows(), complaints or unsupported
                continue
        yield from _rows_of_batch(batch, *walked, most)


_FIRST: Final = np.zeros(1, np.int64)


def no_rows() -> Rows:
    """No row at all."""
    return index_examples(unframed([]))[0]


def _walked_batch(batch: Records) -> tuple[NDArray[np.int64], Places] | None:
    """The tables of its lists and of what it says beside them; None where it is odd."""
    numbers, fields = shapes()
    lists, said = np.empty((b.LIST, int(_counts(batch)[0])), np.int64), np.empty(b.BATCH, np.int64)
    status = b.walk_lists(
        batch.data,
        int(batch.start[0]),
        int(batch.stop[0]),
        numbers["ExampleBatch"],
        *special_names(),
        fields,
        scratch(),
        lists,
        said,
    )
    return None if status == w.ODD else (lists[:, : said[b.BATCH_LISTS]], said)


def _rows_of_batch(
    batch: Records, lists: NDArray[np.int64], said: Places, most: int
) -> Iterator[tuple[Rows, list[Bad]]]:
    names = [
        batch.data[start:stop].tobytes()
        for start, stop in zip(lists[b.NAME_START], lists[b.NAME_STOP], strict=True)
    ]
    wrong = _wrong_batch(lists, names, int(said[b.BATCH_SIZE]))
    wrong = wrong or _wrong_unknown(batch, lists, said)
    if wrong:
        yield no_rows(), [_bad(batch, 0, batch.number, *wrong)]
        return
    distinct = {name: at for at, name in enumerate(dict.fromkeys(names))}
    lists[w.NAME] = [distinct[name] for name in names]
    cursors = lists[b.FIRST].copy()
    each = _rows_at_a_time(batch, lists, said, most)
    size = int(said[b.BATCH_SIZE])
    for row in range(0, size, each):
        count = min(each, size - row)
        yield assembled(_taken(batch, lists, said, tuple(distinct), cursors, row, count))[:2]


def _rows_at_a_time(batch: Records, lists: NDArray[np.int64], said: Places, most: int) -> int:
    """Rows that stand for few features, and few bytes that each of them repeats."""
    lengths = lists[b.NAME_STOP] - lists[b.NAME_START] + lists[w.EXTRA_STOP] - lists[w.EXTRA_START]
    lengths += np.where(lists[b.SHARED] == 1, lists[w.STOP] - lists[w.START], 0)
    rest = int(said[b.BATCH_REST_STOP] - said[b.BATCH_REST_START])
    repeated = int(lengths.sum()) + rest + len(batch.sort_id(0))
    return int(max(1, min(most // max(1, lists.shape[1]), _REPEATED // max(1, repeated))))


def _wrong_batch(lists: NDArray[np.int64], names: list[bytes], size: int) -> tuple[str, str] | None:
    """What does not fit together in a batch: reason and detail."""
    if not 0 <= size <= MAX_BATCH_ROWS:
        return "batch_size", f"batch_size is {size:,}; 0 to {MAX_BATCH_ROWS:,} are read"
    shared, counts = lists[b.SHARED] == 1, lists[b.COUNT]
    for at in np.flatnonzero(~shared & (counts != size)):
        found = f"{counts[at]:,} features, batch_size is {size:,}"
        return "batch_size", f"{_told(names[at])} has {found}"
    for at in np.flatnonzero(shared & (counts == 0)):
        return "shared", f"{_told(names[at])} is SHARED and has no feature"
    special = Counter(names[at] for at in np.flatnonzero(lists[b.SPECIAL]))
    for name, times in special.most_common(1):
        if times > 1:
            return "twice", f"{_told(name)} is there twice"
    return None


def _wrong_unknown(
    batch: Records, lists: NDArray[np.int64], said: Places
) -> tuple[str, str] | None:
    """Unknown fields that the Examples of a batch would know: reason and detail."""
    start, stop = said[b.BATCH_REST_START :][:1], said[b.BATCH_REST_STOP :][:1]
    found = is_known(batch.data, start, stop, "Example").any()
    extra, raw = (lists[w.EXTRA_START], lists[w.EXTRA_STOP]), lists[w.RAW] == 1
    found |= known_by(batch.data, *extra, raw, "NamedFeature", "NamedRawFeature").any()
    if found:
        return "unknown", "an unknown field has the number of one that an Example knows"
    if (extra[1] > extra[0])[lists[b.SPECIAL] > 0].any():
        return "unknown", "a list that says something of the rows has unknown fields beside it"
    return None


def _told(name: bytes) -> str:
    return repr(name.decode())[:80]


def _taken(
    batch: Records,
    lists: NDArray[np.int64],
    said: Places,
    names: tuple[bytes, ...],
    cursors: Places,
    row: int,
    count: int,
) -> Noted:
    each = int((lists[b.SPECIAL] == 0).sum())
    entries = np.empty((w.ENTRY, each * count), np.int64)
    rows = np.full((w.ROW, count), -1, np.int64)
    rows[w.WEIGHT] = 0
    rows[w.SOURCE] = batch.source[0] or said[b.BATCH_SOURCE]
    rows[w.REST : w.REST + 2] = said[b.BATCH_REST_START : b.BATCH_REST_STOP + 1, None]
    b.take_rows(batch.data, lists, cursors, count, entries, rows)
    return Noted(
        data=batch.data,
        names=names,
        first=np.arange(count + 1, dtype=np.int64) * each,
        entries=entries,
        rows=rows,
        status=np.zeros(count, np.int8),
        sort_start=np.repeat(batch.sort_start, count),
        sort_stop=np.repeat(batch.sort_stop, count),
        record=np.full(count, batch.number, np.int64),
        offset=np.repeat(batch.offset, count),
        row=np.arange(row, row + count, dtype=np.int64),
    )
