"""The memory of a lake between its runs: one SQLite file in its folder.

It holds files with what was found in them, data sets with their facts, the shapes that a model was
asked about, and what the present run has spent. Deleting it costs time and calls, but no result.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection, Error
from typing import Any, Final, NamedTuple, TypeVar

from ingot.agent.model.sqlite_file import DATABASE_ERRORS, disk_full_hint, open_database
from ingot.converters.errors import OutputError, error_text
from ingot.converters.json_yaml import decode, encode
from ingot.converters.lake.catalog import SetFacts
from ingot.converters.output.sharding import LAKE_FOLDER

_FILE: Final = "state.sqlite"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, stamp TEXT, facts TEXT, member TEXT);
CREATE TABLE IF NOT EXISTS sets (name TEXT PRIMARY KEY, key TEXT, facts TEXT);
CREATE TABLE IF NOT EXISTS shapes (key TEXT PRIMARY KEY, name TEXT);
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT);
"""


_PUT_NOTE: Final = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
T = TypeVar("T")


class KnownSet(NamedTuple):
    """A data set as an earlier run left it; an equal key means that nothing is to be done."""

    key: str
    facts: SetFacts


class LakeState:
    """The state of the lake in a folder; every call is one transaction, from any process."""

    def __init__(self, lake: Path, *, journal: str = "WAL") -> None:
        self._journal = journal
        self.folder = lake / LAKE_FOLDER
        self._file = self.folder / _FILE
        self._hint = f"delete {self.folder} to start again: existing results are kept"

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Open a connection for one transaction."""
        try:
            connection = open_database(self._file, journal=self._journal)
        except OutputError as error:
            cause = error.__cause__
            full = disk_full_hint(cause) if isinstance(cause, OSError | Error) else ""
            hint = full or self._hint
            raise OutputError(error.where, error.problem, hint) from error
        with closing(connection):
            try:
                with connection:
                    connection.executescript(_TABLES)
                    yield connection
            except DATABASE_ERRORS as error:
                hint = disk_full_hint(error) or self._hint
                raise OutputError(str(self._file), f"cannot be used: {error}", hint) from error

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Translate what goes wrong where a kept text is not what was written."""
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            problem = f"is damaged: {error_text(error)}"
            raise OutputError(str(self._file), problem, self._hint) from error

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            return connection.execute(query, values).fetchall()

    # --- files, by the JSON of their names: a name in an archive may not be valid text

    def files(self) -> dict[str, tuple[str, str]]:
        """Return the stamp and what was found, by name of the file."""
        rows = self._rows("SELECT name, stamp, facts FROM files WHERE facts != ''")
        with self.decoding():
            return {json.loads(key): (stamp, facts) for key, stamp, facts in rows}

    def keep_files(self, entries: Iterable[tuple[str, str, str]]) -> None:
        """Keep (name, stamp, facts)."""
        statement = (
            "INSERT INTO files (name, stamp, facts) VALUES (?, ?, ?) ON CONFLICT (name) "
            "DO UPDATE SET stamp = excluded.stamp, facts = excluded.facts"
        )
        with self.connected() as connection:
            rows = ((json.dumps(name), stamp, facts) for name, stamp, facts in entries)
            connection.executemany(statement, rows)

    def members(self) -> dict[str, str]:
        """Return the data set of every known file."""
        rows = self._rows("SELECT name, member FROM files WHERE member IS NOT NULL")
        with self.decoding():
            return {json.loads(key): member for key, member in rows}

    def keep_members(self, members: Mapping[str, str]) -> None:
        """Keep the data set of every file, and forget files that are gone."""
        statement = (
            "INSERT INTO files (name, stamp, facts, member) VALUES (?, '', '', ?) "
            "ON CONFLICT (name) DO UPDATE SET member = excluded.member"
        )
        with self.connected() as connection:
            connection.execute("UPDATE files SET member = NULL")
            rows = ((json.dumps(name), member) for name, member in members.items())
            connection.executemany(statement, rows)
            connection.execute("DELETE FROM files WHERE facts = '' AND member IS NULL")

    # --- data sets

    def sets(self, *names: str) -> dict[str, KnownSet]:
        """Return every data set by its name, or those of some names."""
        condition = f" WHERE name IN ({', '.join('?' * len(names))})" if names else ""
        rows = self._rows(f"SELECT name, key, facts FROM sets{condition} ORDER BY name", *names)
        with self.decoding():
            return {
                name: KnownSet(key=key, facts=SetFacts.read(json.loads(facts)))
                for name, key, facts in rows
            }

    def keep(self, key: str, facts: SetFacts) -> None:
        """Keep what became of a data set."""
        document = json.dumps(encode(facts))
        with self.connected() as connection:
            statement = "INSERT OR REPLACE INTO sets VALUES (?, ?, ?)"
            connection.execute(statement, (facts.name, key, document))

    def drop(self, name: str) -> None:
        """Forget a data set."""
        with self.connected() as connection:
            connection.execute("DELETE FROM sets WHERE name = ?", (name,))

    # --- shapes

    def first_of_shape(self, shape: str) -> str | None:
        """Return the data set for which a model was asked about a shape, None = no one asked."""
        rows = self._rows("SELECT name FROM shapes WHERE key = ?", shape)
        return rows[0][0] if rows else None

    def keep_shape(self, shape: str, name: str) -> None:
        """Keep that a model was asked about a shape; the first data set stays."""
        with self.connected() as connection:
            connection.execute("INSERT OR IGNORE INTO shapes VALUES (?, ?)", (shape, name))

    # --- notes

    def note(self, key: str, kind: type[T]) -> T | None:
        """Return a note, None if there is none."""
        rows = self._rows("SELECT value FROM notes WHERE key = ?", key)
        with self.decoding():
            return decode(kind, json.loads(rows[0][0])) if rows else None

    def keep_note(self, key: str, value: T | None, kind: type[T]) -> None:
        """Keep a note; None removes it."""
        with self.connected() as connection:
            if value is None:
                connection.execute("DELETE FROM notes WHERE key = ?", (key,))
            else:
                connection.execute(_PUT_NOTE, (key, json.dumps(encode(value, kind))))

    def change_note(self, key: str, kind: type[T], change: Callable[[T | None], T]) -> None:
        """Replace a note by what `change` returns, in one transaction; not if that raises."""
        with self.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute("SELECT value FROM notes WHERE key = ?", (key,)).fetchone()
            with self.decoding():
                known = decode(kind, json.loads(row[0])) if row else None
            connection.execute(_PUT_NOTE, (key, json.dumps(encode(change(known), kind))))
