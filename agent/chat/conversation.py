"""A conversation as a value, and the SQLite file that keeps all of them.

It is plain JSON and holds no rows. Undo goes back to an earlier state; a change from there drops
what came after it. The file lies under INGOT_HOME and is readable by its owner only.
"""

import json
import secrets
import sqlite3
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ingot.agent.chat.edits import Edit
from ingot.agent.model.budget import Usage
from ingot.agent.model.cache import open_tables
from ingot.agent.state import Order, State
from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import EMPTY, OMIT, decode, encode
from ingot.converters.mapping.bind import NO_MAPPING
from ingot.converters.mapping.documents.writer import plain_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.rows import MappingDocument, Safe
from ingot.converters.sources import SourceSpec

FORM = 1  # of the JSON that a conversation is kept as
YOU, MODEL, INGOT = "you", "model", "ingot"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One checked state of the mapping: the words that led to it, and who changed it.

    `by` is `rules`, `llm` (proposals), `you` or `model`.
    """

    words: Safe
    by: str
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One thing that was said: by whom, its words, and the edits that a model made with it."""

    who: str
    text: Safe
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Its order, its steps (oldest first, `at` is the current one), its words.

    `usage` is what asking a model took, `done` the folder that was written. `under_review`: a
    review was left for it, which gets the mapping back and decides; nothing is approved here.
    """

    id: str
    order: Order
    steps: tuple[Step, ...]
    at: int = 0
    said: tuple[Utterance, ...] = ()
    usage: Annotated[Usage | None, EMPTY] = None
    done: str = ""
    under_review: Annotated[bool, OMIT] = False

    @property
    def state(self) -> State:
        """Return the current state."""
        return self.steps[self.at].state

    @property
    def mapping(self) -> Mapping:
        """Return the current mapping, one that says nothing yet if there is none."""
        proposal = self.state.get("proposal")
        return (proposal and proposal.mapping) or NO_MAPPING

    @property
    def document(self) -> MappingDocument:
        """Return the document of the current mapping, without its provenance."""
        return plain_document(self.mapping)

    @property
    def spec(self) -> SourceSpec:
        """Return how the files are read whose fields can be named: those that the mapping reads."""
        facts = self.mapping.source
        return replace(self.order.spec, files=facts.files, header_rows=facts.header_rows)

    @property
    def decision(self) -> str:
        """Return `pt`, `sft`, or why there is no mapping."""
        proposal = self.state.get("proposal")
        return proposal.decision if proposal else "no mapping"

    def with_step(self, step: Step) -> "Conversation":
        """Add a state behind the current one; later ones are dropped."""
        return replace(self, steps=(*self.steps[: self.at + 1], step), at=self.at + 1, done="")

    def moved(self, by: int) -> "Conversation | None":
        """Move to an earlier (-1) or later (1) state; None if there is none."""
        place = self.at + by
        return replace(self, at=place, done="") if 0 <= place < len(self.steps) else None

    def heard(self, *sayings: Utterance) -> "Conversation":
        """Add what was said."""
        return replace(self, said=(*self.said, *sayings))


FILE = "chats.sqlite"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS chats (id TEXT PRIMARY KEY, source TEXT NOT NULL,"
    " state TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL, at REAL NOT NULL)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ChatSummary:
    """One conversation of the list: its state in a word, and when it was last changed."""

    id: str
    source: str
    state: str
    at: float


class ChatStore:
    """The conversations under a folder; each remembers the revision that this process knows."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._revisions: dict[str, int] = {}

    def new_id(self) -> str:
        """Return an identifier that no conversation has."""
        taken = {one.id for one in self.listed()}
        return next(one for one in iter(lambda: secrets.token_hex(3), "") if one not in taken)

    def keep(self, conversation: Conversation) -> None:
        """Write a conversation as it is now."""
        known = self._revisions.get(conversation.id, 0)
        document = json.dumps({"form": FORM, **encode(conversation)})  # names may be no UTF-8
        source = conversation.order.source.encode("utf-8", "backslashreplace").decode()
        state = "converted" if conversation.done else "open"
        row = (source, state, document, known + 1, time.time())
        with open_tables(self._file, _TABLE) as connection:
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
                raise _conflict_error(connection, conversation.id)
            connection.commit()
        self._revisions[conversation.id] = known + 1

    def load(self, id_: str) -> Conversation:
        """Load a conversation. Raises KeyError."""
        with open_tables(self._file, _TABLE) as connection:
            found = connection.execute(
                "SELECT document, revision FROM chats WHERE id=?", (id_,)
            ).fetchone()
        if found is None:
            raise KeyError(id_)
        try:
            document = json.loads(found[0])
            if document["form"] != FORM:
                raise ValueError(document["form"])
            conversation = decode(Conversation, document)
        except (KeyError, TypeError, ValueError) as error:
            raise KeyError(id_) from error
        self._revisions[id_] = found[1]
        return conversation

    def listed(self) -> list[_ChatSummary]:
        """List all conversations, the latest first."""
        with open_tables(self._file, _TABLE) as connection:
            rows = connection.execute(
                "SELECT id, source, state, at FROM chats ORDER BY at DESC, id"
            ).fetchall()
        return [_ChatSummary(id=one[0], source=one[1], state=one[2], at=one[3]) for one in rows]

    def forget(self, id_: str) -> None:
        """Remove a conversation, if there is one."""
        with open_tables(self._file, _TABLE) as connection:
            connection.execute("DELETE FROM chats WHERE id=?", (id_,))
            connection.commit()
        self._revisions.pop(id_, None)


def _conflict_error(connection: sqlite3.Connection, id_: str) -> OutputError:
    there = connection.execute("SELECT 1 FROM chats WHERE id=?", (id_,)).fetchone()
    if there is None:
        return OutputError(id_, "the conversation was deleted by another process")
    hint = f"continue its latest state: ingot chat --resume {id_}"
    return OutputError(id_, "another process has continued this conversation", hint)
