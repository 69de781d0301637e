"""DuckDB databases: each table is read as Arrow batches in the order of its rows, in a process."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

import pyarrow as pa

from ingot.converters.sources.containers.tables import (
    QUERY,
    VIEW,
    FoundTable,
    LeftMember,
    OpenTables,
    Wants,
    database_facts,
    open_container,
    quoted_name,
    selected_tables,
)
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats.columnar_files import batch_chunks, valid_batches
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.listing import Entry

_SETTINGS: Final[dict[str, Any]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "threads": "1",
}
# What DuckDB may hold of a file, and what it needs where 2,048 rows have more than 100 MB of text.
_MEMORY: Final = "256MB", "1200MB"
_FEW_ROWS: Final = 64  # of a batch then
_TABLES: Final = (
    "SELECT table_schema, table_name, table_type = 'VIEW' FROM information_schema.tables "
    "WHERE table_catalog = current_database() ORDER BY 1, 2"
)


def duckdb_tables(entry: Entry, spec: SourceSpec, wants: Wants) -> Iterator[Entry | LeftMember]:
    """Yield the tables of a database, and what is left out. Raises SourceError."""
    with open_container(OpenTables, entry.place, Database) as base:
        yield from selected_tables(
            entry,
            [(QUERY, None, True)] if spec.query else base.tables,
            wants,
            lambda number, _: database_facts("duckdb", *base.describe(spec.query or number)),
        )


def read_duckdb_table(file: SourceFile, spec: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a table. Raises SourceError."""
    place, where = cast(TableMember, file.place), str(file.place)
    with open_container(OpenTables, place.archive, Database) as base:
        batches = valid_batches(base.rows(spec.query or place.number), where)
        yield from batch_chunks(batches, file.facts.columns, where)


class Database:
    """A DuckDB database that is open, in the process."""

    NEEDS = "a DuckDB file", "duckdb", "duckdb"

    def __init__(self, path: str) -> None:
        self._path = path
        self._open(_MEMORY[0])
        self._found: list[tuple[str, str, bool]] = self._base.execute(_TABLES).fetchall()

    def _open(self, memory: str) -> None:
        import duckdb

        settings = {**_SETTINGS, "memory_limit": memory}
        self._base: Any = duckdb.connect(self._path, read_only=True, config=settings)
        self._base.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")

    def tables(self) -> list[FoundTable]:
        """Return the tables and views by schema and name; `main` is not said."""
        return [
            (name if schema == "main" else f"{schema}.{name}", VIEW if is_view else None, True)
            for schema, name, is_view in self._found
        ]

    def describe(self, table: int | str) -> tuple[list[str], int | None]:
        """Return the names of the columns, and the number of rows (None of a view or query)."""
        query = self._select(table)
        counted = isinstance(table, int) and not self._found[table][2]
        return query.columns, query.count("*").fetchall()[0][0] if counted else None

    def rows(self, table: int | str) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order in which they are stored, or of a query.

        Where they are too long for the memory, reading begins anew with more of it.
        """
        import duckdb

        sent = 0
        with suppress(duckdb.OutOfMemoryException, OSError):  # which Arrow makes of it
            for batch in self._batches(table, TABLE_ROWS):
                yield batch
                sent += batch.num_rows
            return
        self._base.close()  # a file is open with one configuration
        self._open(_MEMORY[1])
        for batch in self._batches(table, _FEW_ROWS):
            yield batch.slice(min(sent, batch.num_rows))
            sent -= min(sent, batch.num_rows)

    def _batches(self, table: int | str, most: int) -> Iterator[pa.RecordBatch]:
        query = self._select(table)
        # Arrow's intervals have no text of their own.
        texts = [
            f"CAST({name} AS VARCHAR) AS {name}"
            for name, kind in zip(map(quoted_name, query.columns), query.types, strict=True)
            if str(kind) == "INTERVAL"
        ]
        query = query.project(f"* REPLACE ({', '.join(texts)})") if texts else query
        return iter(query.to_arrow_reader(most))

    def _select(self, table: int | str) -> Any:  # noqa: ANN401
        """A relation, which streams; what `execute` gives is held as a whole."""
        if isinstance(table, int):
            table = f"FROM {'.'.join(map(quoted_name, self._found[table][:2]))}"
        return self._base.sql(table)
