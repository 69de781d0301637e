"""SQLite databases: tables are read in the order of their keys, by a connection that only reads.

The file may be hostile: a view may run for ever, a page may hold itself. So there is a bound of the
steps between two rows, one of the rows that a file of its size can hold, and an authorizer.
"""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import lt
from pathlib import Path
from sys import getsizeof
from typing import Any, Final, cast
from urllib.parse import quote

from ingot.converters.errors import SourceError, error_text, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.containers.tables import (
    QUERY,
    VIEW,
    FoundTable,
    LeftMember,
    Wants,
    database_facts,
    local_copy,
    open_container,
    quoted_name,
    selected_tables,
)
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.formats.columnar_files import rows_that_fit
from ingot.converters.sources.formats.row_chunks import (
    CHUNK_BYTES,
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    row_excerpt,
    rows_of_columns,
)
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.compression import check_growth
from ingot.converters.sources.storage.listing import Entry, LocalFile, Place

_MOST_ROWS: Final = 256  # that are fetched together
_STEPS: Final = 1 << 20
_MOST_STEPS: Final = 4_000  # times `_STEPS` between two rows: minutes
_PATTERN_BYTES: Final = 1_000  # of LIKE and GLOB, which take the square of it
_HEAP: Final = 256 << 20  # bytes that SQLite may hold in this process: a row and what makes it
_SETTINGS: Final = (
    *("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"),
    f"hard_heap_limit={_HEAP}",
)
_HINT: Final = "is it complete and closed? copy it again, or run PRAGMA integrity_check"
_VIRTUAL: Final = NoData.unread("a virtual table", ": export it as a table", "table")
_FORBIDDEN: Final = frozenset({"load_extension", "random", "randomblob", "fts3_tokenizer"})
_ALLOWED: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
# The first name that no column has gives the number of a row.
_ROW_NUMBERS: Final = ("rowid", "_rowid_", "oid")
_NO_NUMBER: Final = "NULL"


class _Database:
    """An open database; `archive` is its place."""

    def __init__(self, archive: Place) -> None:
        self.archive, self._where, self._steps, self.sound = archive, str(archive), 0, True
        before = _journal_states(archive)
        with ExitStack() as stack, self._translated():
            path = local_copy(stack, archive, before)
            if _journal_states(archive) != before:
                hint = "run again when nothing writes to it"
                raise SourceError(self._where, "changed while it was read", hint)
            # What is to be recovered from a journal is recovered in the copy.
            mode = "" if before else "?mode=ro&immutable=1"
            uri = f"file:{quote(str(path))}{mode}"
            self._base = sqlite3.connect(uri, uri=True, check_same_thread=False)
            stack.callback(self._base.close)
            self._base.text_factory = _text
            self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
            self._base.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
            self._base.set_progress_handler(self._step, _STEPS)
            for setting in _SETTINGS:
                self._base.execute(f"PRAGMA {setting}")
            self._base.set_authorizer(_authorize)
            self._stack = stack.pop_all()

    def _step(self) -> bool:
        self._steps += 1
        return self._steps > _MOST_STEPS

    @contextmanager
    def _translated(self, hint: str = _HINT) -> Iterator[None]:
        self._steps = 0
        try:
            yield
        except (sqlite3.Error, UnicodeError, MemoryError) as error:
            cause = "it takes too long" if self._steps > _MOST_STEPS else error_text(error)
            cause = "a row takes too much memory" if isinstance(error, MemoryError) else cause
            problem = f"cannot read the SQLite database: {cause}"
            raise SourceError(self._where, problem, hint) from error

    def fetch(self, query: str, *arguments: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises SourceError."""
        with self._translated():
            return self._base.execute(query, arguments).fetchall()

    def columns(self, query: str, hint: str = _HINT) -> tuple[str, ...]:
        """Return the names of the columns of a query. Raises SourceError."""
        with self._translated(hint):
            return tuple(column[0] for column in self._base.execute(query).description)

    def row_lists(self, query: str, most: int, stored: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, `most` at a time, those before an error before it."""
        with self._translated():
            cursor, read = self._base.execute(query), 0
            while True:
                rows: list[tuple[Any, ...]] = []
                self._steps = size = 0
                try:
                    while size < CHUNK_BYTES and len(rows) < most and (row := cursor.fetchone()):
                        rows.append(row)
                        size += sum(map(getsizeof, row))
                except sqlite3.Error:
                    yield rows
                    raise
                if not rows:
                    return
                read += size
                check_growth(self._where, read, stored, "its rows are ")
                yield rows

    def close(self) -> None:
        self._stack.close()


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _authorize(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (name or "").lower() in _FORBIDDEN else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _journal_states(place: Place) -> dict[str, tuple[int, int]]:
    """The endings, sizes and times of the journals beside a local database, without empty ones."""
    columns = {}
    for ending in ("-wal", "-journal") if isinstance(place, LocalFile) else ():
        path = Path(f"{place}{ending}")
        with translate_read_errors(str(path)):
            if path.is_file() and (facts := path.stat()).st_size:
                columns[ending] = (facts.st_size, facts.st_mtime_ns)
    return columns


def sqlite_tables(entry: Entry, spec: SourceSpec, wants: Wants) -> Iterator[Entry | LeftMember]:
    """Yield the tables of a database, and what is left out. Raises SourceError."""
    state = _journal_states(entry.place)
    etag = f"{entry.etag or ''}{state}" if state else entry.etag
    with open_container(_Database, entry.place) as base:
        tables = [(QUERY, None, True)] if spec.query else _table_kinds(base)
        yield from selected_tables(
            entry, tables, wants, lambda _, name: _table_facts(base, name, spec.query), etag
        )


def _table_kinds(base: _Database) -> Iterator[FoundTable]:
    query = "SELECT name, type, rootpage FROM sqlite_master ORDER BY name"
    for name, kind, page in base.fetch(query):
        if not isinstance(name, str):
            yield ascii(name), "its name is not UTF-8 text", False
        elif kind == "view":
            yield name, VIEW, True
        elif kind == "table" and not name.startswith("sqlite_"):
            yield name, None if page else _VIRTUAL, bool(page)


def _describe_table(
    base: _Database, name: str, query: str | None
) -> tuple[str, tuple[str, ...], bool, str]:
    """Where it is, its columns, whether it is no view, and what gives the number of a row."""
    if query:
        return "", base.columns(query, "check the query"), False, _NO_NUMBER
    kinds = base.fetch("SELECT type FROM sqlite_master WHERE name = ?", name)
    # As it is stored, which is in the order of its keys.
    origin = f"FROM main.{quoted_name(name)} AS t NOT INDEXED"
    columns = base.columns(f"SELECT t.* {origin} LIMIT 0")
    is_table, names = ("table",) in kinds, {column.lower() for column in columns}
    number = next((f"t.{name}" for name in _ROW_NUMBERS if name not in names), None)
    if is_table and number:
        with suppress(SourceError):  # a table WITHOUT ROWID
            base.columns(f"SELECT {number} {origin} LIMIT 0")
            return origin, columns, is_table, number
    return origin, columns, is_table, _NO_NUMBER


def _table_facts(base: _Database, name: str, query: str | None) -> FileFacts:
    """The facts of a table; a view and a damaged table have an unknown number of rows."""
    (origin, columns, is_table, _), count = _describe_table(base, name, query), None
    if is_table:
        with suppress(SourceError):  # reading says what is wrong, after the rows before
            # Each row is a step, so that a page that holds itself has an end.
            ((count,),) = base.fetch(f"SELECT ifnull(sum(1), 0) {origin}")
    return database_facts("sqlite", columns, count)


def read_sqlite_table(file: SourceFile, spec: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a table. Raises SourceError, after the rows before the damage."""
    place, where = cast(TableMember, file.place), str(file.place)
    with open_container(_Database, place.archive) as base:
        origin, _, is_table, number = _describe_table(base, place.member, spec.query)
        query, last, count = spec.query or f"SELECT t.*, {number} {origin}", -(1 << 63) - 1, 0
        most = min(_MOST_ROWS, rows_that_fit(file.facts.rows or 1, file.bytes))
        for rows in base.row_lists(query, most, file.bytes):
            count += len(rows)
            sound = not is_table or count <= file.bytes
            if number != _NO_NUMBER:  # which show a page that is there twice
                numbers = [last, *(row[-1] for row in rows)]
                sound, last = all(map(lt, numbers, numbers[1:])), numbers[-1]
            if not sound:
                problem = "the numbers of its rows do not rise, or it has more rows than bytes"
                raise SourceError(where, f"damaged SQLite database: {problem}", "copy it again")
            yield _row_chunk(rows, file.facts.columns)


def _row_chunk(rows: list[tuple[Any, ...]], names: Sequence[str]) -> RowChunk:
    """Rows as objects, without the number behind their cells."""
    columns = list(zip(*rows, strict=True))
    if any(map(_has_odd_cells, columns)):
        return chunk_of_counted([_row_value(names, row) for row in rows])
    return RowChunk(values=rows_of_columns(names, columns), sound=True)


def _has_odd_cells(column: tuple[Any, ...]) -> bool:
    kinds = {*map(type, column)}
    return bytes in kinds or (float in kinds and (math.inf in column or -math.inf in column))


def _row_value(names: Sequence[str], row: Sequence[Any]) -> tuple[Json, int]:
    """A row with its texts decoded, and how many infinities in it are read as null."""
    value, odd = dict(zip(names, row, strict=False)), 0
    for name, cell in value.items():
        if type(cell) is bytes:
            value[name] = _text(cell)
            if value[name] is cell:
                problem = f"{name} holds bytes that are not UTF-8 text"
                return BrokenRow(problem, row_excerpt(cell)), 0
        elif type(cell) is float and math.isinf(cell):
            value[name], odd = None, odd + 1
    return value, odd
