"""A data file as its table sees it: other names and types, columns that the log holds, rows gone.

A table of a lake (Delta, Iceberg) changes without its files being written again: a column is
renamed or added, a partition's value stands in the log only, rows are marked as deleted.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# In the metadata of a field, also within others: its name in the file. The key is Delta's.
PHYSICAL: Final = b"delta.columnMapping.physicalName"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """What a table says of one of its files.

    Attributes:
        schema: of the table; a field has its name in the file as `PHYSICAL` where that differs.
        constants: values of all rows, by name: those of partitions.
        deleted: which rows of the file are deleted, as far as the last that is.
    """

    schema: pa.Schema
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    deleted: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def digest(self) -> str:
        """What tells the view from another one of the same file."""
        said = repr(
            [str(self.schema.to_string(show_field_metadata=True)), sorted(self.constants.items())]
        )
        return hashlib.sha256(said.encode() + np.packbits(self.deleted).tobytes()).hexdigest()

    def rows_left(self, first: int, rows: int) -> int:
        """How many of so many rows of the file from row `first` on are not deleted."""
        return rows - int(np.count_nonzero(self.deleted[first : first + rows]))

    def apply(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The rows of a batch that are left, whose first is row `first` of the file.

        Raises pa.ArrowInvalid where a value does not fit the type that the table tells.
        """
        gone = self.deleted[first : first + batch.num_rows]
        if gone.any():
            kept = np.ones(batch.num_rows, np.bool_)
            kept[: len(gone)] = ~gone
            batch = batch.filter(pa.array(kept))
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = [
            pa.repeat(self.constants[one.name], batch.num_rows)
            if one.name in self.constants
            else _seen_array(columns.get(_physical_name(one)), one.type, batch.num_rows)
            for one in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


def _physical_name(one: pa.Field) -> str:
    name: bytes = (one.metadata or {}).get(PHYSICAL, one.name.encode())
    return name.decode()


def _seen_array(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """An array of a file as one of the type that the table tells; nulls where it has none."""
    if array is None:
        return pa.nulls(rows, kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        own = {one.name: array.field(number) for number, one in enumerate(array.type)}
        inner = [_seen_array(own.get(_physical_name(one)), one.type, rows) for one in kind]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        inner = _seen_array(array.values, kind.value_type, len(array.values))
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, inner, type=kind, mask=mask)
    return array if array.type == kind else array.cast(kind)


class TableStream(io.BufferedReader):
    """The bytes of a data file of a table, which are read as the table sees them."""

    def __init__(self, path: str, view: TableView) -> None:
        super().__init__(io.FileIO(path))
        self.view = view
