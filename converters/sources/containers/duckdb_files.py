"""DuckDB databases: each table is read as Arrow batches in the order of its rows, in a process."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final, cast

import pyarrow as pa

from ingot.converters.columnar.batch_checks import is_valid_batch
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources.containers.table_process import OpenTables, open_tables
from ingot.converters.sources.containers.tables import (
    VIEW,
    FoundTable,
    Wants,
    selected_names,
    table_entry,
)
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.columnar_files import batch_chunks
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.listing import Entry, Place

_SETTINGS: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "threads": "1",
    "memory_limit": "256MB",
}


def is_duckdb(_: Entry, seen: FilePeek) -> bool:
    """Tell a DuckDB database."""
    return seen.head[8:12] == b"DUCK"


class OpenDuckdb(OpenTables):
    """A DuckDB database that is open in a process."""

    def __init__(self, archive: Place) -> None:
        if find_spec("duckdb") is None:
            hint = 'pip install "ingot[duckdb]"'
            raise SourceError(str(archive), "a DuckDB file needs the package duckdb", hint)
        super().__init__(archive, Database)


def duckdb_tables(entry: Entry, _: SourceSpec, wants: Wants) -> Iterator[Entry | tuple[str, str]]:
    """Yield the tables of a database, and what is left out. Raises SourceError."""
    with open_tables(entry.place, OpenDuckdb) as base:
        for number, name, why in selected_names(base.tables, wants):
            if why:
                yield name, why
                continue
            columns, rows = base.describe(number)
            names = column_names(columns)
            facts = FileFacts(format="duckdb", columns=names, rows=rows, shape=frozenset(names))
            yield table_entry(entry, name, facts, number=number)


def read_duckdb_table(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a table. Raises SourceError."""
    place, where = cast(TableMember, file.place), str(file.place)
    with open_tables(place.archive, OpenDuckdb) as base:
        batches = _received_batches(base.rows(place.number), where)
        yield from batch_chunks(batches, file.facts.columns, where)


def _received_batches(
    streams: Iterator[bytes], where: str
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    for number, data in enumerate(streams):
        with translate_read_errors(where, f"cannot read record batch {number}"):
            batch = pa.ipc.open_stream(data).read_next_batch()
        yield batch, is_valid_batch(batch, number, where)


# --- in the process


class Database:
    """A DuckDB database that is open."""

    def __init__(self, path: str) -> None:
        import duckdb

        self._base: Any = duckdb.connect(path, read_only=True, config=dict(_SETTINGS))
        self._base.execute("SET enable_progress_bar = false")
        self._base.execute("SET TimeZone = 'UTC'")
        self._base.execute("SET lock_configuration = true")
        query = (
            "SELECT schema_name, table_name, FALSE FROM duckdb_tables() WHERE NOT temporary "
            "AND NOT internal AND database_name = current_database() UNION ALL "
            "SELECT schema_name, view_name, TRUE FROM duckdb_views() WHERE NOT temporary "
            "AND NOT internal AND database_name = current_database() ORDER BY 1, 2"
        )
        self._found: list[tuple[str, str, bool]] = self._base.execute(query).fetchall()

    def tables(self) -> list[FoundTable]:
        """The tables and views by schema and name; `main` is not said."""
        return [
            (name if schema == "main" else f"{schema}.{name}", VIEW if is_view else None, True)
            for schema, name, is_view in self._found
        ]

    def describe(self, number: int) -> tuple[list[str], int | None]:
        """The names of the columns, and the number of rows (None of a view)."""
        columns = self._base.execute(f"SELECT * FROM {self._name(number)} LIMIT 0").description
        names = [str(column[0]) for column in columns]
        if self._found[number][2]:
            return names, None
        return names, self._base.execute(f"SELECT count(*) FROM {self._name(number)}").fetchone()[0]

    def rows(self, number: int) -> Iterator[bytes]:
        """The rows as Arrow streams of a batch each, in the order in which they are stored."""
        columns = self._base.execute(f"SELECT * FROM {self._name(number)} LIMIT 0").description
        # Arrow's intervals have no text of their own.
        what = (
            f"CAST({name} AS VARCHAR) AS {name}" if str(kind) == "INTERVAL" else name
            for name, kind in ((_quoted(one[0]), one[1]) for one in columns)
        )
        # A relation streams; what `execute` gives is held as a whole.
        found = self._base.sql(f"SELECT {', '.join(what)} FROM {self._name(number)}")
        for batch in found.to_arrow_reader(TABLE_ROWS):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield sink.getvalue().to_pybytes()

    def _name(self, number: int) -> str:
        return ".".join(map(_quoted, self._found[number][:2]))

    def close(self) -> None:
        """Let go of the database."""
        self._base.close()


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
