"""Where runs wait for a person: one SQLite file under INGOT_HOME, readable by its owner only."""

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.converters.errors import OutputError

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

FILE = "runs.sqlite"
_BUSY_S = 30.0


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
        OutputError: the folder or the file cannot be written.
    """
    # Only plain types are ever read back, whatever stands in the file.
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = _connect((folder or home()) / FILE)
    try:
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        yield saver
    finally:
        connection.close()


def _connect(file: Path) -> sqlite3.Connection:
    hint = "set INGOT_HOME to a folder that you may write to"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)
        return _opened(file)
    except OSError as error:
        raise OutputError(str(file), f"cannot be written: {error.strerror}", hint) from error
    except sqlite3.Error as error:
        raise OutputError(str(file), f"cannot be used: {error}", hint) from error


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_BUSY_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA secure_delete=ON")  # a forgotten run leaves no names behind
    except sqlite3.Error:
        connection.close()
        raise
    return connection
