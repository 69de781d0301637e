"""Rows of an Arrow batch that are made into JSON values only when somebody looks at them.

The Arrow executor works on the columns; most rows of a columnar file are never needed as objects.
"""

from collections.abc import Iterator, Sequence
from typing import overload

import pyarrow as pa

from ingot.converters.readers.arrowvalues import rows_of, storage
from ingot.converters.rows import Json


class ArrowRows(Sequence[Json]):
    """The rows of a batch, the same values as `rows_of` gives, made on the first look.

    Only for batches in which no row can be broken: see `lazy_rows`.
    """

    def __init__(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        self._batch = batch
        self._names = names
        self._values: list[Json] | None = None

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @overload
    def __getitem__(self, place: int) -> Json: ...
    @overload
    def __getitem__(self, place: slice) -> "ArrowRows": ...
    def __getitem__(self, place: int | slice) -> Json:
        if isinstance(place, int):
            return self._all()[place]
        start, stop, step = place.indices(len(self))
        if step != 1:
            raise ValueError("rows are sliced without gaps")
        return ArrowRows(self._batch.slice(start, max(0, stop - start)), self._names)

    def __iter__(self) -> Iterator[Json]:
        return iter(self._all())

    def take(self, places: Sequence[int]) -> list[Json]:
        """Some of the rows; only these are made."""
        return rows_of(self._batch.take(pa.array(places, pa.int64())), self._names)[0]

    def _all(self) -> list[Json]:
        if self._values is None:
            self._values = rows_of(self._batch, self._names)[0]
        return self._values


def lazy_rows(
    batch: pa.RecordBatch, names: Sequence[str]
) -> tuple[ArrowRows, pa.RecordBatch] | None:
    """The rows of a batch, made when needed, and the batch itself without extension types.

    None where the rows have to be looked at one by one, as one of them may be broken: a text that
    is no UTF-8, binary columns. Views inside other types are left alone too: Arrow cannot yet take
    rows of them.
    """
    columns = [storage(column) for column in batch.columns]
    if not columns or not all(_sound(column.type) for column in columns):
        return None
    try:
        table = pa.RecordBatch.from_arrays(columns, names=list(names))
        table.validate(full=True)
    except pa.ArrowInvalid:  # texts that are no UTF-8, for one: `rows_of` says where
        return None
    return ArrowRows(table, names), table


def _sound(kind: pa.DataType) -> bool:
    """Types whose every value, if it is valid Arrow, is a JSON value: all but binary and views."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _sound(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _sound(kind.value_type)
    if types.is_struct(kind):
        names = [child.name for child in kind]
        return len(set(names)) == len(names) and all(_sound(child.type) for child in kind)
    if types.is_map(kind):
        return _sound(kind.key_type) and _sound(kind.item_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _sound(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or types.is_primitive(kind) or types.is_null(kind) or types.is_decimal(kind))
