"""What a person and a served run say to each other: plain objects, as clients send them.

A message is `{"type": "human" | "ai", "content": text or blocks, "id": ...}`. It is no object of a
library, so that a checkpoint holds plain JSON; every one has an id, by which clients tell them
apart.

Where runs wait for a person: one SQLite file under INGOT_HOME, readable by its owner only.
What the graph remembers between its nodes: plain JSON, never rows.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Error
from typing import TYPE_CHECKING, Annotated, TypedDict

from ingot.agent.proposing.order import Order as Order
from ingot.converters.output.sqlite_file import database_error, open_database
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

Message = dict[str, Json]
_PERSON = ("human", "user")


def add_messages(old: Sequence[Message], new: Json) -> list[Message]:
    """The conversation with what was said last: a message, a person's text, or a list of them."""
    said = new if isinstance(new, list) else [new]
    start = len(old)
    return [*old, *(_to_message(one, start + place) for place, one in enumerate(said))]


def _to_message(one: Json, place: int) -> Message:
    message = one if isinstance(one, dict) else {"type": "human", "content": str(one)}
    return {**message, "id": message.get("id") or f"message-{place}"}


def answer_message(text: str) -> Message:
    """A message of the run."""
    return {"type": "ai", "content": text}


def asked_words(messages: Sequence[Message]) -> str | None:
    """The words that a person said last; None where they are answered, or nobody said any."""
    last = messages[-1] if messages else {}
    if last.get("type", last.get("role")) not in _PERSON:
        return None
    return _content_text(last.get("content"))


def _content_text(content: Json) -> str:
    """The text of a message; what else a client may send, such as pictures, says nothing here."""
    blocks = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in blocks)
    return "\n".join(one for one in texts if isinstance(one, str)).strip()


RUNS_FILE = "runs.sqlite"


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of ingot's own state: INGOT_HOME, or a folder in the user's state folder."""
    named = environment.get("INGOT_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ingot"
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "ingot"


@contextmanager
def open_checkpoints(folder: Path | None = None) -> Iterator["SqliteSaver"]:
    """The checkpointer over the state folder's file, made on first use with mode 600."""
    # Only plain types are ever read back, whatever stands in the file.
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    file = (folder or state_home()) / RUNS_FILE
    connection = open_database(file)
    try:
        yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    except Error as error:  # of the database, such as a full disk
        raise database_error(file, error) from error
    finally:
        connection.close()


class State(TypedDict, total=False):
    """The graph's channels, in the order in which the nodes fill them.

    Attributes:
        order: `Order.to_json()`.
        ordered: the order that the last run was begun with; another one in `order` is a new one.
        served: whether a person can be asked at any time, as in a server's run.
        messages: what a person typed at a server's client, and what was answered.
        key: what the run was begun with, see `session.key_of`.
        source: name, number of files, bytes, what was left out and why.
        sample: rows, bad rows, whether it is complete, rows of the whole where known.
        proposal: `Proposal.to_json()`, its mapping bound to version 2 once it is validated.
        turn: the last turn: mapper, what it said, whether asking again could help, its provenance.
        attempts: what was tried and what was wrong with it, for the next try.
        problems: what is wrong with the proposal, `Problem` as objects; empty = nothing.
        check: the counts of the mapping run on the sample (`trial.facts`), no rows.
        usage: what asking a model took so far: `Spent.to_json()` and host, model, notes; {} = none
            was asked.
        stopped: `{"kind": ..., "where": ..., "why": ..., "hint": ...}` where a budget is used up
            (`budget`) or the model cannot be asked (`model`), {} else.
        looked: proposal, check and turn as they were before the model was shown its records, so
            that a worse answer does not replace them; None = it was shown none.
        opinion: the rules' proposal beside a model's: `{"agrees": ..., "proposal": ...}`.
        review: `{"decision": ..., "why": ...}`; the decision is `approve`, `edit`, `reject`,
            `again` (the answer was none), `held` (a gate failed), `person` (only a person may
            approve) or `dry_run`.
        result: counts and places of the conversion.
        outcome: what the doors print; the last node makes it.
    """

    order: dict[str, Json]
    ordered: dict[str, Json]
    served: bool
    messages: Annotated[list[Message], add_messages]
    key: str
    source: dict[str, Json]
    sample: dict[str, Json]
    proposal: dict[str, Json] | None
    turn: dict[str, Json]
    attempts: list[dict[str, Json]]
    problems: list[dict[str, Json]]
    check: dict[str, Json] | None
    usage: dict[str, Json]
    stopped: dict[str, Json]
    looked: dict[str, Json] | None
    opinion: dict[str, Json] | None
    review: dict[str, Json]
    result: dict[str, Json]
    outcome: dict[str, Json]
