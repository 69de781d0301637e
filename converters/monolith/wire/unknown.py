"""Unknown fields that another message would take for fields of its own."""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.kernels.unknown import knows_any
from ingot.converters.monolith.wire.shapes import shapes


def is_known(data: Bytes, start: Places, stop: Places, message: str) -> NDArray[np.bool_]:
    """Which stretches of unknown fields have one that a message knows.

    Args:
        data: uint8[B].
        start: int64[N] where the stretches begin.
        stop: int64[N] where they end.
        message: its name.

    Returns:
        bool[N].
    """
    numbers, fields = shapes()
    found = np.zeros(len(start), np.bool_)
    knows_any(data, start, stop, fields[numbers[message]], found)
    return found


def known_by(
    data: Bytes,
    start: Places,
    stop: Places,
    raw: NDArray[np.bool_],
    message: str,
    of_raw: str,
) -> NDArray[np.bool_]:
    """The same for unknown fields of which some go into another message: bool[N].

    Args:
        data: uint8[B].
        start: int64[N].
        stop: int64[N].
        raw: bool[N], which go into that.
        message: the name of the message that others go into.
        of_raw: the name of that.
    """
    return np.where(raw, is_known(data, start, stop, of_raw), is_known(data, start, stop, message))


def unfit_for_batches(rows: Rows) -> NDArray[np.bool_]:
    """bool[R], the rows of which an ExampleBatch would take an unknown field for its own."""
    wrong = is_known(rows.data, rows.rest_start, rows.rest_stop, "ExampleBatch")
    extra = rows.extra_start, rows.extra_stop
    of_feature = known_by(rows.data, *extra, rows.raw, "NamedFeatureList", "NamedRawFeatureList")
    wrong[rows.entry_row[of_feature]] = True
    return wrong
