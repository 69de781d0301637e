"""A data file as its table sees it: other names and types, columns that the log holds, rows gone.

A table of a lake (Delta, Iceberg) changes without its files being written again: a column is
renamed or added, a partition's value stands in the log only, rows are marked as deleted.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.columnar.lance_files import LANCE, LanceFragment

# What tells a field of a file, also within others, by the metadata of the table's: Delta's name in
# the file, or Iceberg's number, which the field of the file has too.
PHYSICAL: Final = b"delta.columnMapping.physicalName"
FIELD_ID: Final = b"PARQUET:field_id"
_BUFFER: Final = 64 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """What a table says of one of its files."""

    schema: pa.Schema  # a field tells by its metadata which of the file it is, else by name
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)  # columns that it lacks
    # Which rows of the file are deleted, as far as the last that is.
    deleted: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    numbered: bool = False  # whether fields of the file must have numbers

    def digest(self) -> str:
        """Return what tells the view from another one of the same file."""
        schema = self.schema.to_string(show_field_metadata=True)
        text = repr([schema, sorted(self.constants.items())])
        return hashlib.sha256(text.encode() + np.packbits(self.deleted).tobytes()).hexdigest()

    def rows_left(self, first: int, rows: int) -> int:
        """Return how many of so many rows of the file from row `first` on are not deleted."""
        return rows - int(np.count_nonzero(self.deleted[first : first + rows]))

    def apply(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows left of a batch that begins with row `first`. Raises pa.ArrowInvalid."""
        deleted = self.deleted[first : first + batch.num_rows]
        if deleted.any():
            mask = np.ones(batch.num_rows, np.bool_)
            mask[: len(deleted)] = ~deleted
            batch = batch.filter(pa.array(mask))
        file_columns = list(zip(batch.schema, batch.columns, strict=True))
        if self.numbered and not any(map(_field_number, batch.schema)):
            raise pa.ArrowInvalid("its fields have no numbers, and the table maps no names")
        arrays = [
            _find_column(file_columns, one, batch.num_rows, self.constants.get(one.name))
            for one in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


_Fields: TypeAlias = Sequence[tuple[pa.Field, pa.Array]]


def _field_number(arrow_field: pa.Field) -> bytes | None:
    number: bytes | None = (arrow_field.metadata or {}).get(FIELD_ID)
    return number


def _find_column(
    file_columns: _Fields, table_field: pa.Field, rows: int, constant: pa.Scalar | None = None
) -> pa.Array:
    """The array of a file that a field of the table is; where it has none the constant or nulls."""
    number, name = _field_number(table_field), (table_field.metadata or {}).get(PHYSICAL)
    if number is not None and any(_field_number(one) for one, _ in file_columns):
        matching = (array for one, array in file_columns if _field_number(one) == number)
    else:
        physical = name.decode() if name else table_field.name
        matching = (array for one, array in file_columns if one.name == physical)
    array = next(matching, None)
    if array is None:
        return pa.nulls(rows, table_field.type) if constant is None else pa.repeat(constant, rows)
    return _conform(array, table_field.type)


def _conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of a file as one of the type that the table tells."""
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        file_columns = [(one, array.field(number)) for number, one in enumerate(array.type)]
        inner = [_find_column(file_columns, one, len(array)) for one in kind]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask)
    if _is_list(kind) and _is_list(array.type):
        inner, large = _conform(array.values, kind.value_type), pa.types.is_large_list(kind)
        offsets = array.offsets.cast(pa.int64() if large else pa.int32())
        list_class = pa.LargeListArray if large else pa.ListArray
        return list_class.from_arrays(offsets, inner, type=kind, mask=mask)
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        keys, items = _conform(array.keys, kind.key_type), _conform(array.items, kind.item_type)
        offsets = array.offsets
        if mask is not None:  # a map is null where its offset is
            offsets = pc.if_else(pa.concat_arrays([mask, pa.array([False])]), None, offsets)
        return pa.MapArray.from_arrays(offsets, keys, items, kind)
    return array if array.type == kind else array.cast(kind)


def _is_list(kind: pa.DataType) -> bool:
    """True for the list types whose elements lie in one array."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


class TableStream(io.BufferedReader):
    """The bytes of a data file of a table, which are read as the table sees them."""

    def __init__(self, stream: BinaryIO, view: TableView) -> None:
        super().__init__(stream.detach(), _BUFFER)  # type: ignore[attr-defined] # all are buffered
        self.view = view


class FragmentStream(io.BytesIO):
    """What stands for the bytes of a fragment of Lance, which is read by what it is."""

    def __init__(self, fragment: LanceFragment) -> None:
        super().__init__(LANCE)
        self.fragment = fragment
