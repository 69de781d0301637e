"""SQLite files in the folder of ingot's own state: made on first use, for their owner only."""

import errno
import os
import sqlite3
from pathlib import Path

from ingot.converters.errors import OutputError

_BUSY_S = 30.0
# A damaged schema is quoted in SQLite's message, which Python then cannot decode.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def open_database(file: Path, *, journal: str = "WAL") -> sqlite3.Connection:
    """Open the file in WAL mode, so that several processes can write; any thread may use it.

    Processes of several machines need the journal `DELETE`: WAL works in one machine's memory.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)
        connection = sqlite3.connect(file, timeout=_BUSY_S, check_same_thread=False)
        return _configure(connection, journal)
    except (OSError, *DATABASE_ERRORS) as error:
        raise database_error(file, error) from error


def database_error(file: Path, error: OSError | sqlite3.Error | UnicodeDecodeError) -> OutputError:
    """Return the error in words, with what to do about it."""
    cause = getattr(error, "strerror", None) or str(error)
    hint = disk_full_hint(error) or "set INGOT_HOME to a folder that you may write to"
    damages = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if _code(error) in damages or isinstance(error, UnicodeDecodeError):
        hint = "the file is damaged: move it away and run again"
    return OutputError(str(file), f"cannot be used: {cause}", hint)


def disk_full_hint(error: OSError | sqlite3.Error | UnicodeDecodeError) -> str:
    """Return what to do where the disk is full, "" if it is not."""
    is_full = _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    if isinstance(error, OSError):
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "free some space on the disk and run again" if is_full else ""


def _configure(connection: sqlite3.Connection, journal: str) -> sqlite3.Connection:
    try:
        _set_journal(connection, journal)
        connection.execute("PRAGMA secure_delete=ON")  # a forgotten run leaves no names behind
    except DATABASE_ERRORS:
        connection.close()
        raise
    return connection


def _set_journal(connection: sqlite3.Connection, journal: str) -> None:
    """Waits for others itself: SQLite's own waiting does not cover a change of the mode."""
    import tenacity

    waiting = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: _code(error) == sqlite3.SQLITE_BUSY),
        wait=tenacity.wait_random(0.005, 0.05),
        stop=tenacity.stop_after_delay(_BUSY_S),
        reraise=True,
    )
    waiting(connection.execute, f"PRAGMA journal_mode={journal}")


def _code(error: BaseException) -> int:
    """The primary code of an error of SQLite; 0 of another error."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
