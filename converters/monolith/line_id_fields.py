"""The fields of a LineId."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.wire.kernels.varints import FIXED32, FIXED64, LENGTH, VARINT


class Scalar(NamedTuple):
    """A field that is one number: its field number, wire type and numpy type."""

    number: int
    wire: int
    dtype: type[np.generic]


NUMBERS: Final[Mapping[str, Scalar]] = {
    "uid": Scalar(2, FIXED64, np.uint64),
    "req_time": Scalar(3, VARINT, np.int64),
    "item_id": Scalar(4, FIXED64, np.uint64),
    "chnid": Scalar(19, VARINT, np.int64),
    "generate_time": Scalar(20, VARINT, np.int64),
    "emit_type": Scalar(21, VARINT, np.int32),
    "sample_rate": Scalar(27, FIXED32, np.float32),
    "is_draw": Scalar(87, VARINT, np.bool_),
    "rank": Scalar(145, VARINT, np.int32),
}
TEXTS: Final[Mapping[str, int]] = {
    "req_id": 5,
    "model_names": 25,
    "device_type": 41,
    "cid": 48,
    "user_id": 49,
    "data_source_name": 235,
}
"""Fields that are one text, with their field numbers."""
LISTS: Final[Mapping[str, int]] = {"actions": 6, "pre_actions": 23, "special_strategies": 39}
"""Fields that are a list of int32, with their field numbers."""
FIELDS: Final[tuple[str, ...]] = tuple(
    sorted(
        (*NUMBERS, *TEXTS, *LISTS),
        key=lambda name: TEXTS.get(name) or LISTS.get(name) or NUMBERS[name].number,
    )
)
"""The fields of a LineId in the order of their numbers."""
MANDATORY: Final = ("uid", "req_time", "sample_rate")
"""Fields that the format asks of every row."""

UNKNOWN, NUMBER, TEXT, LIST = range(4)
KNOWN: Final = 256
"""Field numbers below which a field can be known."""


def _fields() -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """By field number: what it is, which of these it is, its wire type."""
    kind, column, wire = (np.zeros(KNOWN, np.int8) for _ in range(3))
    for at, scalar in enumerate(NUMBERS.values()):
        kind[scalar.number], column[scalar.number], wire[scalar.number] = NUMBER, at, scalar.wire
    for numbers, sort in ((TEXTS, TEXT), (LISTS, LIST)):
        for at, number in enumerate(numbers.values()):
            kind[number], column[number], wire[number] = sort, at, LENGTH
    return kind, column, wire


KIND, COLUMN, WIRE = _fields()
"""int8[KNOWN] by field number: UNKNOWN, NUMBER, ...; which of these; the wire type."""
