"""A kernel that finds unknown fields which another message would know."""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import LENGTH, read_field
from ingot.converters.monolith.wire.shapes import SCALARS, WIRE_SHIFT


@kernel
def knows_any(
    data: Bytes, start: Places, stop: Places, known: NDArray[np.int32], found: NDArray[np.bool_]
) -> None:
    """Whether unknown fields have numbers that another message knows.

    Args:
        data: uint8[B].
        start: int64[N] where the unknown fields begin.
        stop: int64[N] where they end.
        known: int32[NUMBERS] the fields of the other message, as `shapes` gives them.
        found: bool[N], filled.
    """
    for at in range(len(start)):
        place, found[at] = start[at], False
        while 0 <= place < stop[at]:
            number, wire, _, place = read_field(data, place, stop[at])
            if number < len(known) and known[number] & 0xFF:
                declared, packed = (known[number] >> WIRE_SHIFT) & 0xFF, wire == LENGTH
                packed &= known[number] & 0xFF == SCALARS
                found[at] |= packed or wire == declared
