"""Rows as Parquet files of one schema."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.records import Bad
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.tables.decoding import to_batches
from ingot.converters.monolith.tables.files import ParquetSink
from ingot.converters.monolith.tables.schema import TableScan, TableSchema


def scanned(streams: Iterable[Iterator[Rows]]) -> tuple[TableSchema, int]:
    """The columns that the rows of all streams need, and how many rows lose their order.

    Raises:
        ConversionError: there would be too many columns.
    """
    scan = TableScan()
    for stream in streams:
        for rows in stream:
            scan.add(rows)
    return scan.schema(), scan.reordered


class Table:
    """Rows as the rows of a Parquet file."""

    def __init__(self, to: BinaryIO, schema: TableSchema, counts: Counts) -> None:
        self._sink, self._schema, self._counts = ParquetSink(to, schema), schema, counts

    def add(self, rows: Rows) -> list[Bad]:
        """Write rows; there is none that cannot be written."""
        for batch in to_batches(rows, self._schema):
            self._sink.write(batch)
        self._counts.written += len(rows)
        return []

    def close(self) -> None:
        """Write what is left."""
        self._sink.close()
