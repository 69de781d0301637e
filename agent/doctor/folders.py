"""Check the folders that ingot writes to: its state folder, the temporary and current folder."""

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from ingot.agent import state as checkpoints
from ingot.agent.doctor.checks import Check, State
from ingot.agent.model import cache

LEAST_FREE = 5 * 10**9
_BUSY_S = 5.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_HOME_VARIABLE = "INGOT_HOME"
_HOME_HINT = f"set {_HOME_VARIABLE} to a folder that you may write to"
# What is lost where a file is moved away.
_LOST_TEXTS = {
    checkpoints.RUNS_FILE: "runs that wait for a person",
    cache.CACHE_FILE: "what was learnt about endpoints, and their accepted answers",
}
_folder_check = partial(Check, group="places")


def folder_checks() -> Iterator[Check]:
    """What the places are like. Nothing is left in them."""
    yield from _state_checks(find_state_folder())
    yield _check_temporary()
    yield _check_current()


def find_state_folder() -> Path | None:
    """Where ingot keeps its state; None = nowhere, as neither it nor the user's home is known."""
    try:
        return checkpoints.state_home()
    except RuntimeError:
        return None


def _state_checks(home: Path | None) -> Iterator[Check]:
    if home is None:
        yield _folder_check(
            name="state folder", state="fail", figure="none is known", hint=_HOME_HINT
        )
        return
    state = _check_state(home)
    yield state
    if state.state != "fail" and home.is_dir():
        yield _check_private(home)
        yield _check_sqlite(home)
        yield from (_check_database(home / name) for name in _LOST_TEXTS)


def _check_state(home: Path) -> Check:
    fault = partial(_folder_check, name="state folder", state="fail", hint=_HOME_HINT)
    try:
        there = next(one for one in (home, *home.absolute().parents) if one.exists())
    except OSError as error:
        return fault(figure=f"{home}: {_error_words(error)}")
    if not there.is_dir():
        return fault(figure=f"{home}: {there} is a file")
    problem = _unwritable_reason(there)
    if problem:
        return fault(figure=f"{home}: cannot be written: {problem}")
    whose = _HOME_VARIABLE if os.environ.get(_HOME_VARIABLE) else "the default"
    absent = "" if there == home else "; not there yet, made when it is needed"
    return _check_room("state folder", there, f"{home} ({whose}){absent}")


def _check_private(home: Path) -> Check:
    loose = [
        f"chmod {mode} {path}"
        for path, mode in ((home, "700"), *((home / name, "600") for name in _LOST_TEXTS))
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if loose:
        figure = "others on this machine may read the state"
        return _folder_check(name="permissions", state="warn", figure=figure, hint="; ".join(loose))
    return _folder_check(name="permissions", state="ok", figure="700 and 600: yours alone")


def _check_sqlite(home: Path) -> Check:
    """Whether SQLite works on that file system; WAL lets several runs write."""
    check = partial(_folder_check, name="SQLite")
    try:
        with tempfile.TemporaryDirectory(dir=home, prefix=".doctor-") as scratch:
            mode = _try_database(Path(scratch) / "try.sqlite")
    except (OSError, sqlite3.Error) as error:
        return check(
            state="fail", figure=f"cannot be used there: {_error_words(error)}", hint=_HOME_HINT
        )
    if mode != "wal":
        figure = f"{sqlite3.sqlite_version}, without WAL on this file system"
        return check(
            state="warn", figure=figure, hint=f"set {_HOME_VARIABLE} to a folder on a local disk"
        )
    return check(state="ok", figure=f"{sqlite3.sqlite_version}, WAL")


def _try_database(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("CREATE TABLE tried (one)")
    return str(mode)


def _check_database(file: Path) -> Check:
    check = partial(_folder_check, name=file.name)
    if not file.exists():
        return check(state="skipped", figure="not there yet")
    hint = f"move {file} away: {_LOST_TEXTS[file.name]} are lost"
    try:
        said, mode = _database_integrity(file)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            return check(state="warn", figure="in use by another process", hint="look again later")
        return check(state="fail", figure=f"cannot be read: {error}", hint=hint)
    if said != "ok":
        return check(state="fail", figure=f"damaged: {said.splitlines()[0]}", hint=hint)
    journal = ", WAL" * (mode == "wal")
    return check(state="ok", figure=f"{_size_text(file.stat().st_size)}, whole{journal}")


def _database_integrity(file: Path) -> tuple[str, str]:
    """What SQLite says of a file (`ok` = whole), and its journal mode."""
    where = f"{file.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, timeout=_BUSY_S)) as connection:
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return str(said), str(mode)


def _check_temporary() -> Check:
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        figure, hint = "no temporary folder can be written", "set TMPDIR to one that can"
        return _folder_check(name="temporary", state="fail", figure=figure, hint=hint)
    return _check_folder(
        "temporary", folder, "set TMPDIR to a folder that you may write to", "fail"
    )


def _check_current() -> Check:
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        figure, hint = "the current folder is gone", "change to a folder that exists"
        return _folder_check(name="current folder", state="fail", figure=figure, hint=hint)
    return _check_folder("current folder", folder, "give --out a folder elsewhere", "warn")


def _check_folder(name: str, folder: Path, hint: str, otherwise: State) -> Check:
    problem = _unwritable_reason(folder)
    if problem:
        figure = f"{folder}: cannot be written: {problem}"
        return _folder_check(name=name, state=otherwise, figure=figure, hint=hint)
    return _check_room(name, folder, str(folder))


def _check_room(name: str, folder: Path, said: str) -> Check:
    """A folder that can be written, judged by the room that is left."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        hint = f"conversions may need more than {_size_text(LEAST_FREE)}"
        return _folder_check(
            name=name, state="warn", figure=f"{said}, {_size_text(free)} free", hint=hint
        )
    return _folder_check(name=name, state="ok", figure=f"{said}, {_size_text(free)} free")


def _unwritable_reason(folder: Path) -> str:
    """Why nothing can be written into a folder; empty = it can be."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ingot")
            file.flush()
    except OSError as error:
        return _error_words(error)
    return ""


def _error_words(error: OSError | sqlite3.Error) -> str:
    return getattr(error, "strerror", None) or str(error)


def _size_text(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
