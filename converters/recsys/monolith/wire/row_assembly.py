"""Assemble rows from what kernels noted of them; join rows, and copy them into their own bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.record_index import (
    ENTRY_ARRAYS,
    ROW_ARRAYS,
    Bad,
    Bytes,
    Places,
    Records,
    Rows,
    append_pieces,
    frozen,
    prefix_sums,
)
from ingot.converters.recsys.monolith.wire import example_kernels as w
from ingot.converters.recsys.monolith.wire.format_kernels import (
    message_shapes,
    new_grammar,
    put_bytes,
)
from ingot.converters.recsys.monolith.wire.writer_kernels import put_framed, put_varints


def rewrite_special(feature: bytes, status: int) -> bytes | str:
    """Return a special feature written as `read_special` reads it, or what is wrong with it."""
    from ingot.converters.recsys.monolith.contract import example_pb2

    message = example_pb2.Feature.FromString(feature)
    before = message.SerializeToString()
    message.DiscardUnknownFields()
    if message.SerializeToString() != before:
        return "it has unknown fields, which would be lost"
    return _SPECIAL[status].rewrite(message)


def _rewrite_line(message: Any) -> bytes | str:  # noqa: ANN401 - a message
    from ingot.converters.recsys.monolith.contract import DecodeError, line_id_pb2

    values = message.bytes_list.value
    if len(values) != 1:
        return f"it has {len(values)} values"
    try:
        values[0] = line_id_pb2.LineId.FromString(values[0]).SerializeToString()
    except DecodeError:
        return "its bytes are not a LineId"
    return bytes(message.SerializeToString())


def _rewrite_weight(message: Any) -> bytes | str:  # noqa: ANN401
    count = len(message.float_list.value)
    return f"it has {count} values" if count > 1 else _rewrite_floats(message)


def _rewrite_floats(message: Any) -> bytes | str:  # noqa: ANN401
    kind = message.WhichOneof("type")
    if kind not in (None, "float_list"):
        return f"it has {kind}"
    return bytes(message.SerializeToString())


class _Special(NamedTuple):
    """A special feature: the reason of its rejects, its place among what is noted of rows."""

    reason: str
    place: int
    rewrite: Callable[[Any], bytes | str]


_SPECIAL: Final = {
    w.BAD_LINE: _Special("line_id", w.LINE_FEATURE, _rewrite_line),
    w.BAD_LABEL: _Special("label", w.LABEL_FEATURE, _rewrite_floats),
    w.BAD_WEIGHT: _Special("weight", w.WEIGHT_FEATURE, _rewrite_weight),
}
_EXTRA_UNKNOWN: Final = (
    "unknown",
    "a feature that describes the row has unknown fields beside its value",
)
UNSUPPORTED: Final = "its encoding is not supported"
_TWICE: Final = "a field and a feature, or two features, describe the row differently"


@dataclass(frozen=True, kw_only=True)
class WalkedRows:
    """What kernels noted of R rows with E features."""

    records: Records  # the record of each row
    names: tuple[bytes, ...]
    first: Places  # int64[R + 1] entries before each row
    entries: NDArray[np.int64]  # int64[ENTRY, E]
    rows: NDArray[np.int64]  # int64[ROW, R]
    status: NDArray[np.int8]  # int8[R]
    row: Places  # int64[R] as in `Rows`

    def content(self, field_row: int, row: int) -> bytes:
        """Return the bytes between two noted positions of row `row`."""
        start, stop = self.rows[field_row : field_row + 2, row]
        return self.records.data[start:stop].tobytes()


@kernel
def _gather_into(data: Bytes, start: Places, stop: Places, out: Bytes) -> None:
    """Copy stretches of bytes, one behind the other; those that begin at -1 are not there."""
    position = 0
    for one in range(len(start)):
        if start[one] >= 0:
            position = put_bytes(out, position, data, start[one], stop[one])


def gather_spans(data: Bytes, start: Places, stop: Places) -> tuple[Bytes, Places]:
    """Copy spans of bytes one behind the other."""
    first = prefix_sums(stop - start)
    out = np.empty(int(first[-1]), np.uint8)
    _gather_into(frozen(data), frozen(start), frozen(stop), out)
    return out, first


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Stretches of bytes, one for each of N things."""

    data: Bytes
    start: Places
    stop: Places

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", frozen(self.data))

    def __len__(self) -> int:
        return len(self.start)

    def frame_fields(
        self,
        tag: int,
        mask: NDArray[np.bool_] | None = None,
        *,
        sized: bool = True,
        empty: bool = True,
    ) -> "Spans":
        """Return each span as a field."""
        is_framed = np.ones(len(self), np.bool_) if mask is None else mask
        is_framed = is_framed if empty else is_framed & (self.stop > self.start)
        offsets = np.empty(len(self) + 1, np.int64)
        arguments = self.data, self.start, self.stop, is_framed, tag, sized, offsets
        put_framed(*arguments, np.empty(0, np.uint8))
        out = np.empty(int(offsets[-1]), np.uint8)
        put_framed(*arguments, out)
        return Spans(data=out, start=offsets[:-1], stop=offsets[1:])

    def join_between(self, start: Places, stop: Places) -> "Spans":
        """Join consecutive spans: those from `start` to before `stop`."""
        offsets = np.append(self.start, self.stop[-1:] if len(self) else 0)
        return Spans(data=self.data, start=offsets[start], stop=offsets[stop])


def empty_spans(count: int) -> Spans:
    """Return `count` empty spans."""
    nothing = np.zeros(count, np.int64)
    return Spans(data=np.zeros(0, np.uint8), start=nothing, stop=nothing)


def spans_of_numbers(values: NDArray[np.generic]) -> Spans:
    """Return the bytes of each number as spans."""
    width = values.dtype.itemsize
    start = np.arange(len(values), dtype=np.int64) * width
    data = np.ascontiguousarray(values).view(np.uint8)
    return Spans(data=data, start=start, stop=start + width)


def spans_of_varints(values: NDArray[np.int64]) -> Spans:
    """Return numbers as varints, negative ones as 64 bits."""
    offsets = np.empty(len(values) + 1, np.int64)
    put_varints(values, offsets, np.empty(0, np.uint8))
    out = np.empty(int(offsets[-1]), np.uint8)
    put_varints(values, offsets, out)
    return Spans(data=out, start=offsets[:-1], stop=offsets[1:])


def stack_spans(parts: list[Spans], pieces: int) -> tuple[Bytes, Places, Places]:
    """Put parts into one piece of data."""
    offset, start, stop = 0, [], []
    for part in parts:
        start.append(part.start + offset)
        stop.append(part.stop + offset)
        offset += len(part.data)
    shape = pieces, sum(map(len, parts)) // pieces
    data = np.concatenate([part.data for part in parts])
    return data, np.concatenate(start).reshape(shape), np.concatenate(stop).reshape(shape)


def join_spans(parts: list[Spans]) -> Spans:
    """Return the spans of the same thing in all parts, one behind the other."""
    data, start, stop = stack_spans(parts, len(parts))
    out, first = gather_spans(data, start.T.reshape(-1), stop.T.reshape(-1))
    offsets = first[:: len(parts)]
    return Spans(data=out, start=offsets[:-1], stop=offsets[1:])


def find_unsound(data: Bytes, start: Places, stop: Places, message: str) -> NDArray[np.bool_]:
    """Return which spans are not such a message, or need protobuf to decide it."""
    numbers, fields = message_shapes()
    unsound = np.empty(len(start), np.bool_)
    spans = frozen(data), frozen(start), frozen(stop)
    w.find_unsound_messages(*spans, numbers[message], fields, new_grammar().stack, unsound)
    return unsound


def assemble_rows(noted: WalkedRows) -> tuple[Rows, list[Bad], NDArray[np.bool_]]:
    """Return the usable rows, the faults of the others, and which rows hold something twice.

    The third is bool[R] of the usable rows: LineId, labels or weight are in a field and in a
    feature, with the same value.
    """
    positions = noted.rows
    doubled = (positions[w.LINE] >= 0) & (positions[w.LINE_FEATURE] >= 0)
    doubled |= (positions[w.LABELS] >= 0) & (positions[w.LABEL_FEATURE] >= 0)
    doubled |= (positions[w.WEIGHT] != 0) & (positions[w.WEIGHT_FEATURE] >= 0)
    complaints = {int(row): _EXTRA_UNKNOWN for row in np.flatnonzero(noted.status == w.EXTRA)}
    doubtful = _read_special(noted)
    # A row can have all three in need of a second look.
    for _ in range(len(_SPECIAL)):
        if not len(doubtful):
            break
        noted = _rewrite_doubtful(noted, doubtful, complaints)
        doubtful = np.setdiff1d(_read_special(noted), list(complaints))
    for row in map(int, doubtful):
        complaints[row] = _SPECIAL[int(noted.status[row])].reason, UNSUPPORTED
    twice = [int(row) for row in np.flatnonzero(noted.status == w.TWICE)]
    wrong = [_bad_row(noted, row, complaints) for row in sorted({*twice, *complaints})]
    good = np.flatnonzero(noted.status == w.SOUND)
    return _build_rows(noted, good), wrong, doubled[good]


def _bad_row(noted: WalkedRows, number: int, complaints: dict[int, tuple[str, str]]) -> Bad:
    reason, detail = complaints.get(number, ("twice", _TWICE))
    row = None if noted.row[number] < 0 else int(noted.row[number])
    return replace(noted.records.bad(number, reason, detail), row=row)


def _read_special(noted: WalkedRows) -> Places:
    """Note what special features say; returns the rows of which one cannot be read."""
    from ingot.converters.recsys.monolith.contract import example_pb2, line_id_pb2

    arguments = noted.records.data, noted.rows, noted.status, message_shapes()[0]["LineId"]
    w.read_special(*arguments, new_grammar())
    # A LineId may differ from its feature in the order of unknown fields only: Monolith itself
    # reads the feature, and writes the field anew.
    differ = np.flatnonzero(noted.status == w.LINES_DIFFER)
    for row in map(int, differ):
        feature_bytes = rewrite_special(noted.content(w.LINE_FEATURE, row), w.BAD_LINE)
        lines = [noted.content(w.LINE, row)]
        if isinstance(feature_bytes, bytes):
            lines += example_pb2.Feature.FromString(feature_bytes).bytes_list.value
        field, *feature = map(line_id_pb2.LineId.FromString, lines)
        noted.status[row] = w.SOUND if feature == [field] else w.TWICE
        noted.rows[w.LINE_FEATURE : w.LINE_FEATURE + 2, row] = -1
    if len(differ):
        w.read_special(*arguments, new_grammar())
    return np.flatnonzero(np.isin(noted.status, list(_SPECIAL)))


def _rewrite_doubtful(
    noted: WalkedRows, doubtful: Places, complaints: dict[int, tuple[str, str]]
) -> WalkedRows:
    """With special features written in the plain way where protobuf can read them."""
    pieces: dict[int, bytes] = {}
    for row in map(int, doubtful):
        special = _SPECIAL[int(noted.status[row])]
        feature = rewrite_special(noted.content(special.place, row), int(noted.status[row]))
        if isinstance(feature, str):
            complaints[row] = special.reason, feature
        else:
            pieces[row] = feature
    data, start, stop = append_pieces(noted.records.data, list(pieces.values()))
    for row, first, last in zip(pieces, start, stop, strict=True):
        field_row = _SPECIAL[int(noted.status[row])].place
        noted.rows[field_row : field_row + 2, row] = first, last
        noted.status[row] = w.SOUND
    return replace(noted, records=replace(noted.records, data=data))


def _build_rows(noted: WalkedRows, good: Places) -> Rows:
    entries, first, records = noted.entries, noted.first, noted.records.select(good)
    if len(good) < len(noted.status):
        counts = np.diff(first)
        is_good = np.zeros(len(noted.status), np.bool_)
        is_good[good] = True
        entries = entries.compress(np.repeat(is_good, counts), axis=1)
        first = prefix_sums(counts[good])
    positions = noted.rows.take(good, axis=1)  # contiguous, which an index does not give
    label, label_first = gather_spans(records.data, positions[w.LABELS], positions[w.LABELS + 1])
    weight = positions[w.WEIGHT].astype(np.uint32).view(np.float32)
    return Rows(
        data=records.data,
        names=noted.names,
        first=first,
        name=entries[w.NAME].astype(np.int32),
        raw=entries[w.RAW].astype(np.bool_),
        start=entries[w.START],
        stop=entries[w.STOP],
        ident=entries[w.IDENT].astype(np.int32),
        sorted_id=entries[w.SORTED_ID].astype(np.int32),
        extra_start=entries[w.EXTRA_START],
        extra_stop=entries[w.EXTRA_STOP],
        line_start=positions[w.LINE],
        line_stop=positions[w.LINE + 1],
        label_first=label_first // 4,
        label=label.view(np.float32),
        weighted=positions[w.WEIGHT] != 0,
        weight=weight,
        source=positions[w.SOURCE].astype(np.uint32),
        rest_start=positions[w.REST],
        rest_stop=positions[w.REST + 1],
        sort_start=records.sort_start,
        sort_stop=records.sort_stop,
        record=records.record,
        offset=records.offset,
        row=noted.row[good],
    )


_SPANS: Final = tuple(
    (f"{of}start", f"{of}stop") for of in ("", "extra_", "line_", "rest_", "sort_")
)
"""The arrays of `Rows` that are places in its bytes: where something begins, where it ends."""
_PLACES: Final = frozenset(name for span in _SPANS for name in span)


def compact_rows(rows: Rows) -> Rows:
    """Copy rows into bytes of their own, without those of other rows."""
    starts = np.concatenate([getattr(rows, start) for start, _ in _SPANS])
    stops = np.concatenate([getattr(rows, stop) for _, stop in _SPANS])
    data, first = gather_spans(rows.data, starts, stops)
    moved: dict[str, Any] = {}
    position = 0
    for start, stop in _SPANS:
        before = getattr(rows, start)
        selection = slice(position, position + len(before))
        moved[start] = np.where(before < 0, -1, first[:-1][selection])
        moved[stop] = np.where(before < 0, -1, first[1:][selection])
        position = selection.stop
    return replace(rows, data=data, **moved)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join rows one behind the other."""
    if len(parts) == 1:
        return parts[0]
    numbers = {name: number for number, name in enumerate(parts[0].names)}
    arrays: dict[str, list[Any]] = {name: [] for name in (*ENTRY_ARRAYS, *ROW_ARRAYS)}
    # Stretches of bytes, each once, and where they begin among all: places in the first stay.
    shifts: dict[int, tuple[Bytes, int]] = {}
    position = 0
    for part in sorted(parts, key=lambda part: -len(part.data)):
        if id(part.data) not in shifts:
            shifts[id(part.data)] = part.data, position
            position += len(part.data)
    for part in parts:
        _, shift = shifts[id(part.data)]
        same = part.names is parts[0].names
        renamed = [] if same else [numbers.setdefault(n, len(numbers)) for n in part.names]
        for name, pieces in arrays.items():
            piece = getattr(part, name)
            if name == "name" and not same:
                piece = np.array(renamed, np.int32)[piece]
            elif name in _PLACES and shift:
                piece = np.where(piece < 0, -1, piece + shift)
            pieces.append(piece)
    stretches = [stretch for stretch, _ in shifts.values()]
    return Rows(
        data=np.concatenate(stretches) if len(stretches) > 1 else stretches[0],
        names=tuple(numbers),
        first=prefix_sums(np.concatenate([np.diff(part.first) for part in parts])),
        label_first=prefix_sums(np.concatenate([np.diff(part.label_first) for part in parts])),
        label=np.concatenate([part.label for part in parts]),
        **{name: np.concatenate(pieces) for name, pieces in arrays.items()},
    )
