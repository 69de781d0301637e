"""What is remembered between processes: how an endpoint likes to be asked, and accepted replies.

One SQLite file under the state folder, readable by its owner only; it holds plain JSON and neither
rows nor keys. It is made on the first write or read.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path
from urllib.parse import urlsplit

from ingot.agent.model.endpoint import Endpoint
from ingot.converters.errors import OutputError
from ingot.converters.rows import Json

FILE = "models.sqlite"
KEPT_S = 30 * 86400
_BUSY_S = 30.0
_TABLES = "".join(
    f"CREATE TABLE IF NOT EXISTS {name}"
    " (key TEXT PRIMARY KEY, document TEXT NOT NULL, at REAL NOT NULL);"
    for name in ("endpoints", "replies")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """How an endpoint was asked with success.

    Attributes:
        level: the step of the ladder.
        dropped: parameters that it does not take.
        room: the parameter that limits a reply, None = it takes none.
    """

    level: str
    dropped: tuple[str, ...] = ()
    room: str | None = "max_tokens"


class Store:
    """The memory under a folder; `folder` None = in memory, for as long as the object lives."""

    def __init__(self, folder: Path | None) -> None:
        self._file = folder and folder / FILE
        self._memory: dict[tuple[str, str], tuple[str, float]] = {}

    def level(self, endpoint: Endpoint) -> Known | None:
        """What is known of the endpoint's model; None = nothing, or nothing of late.

        Raises:
            OutputError: the file cannot be used.
        """
        found = self._read("endpoints", _name(endpoint), KEPT_S)
        if found is None:
            return None
        return Known(level=found["level"], dropped=tuple(found["dropped"]), room=found["room"])

    def remember(self, endpoint: Endpoint, known: Known) -> None:
        """Keeps how the endpoint's model was asked with success, for 30 days.

        Raises:
            OutputError: the file cannot be used.
        """
        document = {"level": known.level, "dropped": list(known.dropped), "room": known.room}
        self._write("endpoints", _name(endpoint), document)

    def reply(self, key: str) -> dict[str, Json] | None:
        """The accepted reply under that key, None = there is none.

        Raises:
            OutputError: the file cannot be used.
        """
        return self._read("replies", key, None)

    def keep(self, key: str, document: dict[str, Json]) -> None:
        """Keeps an accepted reply under that key; a former one is replaced.

        Raises:
            OutputError: the file cannot be used.
        """
        self._write("replies", key, document)

    def _read(self, table: str, key: str, most_s: float | None) -> dict[str, Json] | None:
        since = 0.0 if most_s is None else time.time() - most_s
        if self._file is None:
            text, at = self._memory.get((table, key), ("null", 0.0))
            row: tuple[str] | None = (text,) if at >= since else None
        else:
            ask = f"SELECT document FROM {table} WHERE key = ? AND at >= ?"
            with _connected(self._file) as connection:
                row = connection.execute(ask, (key, since)).fetchone()
        document: dict[str, Json] | None = loads(row[0]) if row else None
        return document

    def _write(self, table: str, key: str, document: dict[str, Json]) -> None:
        text = dumps(document, sort_keys=True)  # ASCII: halves of surrogate pairs cannot be stored
        if self._file is None:
            self._memory[table, key] = (text, time.time())
            return
        put = f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)"
        with _connected(self._file) as connection, connection:
            connection.execute(put, (key, text, time.time()))


@contextmanager
def _connected(file: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(_opened(file)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_TABLES)
            yield connection
    except (OSError, sqlite3.Error) as error:
        said = getattr(error, "strerror", None) or str(error)
        hint = "set INGOT_HOME to a folder that you may write to"
        raise OutputError(str(file), f"cannot be used: {said}", hint) from error


def _opened(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    file.chmod(0o600)
    return sqlite3.connect(file, timeout=_BUSY_S)


def _name(endpoint: Endpoint) -> str:
    """URL and model as one key, without what may be secret in a URL."""
    parts = urlsplit(endpoint.url)
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return f"{where.geturl().rstrip('/')} {endpoint.model}"
