"""What is remembered between processes: how an endpoint likes to be asked, and accepted replies.

One SQLite file under the state folder, readable by its owner only; it holds plain JSON and neither
rows nor keys. It is made on the first write or read.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path

from ingot.agent.model.endpoint import Endpoint, service_url
from ingot.agent.model.sqlite_file import database_error, open_database
from ingot.converters.json_yaml import decode, encode
from ingot.converters.rows import Json

CACHE_FILE = "models.sqlite"
KEPT_S = 30 * 86400
FORM_LEVELS = ("json_schema", "json_object", "tool", "prompt")
DROPPABLE = ("temperature", "seed")
STREAMING = ("stream_options", "stream")
BOUNDS = ("bounds",)
LEFT_OUT = DROPPABLE + STREAMING + BOUNDS
ROOM_PARAMETERS = ("max_tokens", "max_completion_tokens")
_TABLES = "".join(
    f"CREATE TABLE IF NOT EXISTS {name}"
    " (key TEXT PRIMARY KEY, document TEXT NOT NULL, at REAL NOT NULL);"
    for name in ("endpoints", "replies")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownForm:
    """How an endpoint is asked best, as far as that was found out.

    `level` is one of `FORM_LEVELS`, `dropped` of `LEFT_OUT`, `room` of `ROOM_PARAMETERS` (None = it
    takes none). `enforced`: a reply of that level was seen to obey
    what it was asked for against the model's will.
    """

    level: str
    dropped: tuple[str, ...] = ()
    room: str | None = "max_tokens"
    enforced: bool = False


class Store:
    """The memory under a folder; `folder` None = in memory, for as long as the object lives."""

    def __init__(self, folder: Path | None) -> None:
        self._file = folder and folder / CACHE_FILE
        self._memory: dict[tuple[str, str], tuple[str, float]] = {}

    def level(self, endpoint: Endpoint) -> KnownForm | None:
        """Return what is known of the endpoint's model.

        None = nothing of late that can be understood.
        """
        document = self._read("endpoints", _endpoint_key(endpoint), KEPT_S)
        return None if document is None else _parse_known(document)

    def remember_form(self, endpoint: Endpoint, known: KnownForm) -> None:
        """Store for 30 days in which form the endpoint's model answers best."""
        self._write("endpoints", _endpoint_key(endpoint), encode(known))

    def reply(self, key: str) -> dict[str, Json] | None:
        """Return the accepted reply under that key, unchecked; None = there is no JSON object."""
        return self._read("replies", key, None)

    def keep(self, key: str, document: dict[str, Json]) -> None:
        """Store an accepted reply under the key; it replaces an earlier one."""
        self._write("replies", key, document)

    def _read(self, table: str, key: str, most_s: float | None) -> dict[str, Json] | None:
        since = 0.0 if most_s is None else time.time() - most_s
        if self._file is None:
            text, at = self._memory.get((table, key), ("null", 0.0))
            return _parse_document(text) if at >= since else None
        # As bytes: a text that is no UTF-8 would end in an error of the library.
        ask = f"SELECT CAST(document AS BLOB) FROM {table} WHERE key = ? AND at >= ?"
        with open_tables(self._file, _TABLES) as connection:
            row = connection.execute(ask, (key, since)).fetchone()
        return _parse_document(row[0]) if row and row[0] is not None else None

    def _write(self, table: str, key: str, document: dict[str, Json]) -> None:
        text = dumps(document, sort_keys=True)  # ASCII: halves of surrogate pairs cannot be stored
        if self._file is None:
            self._memory[table, key] = (text, time.time())
            return
        put = f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)"
        with open_tables(self._file, _TABLES) as connection, connection:
            connection.execute(put, (key, text, time.time()))


@contextmanager
def open_tables(file: Path, tables: str) -> Iterator[sqlite3.Connection]:
    """Open the database of a file, in which tables are made that are not there."""
    with closing(open_database(file)) as connection:
        try:
            connection.executescript(tables)
            yield connection
        except (OSError, sqlite3.Error) as error:
            raise database_error(file, error) from error


def _parse_document(text: bytes | str) -> dict[str, Json] | None:
    """A document as it was kept; None = whatever else stands there: the memory is a file."""
    try:
        document = loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _parse_known(document: dict[str, Json]) -> KnownForm | None:
    """How an endpoint was asked; None where another version, or nobody, understands it so."""
    level, dropped, room = (document.get(name) for name in ("level", "dropped", "room"))
    if level not in FORM_LEVELS or not isinstance(dropped, list) or "room" not in document:
        return None
    if not all(name in LEFT_OUT for name in dropped) or not (
        room is None or room in ROOM_PARAMETERS
    ):
        return None
    if not isinstance(document.get("enforced", False), bool):
        return None
    return decode(KnownForm, document)


def _endpoint_key(endpoint: Endpoint) -> str:
    """URL and model as one key, without what may be secret in a URL."""
    return f"{service_url(endpoint.url).rstrip('/')} {endpoint.model}"
