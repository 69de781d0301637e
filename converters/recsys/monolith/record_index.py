"""Records and rows as places in the bytes that hold them, and what is wrong with records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.contract import REASONS

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
_Which = slice | NDArray[np.bool_] | Places


@dataclass(frozen=True, kw_only=True)
class Records:
    """Consecutive records of one stream, R of them."""

    data: Bytes  # uint8[B] that all places point into; never written to
    start: Places  # int64[R] where messages begin
    stop: Places  # int64[R] where they end
    sort_start: Places  # int64[R] where the sort_ids of their frames begin
    sort_stop: Places  # int64[R] where these end; equal where there is none
    # uint32[R] the data_source_key of a lagrangex header; 0 under other framings
    source: NDArray[np.uint32]
    offset: Places  # int64[R] where their frames begin, in bytes of the decompressed stream
    record: Places  # int64[R] their numbers in the stream, from 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", frozen(self.data))

    def __len__(self) -> int:
        return len(self.start)

    def message(self, number: int) -> bytes:
        """Return the bytes of message `number`."""
        return self.data[self.start[number] : self.stop[number]].tobytes()

    def sort_id(self, number: int) -> bytes:
        """Return the sort_id of record `number`."""
        return self.data[self.sort_start[number] : self.sort_stop[number]].tobytes()

    def part(self, first: int, last: int) -> "Records":
        """Return records first..last-1."""
        return self.select(slice(first, last))

    def select(self, which: _Which) -> "Records":
        """Return some of the records."""
        arrays = {name: array[which] for name, array in vars(self).items() if name != "data"}
        return replace(self, **arrays)

    def with_messages(self, messages: dict[int, bytes]) -> "Records":
        """Return the same records, some of them with other messages."""
        data, starts, stops = append_pieces(self.data, list(messages.values()))
        numbers = np.fromiter(messages, np.int64, len(messages))
        start, stop = self.start.copy(), self.stop.copy()
        start[numbers], stop[numbers] = starts, stops
        return replace(self, data=data, start=start, stop=stop)

    def bad(self, number: int, reason: str, detail: str) -> "Bad":
        """Return what is wrong with record `number`."""
        offset, record = int(self.offset[number]), int(self.record[number])
        return Bad(offset=offset, record=record, reason=reason, detail=detail)


def records_of_messages(
    messages: Sequence[bytes],
    sort_ids: Sequence[bytes] | None = None,
    sources: Sequence[int] | None = None,
    first: int = 0,
) -> Records:
    """Return messages of no stream as records behind their sort_ids, numbered from `first`."""
    pairs = zip(sort_ids or [b""] * len(messages), messages, strict=True)
    data, start, stop = append_pieces(
        np.zeros(0, np.uint8), [one for pair in pairs for one in pair]
    )
    return Records(
        data=data,
        start=start[1::2].copy(),
        stop=stop[1::2].copy(),
        sort_start=start[::2].copy(),
        sort_stop=stop[::2].copy(),
        source=np.array(sources or [0] * len(messages), np.uint32),
        offset=start[::2].copy(),
        record=np.arange(first, first + len(messages)),
    )


def append_pieces(data: Bytes, pieces: Sequence[bytes]) -> tuple[Bytes, Places, Places]:
    """Return bytes with others appended, and where each of these begins and ends."""
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    stop = len(data) + np.cumsum(sizes)
    appended = np.frombuffer(b"".join(pieces), np.uint8)
    return frozen(np.concatenate([data, appended])), stop - sizes, stop


def append_rewritten(
    data: Bytes, start: Places, which: Places, rewrite: Callable[[int], bytes]
) -> tuple[Bytes, Places, Places]:
    """Append what `rewrite` makes of some stretches, once of those that begin in one place.

    What all rows of a batch share lies in one place.
    """
    _, sample, of_place = np.unique(start[which], return_index=True, return_inverse=True)
    data, begins, ends = append_pieces(data, [rewrite(int(one)) for one in which[sample]])
    return data, begins[of_place], ends[of_place]


@dataclass(frozen=True, kw_only=True)
class Bad:
    """Something in a stream that is no record, or a record or row that cannot be used."""

    offset: int  # where its frame begins, in bytes of the decompressed stream
    bytes: int = 0  # of the stream that were passed over; 0 where framing found a record
    record: int  # number of the record in the stream, from 0
    row: int | None = None  # number of the row in its batch, from 0; None for the whole record
    reason: str  # one of `contract.REASONS`
    detail: str


ENTRY_ARRAYS: Final = (
    *("name", "raw", "start", "stop"),
    *("ident", "sorted_id", "extra_start", "extra_stop"),
)
"""The arrays of `Rows` that have a value for each feature."""
ROW_ARRAYS: Final = (
    *("line_start", "line_stop", "weighted", "weight", "source", "rest_start", "rest_stop"),
    *("sort_start", "sort_stop", "record", "offset", "row"),
)
"""Those that have one for each row."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """R rows with E features in all: what an Example says, as places in bytes.

    A feature is an entry: those of row r are `first[r]`..`first[r + 1] - 1`, in their order in the
    record. `__LINE_ID__`, `__LABEL__` and `instance_weight` are no entries: what they say stands in
    the row's own arrays, whether it came in fields or in features.
    """

    data: Bytes  # uint8[B] that all places point into; never written to
    names: tuple[bytes, ...]  # the distinct names, in UTF-8; `name` counts in them
    first: Places  # int64[R + 1] entries before each row
    name: NDArray[np.int32]  # int32[E] number of the name
    raw: NDArray[np.bool_]
    # int64[E] where the content of the `Feature` (or `RawFeature`) message begins; -1 where the
    # named feature has none at all, which reads as an unset one
    start: Places
    stop: Places  # int64[E] where it ends; equal to start where the feature is unset
    ident: NDArray[np.int32]  # int32[E] `id` of the feature
    sorted_id: NDArray[np.int32]  # int32[E] `sorted_id` of the feature
    extra_start: Places  # int64[E] where unknown fields of the named feature begin
    extra_stop: Places  # int64[E] where they end
    line_start: Places  # int64[R] where the LineId's content begins; -1 where the row has none
    line_stop: Places  # int64[R] where it ends; -1 where the row has none
    label_first: Places  # int64[R + 1] labels before each row
    label: NDArray[np.float32]  # float32[L]
    weighted: NDArray[np.bool_]
    weight: NDArray[np.float32]  # float32[R] instance_weight; 0 where it is not given
    source: NDArray[np.uint32]  # uint32[R] data_source_key; 0 where it is not given
    rest_start: Places  # int64[R] where unknown fields of the record begin
    rest_stop: Places  # int64[R] where they end
    sort_start: Places  # int64[R] where the sort_id of the record's frame begins
    sort_stop: Places  # int64[R] where it ends; equal where there is none
    record: Places  # int64[R] number of the record in the stream, from 0
    offset: Places  # int64[R] where the record's frame begins, in bytes of the decompressed stream
    row: Places  # int64[R] number of the row in its batch, from 0; -1 for other records

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", frozen(self.data))

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def entry_row(self) -> Places:
        """Return int64[E]: the row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))

    def line_id(self, number: int) -> bytes | None:
        """Return the serialized LineId of row `number`, None if it has none."""
        start, stop = int(self.line_start[number]), int(self.line_stop[number])
        return None if start < 0 else self.data[start:stop].tobytes()

    def feature(self, entry: int) -> bytes:
        """Return the serialized content of the `Feature` message of an entry."""
        return self.data[self.start[entry] : self.stop[entry]].tobytes()

    def labels(self, number: int) -> NDArray[np.float32]:
        """Return the labels of row `number`: float32[K]."""
        return self.label[self.label_first[number] : self.label_first[number + 1]]

    def row_in_batch(self, number: int) -> int | None:
        """Return the number of row `number` in its batch, None if its record is not a batch."""
        row = int(self.row[number])
        return None if row < 0 else row

    def bad(self, number: int, reason: str, detail: str) -> Bad:
        """Return what is wrong with row `number`."""
        return Bad(
            offset=int(self.offset[number]),
            record=int(self.record[number]),
            row=self.row_in_batch(number),
            reason=reason,
            detail=detail,
        )

    def part(self, start: int, end: int) -> "Rows":
        """Return rows begin..end-1, in the same bytes."""
        first, last = int(self.first[start]), int(self.first[end])
        labels = slice(int(self.label_first[start]), int(self.label_first[end]))
        entries, ends = self.first[start : end + 1], self.label_first[start : end + 1]
        before = entries - first, ends - labels.start
        return self._some(slice(first, last), slice(start, end), labels, before)

    def chosen(
        self, is_chosen: NDArray[np.bool_], features: NDArray[np.bool_] | None = None
    ) -> "Rows":
        """Return some of the rows, in the same bytes."""
        counts = np.diff(self.first)
        entries = np.repeat(is_chosen, counts)
        if features is not None:
            entries &= features
            counts = np.bincount(self.entry_row[entries], minlength=len(self))
        labels = np.diff(self.label_first)
        before = prefix_sums(counts[is_chosen]), prefix_sums(labels[is_chosen])
        return self._some(entries, is_chosen, np.repeat(is_chosen, labels), before)

    def _some(
        self, entries: _Which, rows: _Which, labels: _Which, before: tuple[Places, Places]
    ) -> "Rows":
        """Some entries, rows and labels; `before`: entries, and labels, before each row."""
        return replace(
            self,
            first=before[0],
            label_first=before[1],
            label=self.label[labels],
            **{name: getattr(self, name)[entries] for name in ENTRY_ARRAYS},
            **{name: getattr(self, name)[rows] for name in ROW_ARRAYS},
        )


def prefix_sums(counts: NDArray[Any] | list[int]) -> Places:
    """Return int64[N + 1]: the sum of the counts before each position, and of all."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


class RowArrays(NamedTuple):
    """The arrays of `Rows` as kernels take them: none is written to."""

    data: Bytes
    names: Bytes  # uint8[S] the distinct names
    name_first: Places  # int64[N + 1] where each of them begins
    first: Places
    name: NDArray[np.int32]
    raw: NDArray[np.bool_]
    start: Places
    stop: Places
    ident: NDArray[np.int32]
    sorted_id: NDArray[np.int32]
    extra_start: Places
    extra_stop: Places
    line_start: Places
    line_stop: Places
    label_first: Places
    label: Bytes  # uint8[4 L] the bytes of the labels
    weight: NDArray[np.uint32]  # uint32[R] the bits of instance_weight; 0 where it is not given
    source: NDArray[np.uint32]
    rest_start: Places
    rest_stop: Places
    sort_start: Places
    sort_stop: Places


def kernel_rows(rows: Rows) -> RowArrays:
    """Return the arrays of rows for kernels, all of one layout: kernels are compiled once."""
    arrays = {name: getattr(rows, name) for name in RowArrays._fields if name != "name_first"}
    arrays["names"] = np.frombuffer(b"".join(rows.names), np.uint8)
    arrays["name_first"] = prefix_sums([len(name) for name in rows.names])
    arrays["label"] = rows.label.view(np.uint8)
    arrays["weight"] = np.where(rows.weighted, rows.weight.view(np.uint32), 0).astype(np.uint32)
    return RowArrays(**{name: frozen(array) for name, array in arrays.items()})


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, or a contiguous copy or view of it, that cannot be written to."""
    if array.flags.c_contiguous and not array.flags.writeable:
        return array
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def describe_bad(bad: Bad) -> str:
    """Describe a bad record: where it is, what is wrong and what was found."""
    row = "" if bad.row is None else f", row {bad.row:,}"
    if bad.reason == "unreadable":  # it has no place
        return f"{REASONS[bad.reason]}, {bad.detail}"
    detail = f": {bad.detail}" if bad.detail else ""
    return f"record {bad.record:,}{row}, offset {bad.offset:,}: {REASONS[bad.reason]}{detail}"
