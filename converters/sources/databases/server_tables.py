"""A table or query of a database server as a source: its rows are read as lines of JSON.

There are no bytes to hash but those of the rows as they are read, in an order that the table's key
or the query states. Each reading is one transaction that may only read.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO, Final, TypeAlias, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import orjson

from ingot.converters.errors import SourceError, StorageError, error_text, redact_urls
from ingot.converters.rows import Json
from ingot.converters.sources.formats.arrow import exact_number
from ingot.converters.sources.storage.listing import Entry, Listing

BATCH_ROWS: Final = 1_000
_BUFFER: Final = 64 << 10
_ORDER_BY: Final = re.compile(r"\border\s{1,99}by\b", re.IGNORECASE)
_HINT: Final = "check the server, the names and the credentials in the environment"
# The SHA-256 of the rows of a table that was read to its end last, in this process.
_digests: Final[dict["ServerTable", str]] = {}


@dataclass(frozen=True, slots=True)
class ServerTable:
    """The rows of a table, or of a query, of a server; `url` names the database only."""

    url: str = field(repr=False)
    table: str | None
    query: str | None

    def __str__(self) -> str:
        return redact_urls(self.url)

    def open(self) -> BinaryIO:
        """The rows as lines of JSON, read once from the start. Raises SourceError."""
        return cast(BinaryIO, io.BufferedReader(_RowStream(self), _BUFFER))

    def take_digest(self) -> str | None:
        """Return the SHA-256 of the rows that were just read to the end, if they were."""
        return _digests.pop(self, None)


# Yields the names of the columns, then rows, some at a time.
ReadRows: TypeAlias = Callable[[ServerTable], Iterator[Sequence[Any]]]


class _RowStream(io.RawIOBase):
    def __init__(self, place: ServerTable) -> None:
        self._place, self._sha256 = place, hashlib.sha256()
        self._blocks = _encoded_rows(_readers()[urlsplit(place.url).scheme](place))
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                _digests[self._place] = self._sha256.hexdigest()
                return 0
            self._sha256.update(block)
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        self._blocks.close()
        super().close()


def _readers() -> dict[str, ReadRows]:
    """What reads from a server; loaded when there is one."""
    from ingot.converters.sources.databases.mysql import read_mysql
    from ingot.converters.sources.databases.postgresql import read_postgresql

    return {"postgresql": read_postgresql, "postgres": read_postgresql, "mysql": read_mysql}


def list_table(url: str) -> Listing:
    """List a table or query of a server as the one file of a location. Raises SourceError."""
    parts, where = urlsplit(url), redact_urls(url)
    stated = dict(parse_qsl(parts.query))
    table, query = stated.pop("table", None), stated.pop("query", None)
    if parts.password or any(name.startswith("pass") for name in stated):
        hint = "set PGPASSWORD or MYSQL_PWD in the environment, or use ~/.pgpass"
        raise SourceError(where, "passwords are not taken from a URL", hint)
    if (table is None) == (query is None):
        problem = "state one of ?table=SCHEMA.TABLE and ?query=SELECT ... ORDER BY ..."
        raise SourceError(where, problem)
    if query is not None:
        query = _check_query(query, where)
    plain = urlunsplit(parts._replace(query=urlencode(stated, quote_via=quote), fragment=""))
    name = table or f"query of {unquote(parts.path).strip('/') or 'the database'}"
    entry = Entry(name=name, place=ServerTable(plain, table, query), bytes=0)
    return Listing(base=name, direct=True, entries=(entry,))


def _check_query(query: str, where: str) -> str:
    """Refuse a query whose rows may come in another order the next time."""
    query = query.strip().removesuffix(";").rstrip()
    if ";" in query:
        raise SourceError(where, "a `;` inside the query", "state one SELECT, without `;`")
    ends = [found.end() for found in _ORDER_BY.finditer(query)]
    tail = query[ends[-1] :] if ends else ""
    depth = least = 0
    for sign in tail:
        depth += (sign == "(") - (sign == ")")
        least = min(least, depth)
    if not tail.strip() or least < 0:
        problem = "the query has no ORDER BY at its end: equal runs would give other rows"
        raise SourceError(where, problem, "add ORDER BY with a unique key")
    return query


def no_key_error(place: ServerTable) -> SourceError:
    """Return the error for a table whose rows have no order."""
    problem = f"no table {place.table} with a primary key: its rows have no order"
    return SourceError(
        str(place), problem, "state ?query=SELECT ... ORDER BY ... with a unique key"
    )


def missing_package(place: ServerTable, package: str, extra: str) -> SourceError:
    """Return the error for a package that is not installed."""
    problem = f"a {extra} source needs the package {package}"
    return SourceError(str(place), problem, f'pip install "ingot[{extra}]"')


@contextmanager
def translate_server_errors(place: ServerTable, own: type[Exception]) -> Iterator[None]:
    """Translate the errors of a client: its text may quote the user."""
    try:
        yield
    except own as error:
        said = redact_urls(error_text(error))
        user = unquote(urlsplit(place.url).username or "")
        said = said.replace(user, "***") if user else said
        lost = type(error).__name__ in ("OperationalError", "InterfaceError")
        kind = StorageError if lost else SourceError
        raise kind(str(place), f"cannot read from the server: {said}", _HINT) from error


def _encoded_rows(found: Iterator[Sequence[Any]]) -> Generator[bytes, None, None]:
    with closing(cast(Any, found)):
        names = [str(name) for name in next(found)]
        for rows in found:
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
