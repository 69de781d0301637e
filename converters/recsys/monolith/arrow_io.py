"""Arrow tables of streams, and streams of Arrow tables, for Python."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ingot.converters.output.files import output_errors, whole_file
from ingot.converters.recsys.monolith.convert.settings import BATCH_SIZE, Counts, Filters, Settings
from ingot.converters.recsys.monolith.convert.stream import SINKS, StreamConverter
from ingot.converters.recsys.monolith.example_io import bad_record_error
from ingot.converters.recsys.monolith.fid import Version
from ingot.converters.recsys.monolith.frames.compression import compression_by_name
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.record_index import Bad, Rows
from ingot.converters.recsys.monolith.streams import convert_batches, find_inputs
from ingot.converters.recsys.monolith.tables.rows_to_arrow import decode_batches
from ingot.converters.recsys.monolith.tables.schema import TableScan
from ingot.converters.sources.recognizers.monolith import Kind

if TYPE_CHECKING:
    from ingot.converters.recsys.monolith.tables.table_file import TableFile

_ROWS_AT_A_TIME: Final = 8_192  # of a table that are converted at a time
_TABLE: Final = "the table"


def read_arrow(
    where: str | os.PathLike[str],
    *,
    kind: Kind = "example",
    framing: Framing | str = "sort_id",
    compression: str | None = None,
    filters: Filters | None = None,
    skip_bad: bool = False,
) -> pa.RecordBatchReader:
    """Read rows as record batches, with the columns of `docs/monolith.md`, Tables.

    The streams are read twice, first for the columns; memory holds some blocks and one batch.

    Args:
        where: a file, folder, glob or URL.
        kind: of the records.
        framing: how they are framed, or its name.
        compression: none, snappy, zstd, gzip or zlib; None: told by name and content.
        filters: what is left out.
        skip_bad: pass over what cannot be used.

    Raises:
        SourceError: a stream cannot be read, or something in it cannot be used.
        ConversionError: there would be too many columns, an unknown framing or compression, or a
            package is missing.
    """
    settings = Settings(
        source=kind,
        target="parquet",
        framing=Framing.parse(framing),
        compression=compression,
        filters=filters or Filters(),
        skip_bad=skip_bad,
    )
    files = find_inputs(os.fspath(where)).files

    def rows() -> Iterator[Iterator[Rows]]:
        for file in files:
            yield StreamConverter(file, settings).rows()

    scan = TableScan()
    for stream in rows():
        for part in stream:
            scan.add(part)
    schema = scan.schema()

    def batches() -> Iterator[pa.RecordBatch]:
        for stream in rows():
            for part in stream:
                yield from decode_batches(part, schema)

    return pa.RecordBatchReader.from_batches(schema.arrow, batches())


def write_arrow(
    where: str | os.PathLike[str],
    table: pa.Table | pa.RecordBatch | pa.RecordBatchReader,
    *,
    kind: Literal["example", "examplebatch"] = "example",
    framing: Framing | str = "sort_id",
    compression: str | None = None,
    batch_size: int = BATCH_SIZE,
    table_file: "TableFile | None" = None,
    fid: Version = "v2",
) -> int:
    """Write the rows of a table as Examples or ExampleBatches.

    Args:
        where: a file, which appears whole or not at all and replaces one of its name.
        table: rows; columns are told by what ingot wrote there, by `table_file`, names and types.
        kind: example | examplebatch.
        framing: how they are framed, or its name.
        compression: none, snappy, zstd, gzip or zlib; None: by the file's name, else none.
        batch_size: rows of an ExampleBatch.
        table_file: what a person says of the columns (`tables.table_file.load`).
        fid: the version of fids in columns of which nothing says it.

    Returns:
        How many rows were written.

    Raises:
        ParametersError: the columns are not what they should be.
        SourceError: a cell does not fit its column.
        ConversionError: an unknown framing or compression, or a package is missing.
        OutputError: the file cannot be written.
    """
    settings = Settings(
        source="parquet",
        target=kind,
        out_framing=Framing.parse(framing),
        batch_size=batch_size,
        table=table_file,
        fid=fid,
    )
    path, counts = Path(where), Counts()
    with output_errors(path), whole_file(path) as stream:
        packed = compression or compression_by_name(path.name) or "none"
        sink = SINKS[kind](stream, settings, packed, counts)
        for part in convert_batches(table.schema, _slice_table(table), _TABLE, table_file, fid):
            wrong, write = ([part], int) if isinstance(part, Bad) else sink.add(part)
            for record in wrong:
                raise bad_record_error(_TABLE, record, "mend or drop the row", of_table=True)
            write()
        sink.close()
    return counts.written


def _slice_table(
    table: pa.Table | pa.RecordBatch | pa.RecordBatchReader,
) -> Iterator[pa.RecordBatch]:
    batches = table.to_batches() if isinstance(table, pa.Table) else table
    for batch in [batches] if isinstance(batches, pa.RecordBatch) else batches:
        for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
            yield batch.slice(start, _ROWS_AT_A_TIME)
