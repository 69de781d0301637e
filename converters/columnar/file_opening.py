"""Files as the process that decodes them opens them: Parquet, ORC and Feather V1.

A stripe of ORC is decoded as a whole, and so is a Feather file.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ingot.converters.errors import SourceError, truncated_error

PARQUET: Final = b"PAR1"
_MOST_FOOTER: Final = 256 << 20
_MOST_SECONDS: Final = 60  # for a Feather file, which may have 256 MiB


def open_path(path: str | None, inode: tuple[int, int] | None) -> pa.NativeFile | None:
    """Return the file that the parent has open, if its path still leads there."""
    if path is None:
        return None
    try:
        file = pa.OSFile(os.fsencode(path))
    except OSError:
        return None
    facts = os.fstat(file.fileno())
    if (facts.st_dev, facts.st_ino) == inode:
        return file
    file.close()
    return None


def check_footer(source: Any, size: int, path: str) -> None:  # noqa: ANN401 - of Arrow or of Python
    """See that there is a footer, and no more of it than there can be."""
    source.seek(max(0, size - 8))
    end = source.read(8)
    if size < 12 or end[4:] != PARQUET:
        raise truncated_error(path, "the Parquet file has no footer")
    footer = int.from_bytes(end[:4], "little")
    if footer > min(size - 12, _MOST_FOOTER):
        problem = f"damaged: its Parquet footer would have {footer:,} bytes"
        raise SourceError(path, problem, "fetch or copy it again")
    source.seek(0)


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not Parquet: its columns, rows and parts; a batch of each part."""

    schema: pa.Schema
    rows: int
    parts: int
    # as those of an `OpenFragment`, but of all rows, whatever is asked for
    batches: Callable[..., Iterator[pa.RecordBatch]]


def _open_orc(source: Any) -> OtherFile:  # noqa: ANN401 - of Arrow or of Python
    from pyarrow import orc

    file = orc.ORCFile(source)
    if any(map(_has_union, file.schema.types)):
        raise pa.ArrowNotImplementedError("a column of a union type")
    stripes = range(file.nstripes)
    read = file.read_stripe
    return OtherFile(file.schema, file.nrows, len(stripes), lambda *_: map(read, stripes))


def _has_union(kind: pa.DataType) -> bool:
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return types.is_union(kind) or any(map(_has_union, inner))


def _open_feather(source: Any) -> OtherFile:  # noqa: ANN401 - of Arrow or of Python
    from pyarrow import feather

    signal.alarm(_MOST_SECONDS)  # ends this process: of damage the reader may make an endless loop
    try:
        table = feather.read_table(source, use_threads=False, memory_map=False)
    finally:
        signal.alarm(0)
    return OtherFile(table.schema, table.num_rows, 1, lambda *_: iter(table.to_batches()))


OTHER_FORMS: Final = {"orc": _open_orc, "feather": _open_feather}
