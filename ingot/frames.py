"""Tables in memory as a source: Arrow tables, frames of pandas and Polars, and `datasets` data.

A table is written to a temporary Arrow file, which is deleted afterwards. Its content is its
identity: the same table gives the same result, and a conversion that was killed goes on with it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from ingot.converters.errors import SourceError, error_text
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import SourceSpec, hash_input

NAME: Final = "table"
_ROWS: Final = 4096  # of a batch, whatever the chunks of the table are


@contextmanager
def open_frame(frame: object) -> Iterator[Source]:
    """Open a table as a source with one file, `table.arrow`, that is there within the block.

    Args:
        frame: a `datasets.Dataset` or `IterableDataset`, a pandas frame, or anything that gives
            Arrow data (`__arrow_c_stream__`): tables of pyarrow, frames of Polars, relations of
            DuckDB.

    Raises:
        SourceError: it is no table, it has no rows, or Arrow has no type for a column.
    """
    with TemporaryDirectory(prefix="ingot-") as folder:
        path = Path(folder, f"{NAME}.arrow")
        try:
            rows = _write_tables(path, _to_tables(frame))
        except pa.ArrowException as error:
            hint = "give every column one type"
            raise SourceError(_kind(frame), f"is not a table: {error_text(error)}", hint) from error
        if not rows:
            raise SourceError(_kind(frame), "holds no row of data")
        os.utime(path, ns=(0, 0))  # what tells it from another one is its content
        opened = open_source(str(path))
        etag = f"sha256:{hash_input(opened.files[0])}"
        entries = tuple(replace(one, etag=etag) for one in opened.listing.entries)
        listing = replace(opened.listing, entries=entries)
        unnamed = replace(opened, location=f"table://{NAME}", listing=listing)
        yield unnamed.with_spec(SourceSpec())


def _to_tables(frame: Any) -> Iterable[pa.Table]:  # noqa: ANN401 - any library's
    """The table in pieces of `_ROWS` rows."""
    library = type(frame).__module__.partition(".")[0]
    if library == "datasets" and hasattr(frame, "iter"):
        return frame.with_format("arrow").iter(batch_size=_ROWS)  # type: ignore[no-any-return]
    if library == "pandas" and hasattr(frame, "index") and hasattr(frame, "columns"):
        named = any(name is not None for name in frame.index.names)  # else it only numbers the rows
        table = pa.Table.from_pandas(frame, preserve_index=named)
    elif hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        table = pa.table(frame)
    else:
        hint = "give a path, a URL, an Arrow table, a frame of pandas or Polars, or a Dataset"
        if isinstance(frame, dict):
            hint = "the source comes first, then the mapping; of a DatasetDict name one split"
        raise SourceError(_kind(frame), "is not a source", hint)
    return (table.slice(start, _ROWS) for start in range(0, table.num_rows, _ROWS))


def _write_tables(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write tables of one schema as an Arrow stream, and return the number of rows."""
    writer, rows = None, 0
    try:
        for table in tables:
            plain = table.replace_schema_metadata(None).combine_chunks()
            writer = writer or pa.ipc.new_stream(path, plain.schema)
            writer.write_table(plain)
            rows += plain.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _kind(frame: object) -> str:
    return f"{type(frame).__module__.partition('.')[0]}.{type(frame).__qualname__}"
