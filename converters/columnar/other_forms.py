"""ORC and Feather V1 files, as the process that decodes Parquet opens them.

Their readers in Arrow trust a file as that of Parquet does. A stripe of ORC is decoded as a whole, a
Feather file as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import feather, orc, types


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not Parquet: its columns, rows and parts; a batch of each part."""

    schema: pa.Schema
    rows: int
    parts: int
    batches: Callable[[], Iterator[pa.RecordBatch]]


def _open_orc(source: Any) -> OtherFile:  # noqa: ANN401 - of Arrow or of Python
    file = orc.ORCFile(source)
    if any(map(_has_union, file.schema.types)):
        raise pa.ArrowNotImplementedError("a column of a union type")
    stripes = range(file.nstripes)
    return OtherFile(file.schema, file.nrows, len(stripes), lambda: map(file.read_stripe, stripes))


def _has_union(kind: pa.DataType) -> bool:
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return types.is_union(kind) or any(map(_has_union, inner))


def _open_feather(source: Any) -> OtherFile:  # noqa: ANN401 - of Arrow or of Python
    table = feather.read_table(source, use_threads=False, memory_map=False)
    return OtherFile(table.schema, table.num_rows, 1, lambda: iter(table.to_batches()))


OTHER_FORMS: Final = {"orc": _open_orc, "feather": _open_feather}
