"""SQLite databases: tables are read in the order of their keys, by a connection that only reads.

The file may be hostile: a view may run for ever, a page may hold itself. So there is a bound of the
steps between two rows, one of the rows that a file of its size can hold, and an authorizer.
"""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import lt
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from ingot.converters.errors import SourceError, error_text, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.containers.tables import (
    VIEW,
    FoundTable,
    LocalCopy,
    Wants,
    selected_names,
    table_entry,
)
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    row_excerpt,
)
from ingot.converters.sources.storage.archives import TableMember, give_back_open, take_open
from ingot.converters.sources.storage.listing import Entry, LocalFile, Place

_MAGIC: Final = b"SQLite format 3\x00"
_JOURNALS: Final = ("-wal", "-journal")
# Rows that are fetched together: as many as have `_CHUNK_BYTES`, going by those before.
_FIRST_ROWS: Final = 16
_MOST_ROWS: Final = 256
_CHUNK_BYTES: Final = 1 << 20
_LONG: Final = (str, bytes)
_CACHE_KIB: Final = 16 << 10
_STEPS: Final = 1 << 20
_MOST_STEPS: Final = 4_000  # times `_STEPS` between two rows: minutes
_MOST_COUNTED: Final = 20_000_000  # rows; a larger table has an unknown number of them
_PATTERN_BYTES: Final = 1_000  # of LIKE and GLOB, which take the square of it
_VIRTUAL: Final = "a virtual table, which is not read: export it as a table"
_FORBIDDEN: Final = frozenset({"load_extension", "random", "randomblob", "fts3_tokenizer"})
_ALLOWED: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
# The first name that no column has gives the number of a row.
_ROW_NUMBERS: Final = ("rowid", "_rowid_", "oid")


def is_sqlite(_: Entry, seen: FilePeek) -> bool:
    """Tell an SQLite database."""
    return seen.head.startswith(_MAGIC)


class _Database:
    """An open database; `archive` is its place."""

    def __init__(self, archive: Place) -> None:
        self.archive, self._where = archive, str(archive)
        before = _journal_state(archive)
        self._copy = LocalCopy(archive, tuple(ending for ending, _ in before))
        if _journal_state(archive) != before:
            self._copy.close()
            hint = "run again when nothing writes to it"
            raise SourceError(self._where, "changed while it was read", hint)
        self._steps = 0
        # What is to be recovered from a journal is recovered in the copy.
        how = "" if before else "?mode=ro&immutable=1"
        with self.translated():
            uri = f"file:{quote(str(self._copy.path))}{how}"
            self._base = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
            self._base.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
            self._base.set_progress_handler(self._step, _STEPS)
            for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
                self._base.execute(f"PRAGMA {setting}")
            self._base.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()
            self._base.execute("PRAGMA query_only=ON")
            self._base.set_authorizer(_authorize)

    def _step(self) -> bool:
        self._steps += 1
        return self._steps > _MOST_STEPS

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate the errors of SQLite."""
        try:
            yield
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            said = "it takes too long" if self._steps > _MOST_STEPS else error_text(error)
            problem = f"cannot read the SQLite database: {said}"
            hint = "is it complete and closed? copy it again, or run PRAGMA integrity_check"
            raise SourceError(self._where, problem, hint) from error

    def rows(self, query: str, given: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, texts as bytes. Raises SourceError."""
        self._steps, self._base.text_factory = 0, bytes
        with self.translated():
            for row in self._base.execute(query, given):
                self._steps = 0
                yield row

    def row_lists(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, some at a time, those before an error before it.

        Rows are fetched together until one cannot be. From there on they are fetched one by one,
        texts as bytes. Raises SourceError.
        """
        done = 0
        try:
            self._steps, self._base.text_factory = 0, str
            cursor, most = self._base.execute(query), _FIRST_ROWS
            while rows := cursor.fetchmany(most):
                self._steps = 0
                done += len(rows)
                size = sum(map(_text_bytes, zip(*rows, strict=True)))
                most = max(1, min(2 * most, _MOST_ROWS, _CHUNK_BYTES * most // max(1, size)))
                yield rows
                del rows
            return
        except (sqlite3.Error, MemoryError):
            if self._steps > _MOST_STEPS:
                with self.translated():
                    raise
        held: list[tuple[Any, ...]] = []
        failed: SourceError | None = None
        try:
            for row in islice(self.rows(query), done, None):
                held.append(row)
                if len(held) == _FIRST_ROWS:
                    yield held
                    held = []
        except SourceError as error:
            failed = error
        if held:
            yield held
        if failed:
            raise failed

    def columns(self, query: str) -> tuple[str, ...]:
        """Return the names of the columns of a query. Raises SourceError."""
        self._steps = 0
        with self.translated():
            return tuple(one[0] for one in self._base.execute(query).description)

    def close(self) -> None:
        """Let go of the database."""
        self._base.close()
        self._copy.close()


def _authorize(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (name or "").lower() in _FORBIDDEN else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _journal_state(place: Place) -> tuple[tuple[str, tuple[int, int]], ...]:
    """The journals beside a local database that are not empty: their endings and states."""
    if not isinstance(place, LocalFile):
        return ()
    found = []
    for ending in _JOURNALS:
        path = Path(place.path + ending)
        with translate_read_errors(str(path)):
            if path.is_file() and (facts := path.stat()).st_size:
                found.append((ending, (facts.st_size, facts.st_mtime_ns)))
    return tuple(found)


@contextmanager
def _open_database(archive: Place) -> Iterator[_Database]:
    held = take_open(_Database, archive) or _Database(archive)
    try:
        yield held
    finally:
        give_back_open(held)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table: its columns, its kind, and what gives the number of a row (None: it has none)."""

    name: str
    columns: tuple[str, ...]
    is_table: bool
    row_number: str | None

    def query(self, what: str) -> str:
        """Select from it in the order in which it is stored, which is that of its keys."""
        plain = " NOT INDEXED" if self.is_table else ""
        return f"SELECT {what} FROM main.{_quoted(self.name)} AS t{plain}"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def sqlite_tables(entry: Entry, _: SourceSpec, wants: Wants) -> Iterator[Entry | tuple[str, str]]:
    """Yield the tables of a database, and what is left out. Raises SourceError."""
    state = _journal_state(entry.place)
    etag = f"{entry.etag or ''}{state}" if state else entry.etag
    with _open_database(entry.place) as base:
        for number, name, why in selected_names(_table_kinds(base), wants):
            table = None if why else _describe_table(base, name)
            if table is None:
                yield name, str(why)
                continue
            facts = FileFacts(
                format="sqlite",
                columns=column_names(table.columns),
                rows=_count_rows(base, table),
                shape=frozenset(column_names(table.columns)),
            )
            yield table_entry(entry, name, facts, number=number, etag=etag)


def _table_kinds(base: _Database) -> Iterator[FoundTable]:
    query = "SELECT name, type, rootpage FROM sqlite_master ORDER BY name"
    for name, kind, page in list(base.rows(query)):
        text = _text(name or b"")
        if text.startswith("sqlite_") or kind not in (b"table", b"view"):
            continue
        if kind == b"view":
            yield text, VIEW, True
        else:
            yield text, None if page else _VIRTUAL, bool(page)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _describe_table(base: _Database, name: str) -> _Table:
    found = list(base.rows("SELECT type FROM sqlite_master WHERE name = ?", (name,)))
    table = _Table(name, (), (b"table",) in found, None)
    table = replace(table, columns=base.columns(f"{table.query('t.*')} LIMIT 0"))
    taken = {column.lower() for column in table.columns}
    free = [f"t.{one}" for one in _ROW_NUMBERS if one not in taken][:1]
    for number in free if table.is_table else ():
        with suppress(SourceError):  # a table WITHOUT ROWID
            base.columns(f"{table.query(number)} LIMIT 0")
            return replace(table, row_number=number)
    return table


def _count_rows(base: _Database, table: _Table) -> int | None:
    """The rows of a table; None of a view, of a damaged table and of a large one."""
    if not table.is_table:
        return None
    inner = f"{table.query('1')} LIMIT {_MOST_COUNTED + 1}"
    try:
        ((count,),) = base.rows(f"SELECT count(*) FROM ({inner})")
    except SourceError:  # reading says what is wrong, after the rows before
        return None
    return int(count) if count <= _MOST_COUNTED else None


def read_sqlite_table(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a table. Raises SourceError, after the rows before the damage."""
    place, names = cast(TableMember, file.place), file.facts.columns
    with _open_database(place.archive) as base:
        table = _describe_table(base, place.member)
        # Names behind `t.` are never taken for texts.
        what = [*(f"t.{_quoted(name)}" for name in table.columns), table.row_number or "NULL"]
        last, count = -(1 << 63) - 1, 0
        for rows in base.row_lists(table.query(", ".join(what))):
            count += len(rows)
            if table.row_number:  # a page that is there twice shows by the numbers of its rows
                numbers = [last, *(row[-1] for row in rows)]
                if not all(map(lt, numbers, numbers[1:])):
                    raise _damaged(str(place), f"the numbers of rows do not rise behind {last}")
                last = numbers[-1]
            elif table.is_table and count > file.bytes:
                raise _damaged(str(place), "it has more rows than bytes")
            yield _row_chunk(rows, names)


def _text_bytes(column: tuple[Any, ...]) -> int:
    """About how many bytes the texts and blobs of a column have."""
    kinds = {*map(type, column)}
    if kinds.isdisjoint((str, bytes)):
        return 0
    return sum(map(len, column if len(kinds) == 1 else [c for c in column if type(c) in _LONG]))


def _row_chunk(rows: list[tuple[Any, ...]], names: Sequence[str]) -> RowChunk:
    """Rows as objects, without the number behind their cells."""
    for column in zip(*rows, strict=True):
        kinds = {*map(type, column)}
        if bytes in kinds or (float in kinds and (math.inf in column or -math.inf in column)):
            break
    else:
        return RowChunk(values=[dict(zip(names, row, strict=False)) for row in rows], sound=True)
    return chunk_of_counted([_row_value(names, row) for row in rows])


def _row_value(names: Sequence[str], row: tuple[Any, ...]) -> tuple[Json, int]:
    """A row with its texts decoded, and how many infinities in it are read as null."""
    value, odd = dict(zip(names, row, strict=False)), 0
    for name, cell in value.items():
        if type(cell) is bytes:
            try:
                value[name] = cell.decode()
            except UnicodeDecodeError:
                problem = f"{name} is neither text nor binary that is UTF-8 text"
                return BrokenRow(problem, row_excerpt(cell)), 0
        elif type(cell) is float and math.isinf(cell):
            value[name], odd = None, odd + 1
    return value, odd


def _damaged(where: str, problem: str) -> SourceError:
    return SourceError(where, f"damaged SQLite database: {problem}", "copy it again")
