"""Rows out of what kernels noted of them."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.contract import INSTANCE_WEIGHT, LABEL, LINE_ID
from ingot.converters.monolith.records import Bad, Bytes, Places
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.kernels import examples as w
from ingot.converters.monolith.wire.kernels.checking import scratch
from ingot.converters.monolith.wire.kernels.special import (
    BAD_LABEL,
    BAD_LINE,
    BAD_WEIGHT,
    LINES_DIFFER,
    read_special,
)
from ingot.converters.monolith.wire.kernels.varints import put_bytes
from ingot.converters.monolith.wire.shapes import shapes
from ingot.converters.monolith.wire.special import simple_feature

_SPECIAL: Final = {
    BAD_LINE: ("line_id", w.LINE_FEATURE),
    BAD_LABEL: ("label", w.LABEL_FEATURE),
    BAD_WEIGHT: ("weight", w.WEIGHT_FEATURE),
}
_BESIDE: Final = ("unknown", "a feature that says something of the row has more unknown fields")
UNSUPPORTED: Final = "it is encoded in a way that is not supported"
_TWICE: Final = "a field and a feature, or two features, say different things of the row"


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What kernels noted of R rows with E features.

    Attributes:
        data: uint8[B].
        names: the distinct names.
        first: int64[R + 1] entries before each row.
        entries: int64[ENTRY, E].
        rows: int64[ROW, R].
        status: int8[R].
        sort_start: int64[R]; this and the following as in `Rows`.
        sort_stop: int64[R].
        record: int64[R].
        offset: int64[R].
        row: int64[R].
    """

    data: Bytes
    names: tuple[bytes, ...]
    first: Places
    entries: NDArray[np.int64]
    rows: NDArray[np.int64]
    status: NDArray[np.int8]
    sort_start: Places
    sort_stop: Places
    record: Places
    offset: Places
    row: Places


@cache
def special_names() -> tuple[Bytes, Places]:
    """The names of special features as kernels take them: uint8[S], int64[3] where each ends."""
    names = [name.encode() for name in (LINE_ID, LABEL, INSTANCE_WEIGHT)]
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    return np.frombuffer(b"".join(names), np.uint8), ends


@kernel
def _gather(data: Bytes, start: Places, stop: Places, out: Bytes) -> None:
    """Copy stretches of bytes, one behind the other; those that begin at -1 are not there."""
    at = 0
    for one in range(len(start)):
        if start[one] >= 0:
            at = put_bytes(out, at, data, start[one], stop[one])


def gathered(data: Bytes, start: Places, stop: Places) -> tuple[Bytes, Places]:
    """Stretches of bytes one behind the other.

    Args:
        data: uint8[B].
        start: int64[N] where they begin; -1 for one that is not there.
        stop: int64[N] where they end.

    Returns:
        uint8[S] the bytes, and int64[N + 1] where each begins in them.
    """
    first = np.zeros(len(start) + 1, np.int64)
    np.cumsum(stop - start, out=first[1:])
    out = np.empty(int(first[-1]), np.uint8)
    _gather(data, start, stop, out)
    return out, first


def joined(data: Bytes, pieces: list[bytes]) -> tuple[Bytes, Places, Places]:
    """Bytes with others behind them.

    Returns:
        uint8[B + S], and int64[N] each where the pieces begin and end in it.
    """
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    stop = len(data) + np.cumsum(sizes)
    more = np.frombuffer(b"".join(pieces), np.uint8)
    return np.concatenate([data, more]), stop - sizes, stop


def assembled(noted: Noted) -> tuple[Rows, list[Bad], NDArray[np.bool_]]:
    """The rows that can be used, what is wrong with the others, which rows say something twice.

    The third is bool[R] of the rows that can be used: LineId, labels or weight stand in a field and
    in a feature, and are the same in both.
    """
    said = noted.rows
    doubled = (said[w.LINE] >= 0) & (said[w.LINE_FEATURE] >= 0)
    doubled |= (said[w.LABELS] >= 0) & (said[w.LABEL_FEATURE] >= 0)
    doubled |= (said[w.WEIGHT] != 0) & (said[w.WEIGHT_FEATURE] >= 0)
    noted, complaints = _with_special(noted)
    twice = [int(at) for at in np.flatnonzero(noted.status == w.TWICE)]
    wrong = [_bad(noted, at, complaints) for at in sorted({*twice, *complaints})]
    good = np.flatnonzero(noted.status == w.SOUND)
    return _rows(noted, good), wrong, doubled[good]


def _bad(noted: Noted, at: int, complaints: dict[int, tuple[str, str]]) -> Bad:
    reason, detail = complaints.get(at, ("twice", _TWICE))
    return Bad(
        offset=int(noted.offset[at]),
        bytes=0,
        record=int(noted.record[at]),
        row=None if noted.row[at] < 0 else int(noted.row[at]),
        reason=reason,
        detail=detail,
    )


def _with_special(noted: Noted) -> tuple[Noted, dict[int, tuple[str, str]]]:
    """With special features where fields are noted; and what is wrong with some rows."""
    complaints = {int(at): _BESIDE for at in np.flatnonzero(noted.status == w.EXTRA)}
    _read_special(noted)
    _take_equal_lines(noted)
    doubtful = _doubtful(noted)
    # A row can have all three in need of a second look.
    for _ in range(len(_SPECIAL)):
        if not len(doubtful):
            break
        noted = _looked_at(noted, doubtful, complaints)
        _take_equal_lines(noted)
        doubtful = _doubtful(noted)
        doubtful = np.setdiff1d(doubtful, np.fromiter(complaints, np.int64, len(complaints)))
    for at in map(int, doubtful):
        complaints[at] = _SPECIAL[int(noted.status[at])][0], UNSUPPORTED
    return noted, complaints


def _doubtful(noted: Noted) -> Places:
    status = noted.status
    return np.flatnonzero((status >= BAD_LINE) & (status <= BAD_WEIGHT))


def _take_equal_lines(noted: Noted) -> None:
    """Take rows whose LineIds in field and feature differ in the order of unknown fields only.

    Monolith itself writes such: it reads the feature, and writes the field anew.
    """
    from ingot.converters.monolith.messages import line_id_pb2

    differ = np.flatnonzero(noted.status == LINES_DIFFER)
    for at in differ:
        field, feature = (noted.rows[one : one + 2, at] for one in (w.LINE, w.LINE_FEATURE))
        said = simple_feature(noted.data[slice(*feature)].tobytes(), BAD_LINE)
        line = line_id_pb2.LineId.FromString(noted.data[slice(*field)].tobytes())
        equal = isinstance(said, bytes) and _line_of(said) == line
        noted.status[at] = w.SOUND if equal else w.TWICE
        noted.rows[w.LINE_FEATURE : w.LINE_FEATURE + 2, at] = -1
    if len(differ):
        _read_special(noted)


def _line_of(feature: bytes) -> object:
    from ingot.converters.monolith.messages import example_pb2, line_id_pb2

    value = example_pb2.Feature.FromString(feature).bytes_list.value[0]
    return line_id_pb2.LineId.FromString(value)


def _read_special(noted: Noted) -> None:
    numbers, fields = shapes()
    read_special(noted.data, noted.rows, noted.status, numbers["LineId"], fields, scratch())


def _looked_at(noted: Noted, doubtful: Places, complaints: dict[int, tuple[str, str]]) -> Noted:
    """With special features written in the plain way where protobuf can read them."""
    pieces: dict[int, bytes] = {}
    for at in map(int, doubtful):
        reason, place = _SPECIAL[int(noted.status[at])]
        start, stop = noted.rows[place : place + 2, at]
        feature = simple_feature(noted.data[start:stop].tobytes(), int(noted.status[at]))
        if isinstance(feature, str):
            complaints[at] = reason, feature
        else:
            pieces[at] = feature
    data, start, stop = joined(noted.data, list(pieces.values()))
    for at, begin, end in zip(pieces, start, stop, strict=True):
        place = _SPECIAL[int(noted.status[at])][1]
        noted.rows[place : place + 2, at] = begin, end
        noted.status[at] = w.SOUND
    mended = replace(noted, data=data)
    _read_special(mended)
    return mended


def _rows(noted: Noted, good: Places) -> Rows:
    """The chosen rows; those that are not chosen have entries only in batches."""
    entries, first = noted.entries, noted.first
    if len(good) < len(noted.status):
        counts = np.diff(first)
        keep = np.zeros(len(noted.status), np.bool_)
        keep[good] = True
        entries = entries[:, np.repeat(keep, counts)]
        first = np.concatenate([[0], np.cumsum(counts[good])])
    said = noted.rows[:, good]
    label, label_first = gathered(noted.data, said[w.LABELS], said[w.LABELS + 1])
    weight = said[w.WEIGHT].astype(np.uint32).view(np.float32)
    return Rows(
        data=noted.data,
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
        line_start=said[w.LINE],
        line_stop=said[w.LINE + 1],
        label_first=label_first // 4,
        label=label.view(np.float32),
        weighted=said[w.WEIGHT] != 0,
        weight=weight,
        source=said[w.SOURCE].astype(np.uint32),
        rest_start=said[w.REST],
        rest_stop=said[w.REST + 1],
        sort_start=noted.sort_start[good],
        sort_stop=noted.sort_stop[good],
        record=noted.record[good],
        offset=noted.offset[good],
        row=noted.row[good],
    )
