"""Where runs wait for a person: one SQLite file under INGOT_HOME, readable by its owner only."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Error
from typing import TYPE_CHECKING

from ingot.agent.sqlite import opened, unusable

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

FILE = "runs.sqlite"


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of ingot's own state: INGOT_HOME, or a folder in the user's state folder."""
    named = environment.get("INGOT_HOME")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ingot"
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "ingot"


@contextmanager
def checkpoints(folder: Path | None = None) -> Iterator["SqliteSaver"]:
    """The checkpointer over the state folder's file, made on first use with mode 600.

    Raises:
        OutputError: the folder or the file cannot be used.
    """
    # Only plain types are ever read back, whatever stands in the file.
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    file = (folder or home()) / FILE
    connection = opened(file)
    try:
        yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    except Error as error:  # of the database, such as a full disk
        raise unusable(file, error) from error
    finally:
        connection.close()
