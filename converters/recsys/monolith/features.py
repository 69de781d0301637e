"""Read what the features of rows hold: kind, place and number of their values.

A kernel reads features that are one list as protobuf writes it, which almost all are. Protobuf
rewrites the others first: a oneof with two values, numbers that are not packed, unknown fields.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places, Rows, append_rewritten
from ingot.converters.recsys.monolith.wire.format_kernels import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    count_packed_numbers,
    read_field,
)

_KINDS: Final = 17
FIXED8, FIXED4, VARINTS, BYTES = range(4)
"""What values are: 8 bytes each, 4 bytes each, varints, or byte strings."""
SCALAR, LIST, LISTS = range(3)  # a value, a list of them, or lists of lists
VALUES: Final = np.array([0, 0, 0, 1, 0, 2, 3, 0, 1, 0, 2, 3, 2, 1, 0, 3, 0], np.int8)
"""int8[17] by kind: FIXED8, ..."""
WIRES: Final = np.array([FIXED64, FIXED32, VARINT, LENGTH], np.int8)
"""int8[4], the wire types of single values by FIXED8, ..."""
DEPTH: Final = np.array([0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 0, 0, 2], np.int8)
"""int8[17] by kind: SCALAR, ..."""


class Features(NamedTuple):
    """The E features of rows; places are in `data`, which begins with the rows' own bytes."""

    data: Bytes  # uint8[B]; behind the rows' bytes are features that protobuf wrote anew
    kind: NDArray[np.uint8]  # uint8[E], numbers of `contract.FEATURE_KINDS`; 0 for raw features
    # int64[E] where the payload begins: the packed numbers of a list; the bytes of the one value
    # (without a length); for `bytes_list` and lists of lists the content of the list message, a
    # sequence of fields 1 with lengths. Lists in lists of numbers are messages that are empty or
    # hold one field of packed numbers.
    start: Places
    stop: Places  # int64[E] where it ends; equal to start where there is nothing
    counts: Places  # int64[E] values of a list, lists of lists of lists, 1 for a single value
    # bool[E] whether this is not all: raw features, and those with unknown fields inside or beside
    # them. What is told of the latter is what is known of them.
    strange: NDArray[np.bool_]


def read_features(rows: Rows) -> Features:
    """Return what the features of rows hold."""
    measured = _measure(rows.data, rows.start, rows.stop, rows.raw)
    if measured.strange.any():
        measured = _rewrite_odd_features(rows, measured)
    strange = measured.strange | rows.raw | (rows.extra_start != rows.extra_stop)
    return measured._replace(strange=strange)


def _measure(data: Bytes, first: Places, last: Places, skipped: NDArray[np.bool_]) -> Features:
    """`strange` are features of another form, which kernels do not read."""
    entries = len(first)
    start, stop, count = (np.empty(entries, np.int64) for _ in range(3))
    kind, is_odd = np.empty(entries, np.uint8), np.empty(entries, np.bool_)
    measured = Features(data, kind, start, stop, count, is_odd)
    _measure_entries(first, last, skipped, measured)
    return measured


def _rewrite_odd_features(rows: Rows, measured: Features) -> Features:
    """Measure features of another form after protobuf wrote them anew."""
    entries = np.flatnonzero(measured.strange)
    unknown: set[int] = set()  # the places of those with unknown fields

    def rewrite(entry: int) -> bytes:
        written, has_unknown = _reencode_feature(rows.feature(entry))
        if has_unknown:
            unknown.add(int(rows.start[entry]))
        return written

    data, begins, ends = append_rewritten(rows.data, rows.start, entries, rewrite)
    remeasured = _measure(data, begins, ends, np.zeros(len(entries), np.bool_))
    for name in Features._fields[1:]:
        getattr(measured, name)[entries] = getattr(remeasured, name)
    # What stays odd is no Feature at all.
    measured.strange[entries] |= np.isin(rows.start[entries], list(unknown))
    return measured._replace(data=data)


def _reencode_feature(content: bytes) -> tuple[bytes, bool]:
    """A `Feature` as protobuf writes it, without unknown fields, and whether there were any."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2

    feature = example_pb2.Feature()
    try:
        feature.ParseFromString(content)
    except DecodeError:
        return b"", True
    size = feature.ByteSize()
    feature.DiscardUnknownFields()
    return feature.SerializeToString(), feature.ByteSize() != size


@kernel
def _measure_entries(
    first: Places, last: Places, skipped: NDArray[np.bool_], measured: Features
) -> None:
    """Fill in the payload of each `Feature` message in first..last."""
    data, kind, start, stop, count, is_odd = measured
    for entry in range(len(first)):
        nowhere = max(first[entry], 0)
        kind[entry], start[entry], stop[entry], count[entry] = 0, nowhere, nowhere, 0
        is_odd[entry] = False
        if skipped[entry] or first[entry] == last[entry]:
            continue
        number, wire, at, end = read_field(data, first[entry], last[entry])
        if (
            end != last[entry]
            or number >= _KINDS
            or wire != (WIRES[VALUES[number]] if DEPTH[number] == SCALAR else LENGTH)
        ):
            is_odd[entry] = True
            continue
        if DEPTH[number] == LIST and VALUES[number] != BYTES:
            at = _packed_start(data, at, end)
        many = -1 if at < 0 else _count_values(data, at, end, VALUES[number], DEPTH[number])
        is_odd[entry] = many < 0
        if many >= 0:
            kind[entry], start[entry], stop[entry], count[entry] = number, at, end, many


@inner_kernel
def _packed_start(data: Bytes, at: int, stop: int) -> int:
    """Where the packed numbers of a list message begin; -1 if it is not one field of them."""
    if at == stop:
        return at
    number, wire, at, end = read_field(data, at, stop)
    return at if number == 1 and wire == LENGTH and end == stop else -1


@inner_kernel
def _count_values(data: Bytes, at: int, stop: int, values: int, depth: int) -> int:
    """The count of a payload; -1 if it is not of the form that protobuf writes."""
    many: int = 1
    if depth == LIST:
        many = _count_list_values(data, at, stop, values)
    elif depth == LISTS:
        many = 0
        while at < stop:
            number, wire, inner, at = read_field(data, at, stop)
            if at < 0 or number != 1 or wire != LENGTH:
                return -1
            if values != BYTES:
                inner = _packed_start(data, inner, at)
            if inner < 0 or _count_list_values(data, inner, at, values) < 0:
                return -1
            many += 1
    return many


@inner_kernel
def _count_list_values(data: Bytes, at: int, stop: int, values: int) -> int:
    """Values of a list; -1 if it is not of the form that protobuf writes."""
    many: int = 0
    if values != BYTES:
        many = count_packed_numbers(data, at, stop, WIRES[values])
    else:
        while at < stop:
            number, wire, _, at = read_field(data, at, stop)
            if at < 0 or number != 1 or wire != LENGTH:
                return -1
            many += 1
    return many


@kernel
def count_lists(data: Bytes, start: Places, stop: Places, values: int, counts: Places) -> None:
    """Count the values of lists of one kind that are encoded as protobuf writes them."""
    for one in range(len(start)):
        counts[one] = _count_list_values(data, start[one], stop[one], values)
