"""Columns of a record batch as NumPy arrays, with their nulls beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Scalars:
    """A scalar column of n rows.

    Attributes:
        values: [n]; where a cell is null, 0.
        null: bool[n], or None where no cell is null.
    """

    values: NDArray[Any]
    null: Mask | None

    def present(self, bad: Mask) -> Mask:
        """The mask without cells that are null."""
        return bad if self.null is None else bad & ~self.null


@dataclass(frozen=True, kw_only=True)
class Lists:
    """A list column of n rows with m elements.

    Attributes:
        values: [m], the elements of all lists; where one is null, 0.
        offsets: int64[n + 1]; row i has the elements offsets[i]:offsets[i + 1], none where it is
            null.
        null: bool[n], rows that are null, or None.
        holes: bool[m], elements that are null, or None.
    """

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    null: Mask | None
    holes: Mask | None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n]."""
        return np.diff(self.offsets)

    def row_of(self, element: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows in which elements stand."""
        return np.searchsorted(self.offsets, element, side="right") - 1

    def present(self, bad: Mask) -> Mask:
        """The mask of elements without those that are null."""
        return bad if self.holes is None else bad & ~self.holes


def cells(column: pa.Array, kind: pa.DataType) -> "Scalars | Lists | None":
    """A column as arrays.

    Args:
        column: of numbers, or of lists of them.
        kind: the type to look at it in, a scalar or a list.

    Returns:
        None where its numbers are not numbers of that type.
    """
    try:
        column = column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if not pa.types.is_list(kind):
        values, null = _numbers(column)
        return Scalars(values=values, null=null)
    flat, holes = _numbers(pc.list_flatten(column))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Lists(values=flat, offsets=offsets, null=_nulls(column), holes=holes)


def _numbers(column: pa.Array) -> tuple[NDArray[Any], Mask | None]:
    null = _nulls(column)
    if null is not None:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    return column.to_numpy(zero_copy_only=False), null


def _nulls(column: pa.Array) -> Mask | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
