"""Where conversations lie: one SQLite file under INGOT_HOME, readable by its owner only.

It holds mappings, counts and what was said, no rows and no keys.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingot.agent.chat.conversation import Conversation
from ingot.agent.sqlite import opened, unusable
from ingot.converters.errors import OutputError

FILE = "chats.sqlite"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS chats (id TEXT PRIMARY KEY, source TEXT NOT NULL,"
    " state TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL, at REAL NOT NULL)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One conversation of the list: where it stands, in a word, and when it was last changed."""

    id: str
    source: str
    state: str
    at: float


class Chats:
    """The conversations under a folder; each remembers the revision that this process knows."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._revisions: dict[str, int] = {}

    def new_id(self) -> str:
        """An identifier that no conversation has."""
        taken = {one.id for one in self.listed()}
        return next(one for one in iter(lambda: secrets.token_hex(3), "") if one not in taken)

    def keep(self, conversation: Conversation) -> None:
        """Write a conversation as it is now.

        Raises:
            OutputError: the file cannot be used, or another process went on with it.
        """
        known = self._revisions.get(conversation.id, 0)
        document = json.dumps(conversation.to_json(), ensure_ascii=False)
        state = "converted" if conversation.done else "open"
        row = (conversation.order.source, state, document, known + 1, time.time())
        with self._connected() as connection:
            if known:
                changed = connection.execute(
                    "UPDATE chats SET source=?, state=?, document=?, revision=?, at=?"
                    " WHERE id=? AND revision=?",
                    (*row, conversation.id, known),
                )
            else:
                changed = connection.execute(
                    "INSERT OR IGNORE INTO chats (source, state, document, revision, at, id)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (*row, conversation.id),
                )
            if not changed.rowcount:
                raise _elsewhere(connection, conversation.id)
            connection.commit()
        self._revisions[conversation.id] = known + 1

    def load(self, id_: str) -> Conversation:
        """A conversation as it was kept.

        Raises:
            OutputError: the file cannot be used.
            KeyError: there is none of that identifier that this version can read.
        """
        with self._connected() as connection:
            found = connection.execute(
                "SELECT document, revision FROM chats WHERE id=?", (id_,)
            ).fetchone()
        if found is None:
            raise KeyError(id_)
        try:
            conversation = Conversation.from_json(json.loads(found[0]))
        except (KeyError, TypeError, ValueError) as error:
            raise KeyError(id_) from error
        self._revisions[id_] = found[1]
        return conversation

    def listed(self) -> list[Listed]:
        """All conversations, the latest first.

        Raises:
            OutputError: the file cannot be used.
        """
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT id, source, state, at FROM chats ORDER BY at DESC, id"
            ).fetchall()
        return [Listed(id=one[0], source=one[1], state=one[2], at=one[3]) for one in rows]

    def forget(self, id_: str) -> None:
        """Remove a conversation; nothing where there is none.

        Raises:
            OutputError: the file cannot be used.
        """
        with self._connected() as connection:
            connection.execute("DELETE FROM chats WHERE id=?", (id_,))
            connection.commit()
        self._revisions.pop(id_, None)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(opened(self._file)) as connection:
            try:
                connection.execute(_TABLE)
                yield connection
            except sqlite3.Error as error:
                raise unusable(self._file, error) from error


def _elsewhere(connection: sqlite3.Connection, id_: str) -> OutputError:
    """What another process did to a conversation."""
    there = connection.execute("SELECT 1 FROM chats WHERE id=?", (id_,)).fetchone()
    if there is None:
        return OutputError(id_, "the conversation was deleted by another process")
    hint = f"take it up as it is there: ingot chat --resume {id_}"
    return OutputError(id_, "the conversation went on elsewhere", hint)
