"""A table or query of a database server as a source: its rows are read as lines of JSON.

There are no bytes to hash but those of the rows as they are read, in an order that the table's key
or the query states. Each reading is one transaction that may only read.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import import_module
from typing import Any, BinaryIO, Final, TypeAlias, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import orjson

from ingot.converters.errors import (
    SourceError,
    StorageError,
    error_text,
    missing_package,
    redact_urls,
)
from ingot.converters.rows import Json
from ingot.converters.sources.containers.tables import quoted_name
from ingot.converters.sources.facts import SourceFile
from ingot.converters.sources.formats.arrow import exact_number
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.storage.compression import RawStream
from ingot.converters.sources.storage.places import Entry, Listing

_BATCH_ROWS: Final = 1_000
_QUERIED: Final = ("duckdb", "sqlite")  # files; servers are asked as well
_BUFFER: Final = 64 << 10
_ORDER_BY: Final = re.compile(r"\border\s{1,99}by\b", re.IGNORECASE)
# The schema, the table and a column of its primary key, for each column of that.
_POSTGRESQL_KEY: Final = (
    "SELECT n.nspname, c.relname, a.attname FROM pg_index i "
    "JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number "
    "WHERE i.indisprimary AND c.relname = %(table)s AND (n.nspname = %(schema)s OR "
    "%(schema)s::text IS NULL AND pg_table_is_visible(c.oid)) ORDER BY k.place"
)
_POSTGRESQL_OPTIONS: Final = (
    "-c default_transaction_read_only=on -c default_transaction_isolation=repeatable\\ read "
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 -c extra_float_digits=1"
)
_MYSQL_KEY: Final = (
    "SELECT table_schema, table_name, column_name FROM information_schema.key_column_usage "
    "WHERE constraint_name = 'PRIMARY' AND table_name = %(table)s "
    "AND table_schema = COALESCE(%(schema)s, DATABASE()) ORDER BY ordinal_position"
)
_MYSQL_OPTIONS: Final = (
    *("ssl_ca", "ssl_cert", "ssl_key", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"),
)
_MYSQL_SETTINGS: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION time_zone = '+00:00'",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
# The SHA-256 of the rows of a table that was read to its end last, in this process.
_digests: Final[dict["ServerTable", str]] = {}


@dataclass(frozen=True, slots=True)
class ServerTable:
    """The rows of a table, or of a query, of a server; `url` names the database only."""

    url: str = field(repr=False)
    table: str | None
    query: str | None = None

    def __str__(self) -> str:
        return redact_urls(self.url)

    def open(self) -> BinaryIO:
        """Open the rows as lines of JSON, read once from the start. Raises SourceError."""
        return cast(BinaryIO, io.BufferedReader(_RowStream(self), _BUFFER))

    def take_digest(self) -> str | None:
        """Return the SHA-256 of the rows that were just read to the end, if they were."""
        return _digests.pop(self, None)


class _RowStream(RawStream):
    def __init__(self, place: ServerTable) -> None:
        self._place, self._sha256 = place, hashlib.sha256()
        self._blocks = _encoded_rows(_read_rows(place))
        self._rest = b""
        super().__init__(cast(BinaryIO, self._blocks))

    def take(self, size: int) -> bytes:
        if not self._rest:
            self._rest = next(self._blocks, b"")
            self._sha256.update(self._rest)
            if not self._rest:
                _digests[self._place] = self._sha256.hexdigest()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def list_table(url: str) -> Listing:
    """List a table of a server, or what a query will give, as one file. Raises SourceError."""
    parts, where = urlsplit(url), redact_urls(url)
    stated = dict(parse_qsl(parts.query))
    table = stated.pop("table", None)
    if parts.password or any("pass" in name for name in stated):
        hint = "set PGPASSWORD or MYSQL_PWD in the environment, or use ~/.pgpass"
        raise SourceError(where, "passwords are not taken from a URL", hint)
    if "query" in stated:
        raise SourceError(where, "a query is not taken from a URL", "state it as `query`")
    plain = urlunsplit(parts._replace(query=urlencode(stated, quote_via=quote), fragment=""))
    name = table or f"query of {unquote(parts.path).strip('/') or 'the database'}"
    entry = Entry(name=name, place=ServerTable(plain, table), bytes=0)
    return Listing(base=name, direct=True, entries=(entry,))


def state_query(listing: Listing, query: str, where: str) -> Listing:
    """Return a listing in which a server is asked a query.

    Raises SourceError for one whose rows may come in another order the next time, of any database.
    """
    if any(mark in query.strip().removesuffix(";") for mark in (";", "--", "/*")):
        problem = "a `;` or a comment inside the query"
        raise SourceError(where, problem, "state one SELECT, without `;`, `--` and `/*`")
    tail = _ORDER_BY.split(query)[1:][-1:]
    if not tail or not tail[0].strip() or tail[0].count(")") > tail[0].count("("):
        problem = "the query has no ORDER BY at its end: equal runs would give other rows"
        raise SourceError(where, problem, "add ORDER BY with a unique key")
    entries = [
        replace(entry, place=replace(entry.place, query=query))
        if isinstance(entry.place, ServerTable)
        else entry
        for entry in listing.entries
    ]
    return replace(listing, entries=tuple(entries))


def check_queried(files: Iterable[SourceFile]) -> None:
    """Raise SourceError for files that are no databases, which take no query."""
    for file in files:
        if file.facts.format not in _QUERIED and not isinstance(file.place, ServerTable):
            problem = "a query is for databases: SQLite, DuckDB, PostgreSQL, MySQL"
            raise SourceError(str(file.place), problem, "leave `query` out, or name a database")


def _read_rows(place: ServerTable) -> Generator[Sequence[Any], None, None]:
    """Yield the names of the columns, then rows, some at a time. Raises SourceError."""
    if (place.table is None) == (place.query is None):
        several = "it names a table and a query"
        problem = several if place.table else "it is not stated which table or query to read"
        hint = "append ?table=SCHEMA.TABLE to the URL, or set `query`: SELECT ... ORDER BY a key"
        raise SourceError(str(place), problem, hint)
    package, extra, read = _SERVERS[urlsplit(place.url).scheme]
    try:
        client: Any = import_module(package)
    except ImportError as error:
        raise missing_package(str(place), f"a {extra} source", package, extra) from error
    try:
        yield from read(client, place)
    except (client.Error, OSError) as error:  # its text may quote the user
        cause = redact_urls(error_text(error))
        user = unquote(urlsplit(place.url).username or "")
        cause = cause.replace(user, "***") if user else cause
        lost = isinstance(error, client.OperationalError | client.InterfaceError)
        hint = "check the server, the names and the credentials in the environment"
        kind = StorageError if lost else SourceError
        raise kind(str(place), f"cannot read from the server: {cause}", hint) from error


def _fetch_rows(cursor: Any, query: str) -> Iterator[Sequence[Any]]:  # noqa: ANN401
    cursor.execute(query)
    yield column_names([column[0] for column in cursor.description or ()])
    while rows := cursor.fetchmany(_BATCH_ROWS):
        yield rows


def _table_query(place: ServerTable, cursor: Any, key_query: str, mark: str) -> str:  # noqa: ANN401
    """Select all of a table in the order of its primary key."""
    schema, _, table = (place.table or "").rpartition(".")
    cursor.execute(key_query, {"table": table, "schema": schema or None})
    key = [[quoted_name(str(name), mark) for name in index] for index in cursor.fetchall()]
    if not key:
        problem = f"no table {place.table} with a primary key: its rows have no order"
        hint = "state `query`: SELECT ... ORDER BY a unique key"
        raise SourceError(str(place), problem, hint)
    order = ", ".join(column for _, _, column in key)
    return f"SELECT * FROM {key[0][0]}.{key[0][1]} ORDER BY {order}"


def _read_postgresql(client: Any, place: ServerTable) -> Iterator[Sequence[Any]]:  # noqa: ANN401
    """Rows of a cursor on the server, in one transaction that may only read."""
    from psycopg.adapt import Loader

    class TimeLoader(Loader):
        """Times as the server writes them, as ISO 8601: Python has no infinity, no year 10,000."""

        def load(self, data: Any) -> str:  # noqa: ANN401
            text = bytes(data).decode().replace(" ", "T", 1).replace("TBC", " BC")
            return f"{text}:00" if text.endswith("+00") else text

    with client.connect(place.url, options=_POSTGRESQL_OPTIONS) as connection:
        for name in ("timestamp", "timestamptz", "timetz", "time", "date", "interval"):
            connection.adapters.register_loader(name, TimeLoader)
        query = place.query or _table_query(place, connection.cursor(), _POSTGRESQL_KEY, '"')
        with connection.cursor(name="ingot") as cursor:
            yield from _fetch_rows(cursor, query)


def _read_mysql(client: Any, place: ServerTable) -> Iterator[Sequence[Any]]:  # noqa: ANN401
    """Unbuffered rows of one consistent snapshot that may only be read."""
    at, conversions = urlsplit(place.url), client.converters.conversions
    stated = dict(parse_qsl(at.query))
    if odd := [name for name in stated if name not in _MYSQL_OPTIONS]:
        hint = f"those of a URL are {', '.join(_MYSQL_OPTIONS)}"
        raise SourceError(str(place), f"no option of pymysql: {', '.join(odd)}", hint)
    connection = client.connect(
        **{
            name: {"true": True, "false": False}.get(value, value) for name, value in stated.items()
        },
        host=at.hostname or "localhost",
        port=at.port or 3306,
        user=unquote(at.username) if at.username else None,
        password=os.environ.get("MYSQL_PWD", ""),
        database=unquote(at.path.strip("/")) or None,
        charset="utf8mb4",
        conv={
            k: conversion for k, conversion in conversions.items() if k != client.FIELD_TYPE.TIME
        },
        local_infile=False,
    )
    rows_cursor = connection.cursor(client.cursors.SSCursor)
    try:
        with connection.cursor() as cursor:
            for setting in _MYSQL_SETTINGS:
                cursor.execute(setting)
            query = place.query or _table_query(place, cursor, _MYSQL_KEY, "`")
        yield from _fetch_rows(rows_cursor, query)
    finally:
        connection.close()
        # The end of the cursor, and of its result, would read all rows that are left.
        rows_cursor.connection = None
        if rows_cursor._result:
            rows_cursor._result.unbuffered_active = False


# By the scheme: the package of the client, its extra, and what reads with it.
_Read: TypeAlias = Callable[[Any, ServerTable], Iterator[Sequence[Any]]]
_SERVERS: Final[dict[str, tuple[str, str, _Read]]] = {
    "postgresql": ("psycopg", "postgres", _read_postgresql),
    "postgres": ("psycopg", "postgres", _read_postgresql),
    "mysql": ("pymysql", "mysql", _read_mysql),
}


def _encoded_rows(batches: Generator[Sequence[Any], None, None]) -> Generator[bytes, None, None]:
    with closing(batches):
        names = next(batches)
        for rows in batches:
            lines = (_encode_row(dict(zip(names, row, strict=True))) for row in rows)
            yield b"".join(line + b"\n" for line in lines)


def _encode_row(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, default=_plain_value)
    except TypeError:  # an integer beyond 64 bits, or binary that is no text
        pass
    try:
        return json.dumps(row, default=_plain_value, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        names = (name for name, cell in row.items() if isinstance(cell, bytes | memoryview))
        return f"binary that is no UTF-8 text: {', '.join(names)}".encode("utf-8", "replace")


def _plain_value(value: Any) -> Json:  # noqa: ANN401 - what a client gives
    if isinstance(value, Decimal):
        return exact_number(value) if value.is_finite() else None
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
