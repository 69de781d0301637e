"""Check this machine: what is installed, and the folders that ingot writes to.

`Check` is what one check found; `raise_if_failed` gives all of them their exit code.
"""

import os
import platform
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from ingot import __version__
from ingot.agent import context as checkpoints
from ingot.agent.model import cache
from ingot.converters.errors import ModelError, OutputError, count_text

State = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        group: `installation`, `configuration`, `places` or `endpoint`.
        state: `fail` = ingot cannot work with it, `skipped` = not there or not looked at.
        hint: what to do; empty = nothing.
    """

    group: str
    name: str
    state: State
    figure: str
    hint: str = ""
    notes: tuple[str, ...] = ()


_installed = partial(Check, "installation")
_place = partial(Check, "places")


def raise_if_failed(found: Sequence[Check]) -> None:
    """Raise the error of the checks that failed; one of this machine comes before the endpoint."""
    failed = [one for one in found if one.state == "fail"]
    if failed:
        count = f"{count_text(len(failed), 'check')} failed"
        text = f"{count}: {', '.join(one.name for one in failed)}"
        on_machine = any(one.group != "endpoint" for one in failed)
        raise OutputError("doctor", text) if on_machine else ModelError("doctor", text)


# The libraries whose versions people are asked for.
SHOWN_LIBRARIES = ("openai", "langgraph", "pyarrow", "tokenizers", "zstandard")
EXTRAS = ("fast", "hf", "recsys", "studio", "torch")
_REQUIREMENT = re.compile(
    r"([\w.-]+)\s*(?:[=>]=\s*([\d.]+))?(?:.*extra\s*==\s*[\"']([\w-]+)[\"'])?"
)


class _Requirement(NamedTuple):
    """A package that is needed, its least version, the extra that needs it; None = any, none."""

    name: str
    least: str | None
    extra: str | None

    @property
    def version(self) -> str | None:
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None

    @property
    def problem(self) -> str:
        version = self.version
        if version is None:
            return f"{self.name} is missing"
        if self.least and _version_numbers(version) < _version_numbers(self.least):
            return f"{self.name} is {version}, {self.least} is needed"
        return ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def installation_checks(required: Sequence[str] | None = None) -> Iterator[Check]:
    """Check what is installed; `required` is what ingot's own metadata says."""
    yield _installed("ingot", "ok", __version__)
    system = f"{platform.system()} {platform.machine()}"
    yield _installed("Python", "ok", f"{platform.python_version()} on {system}")
    if required is None:
        try:
            required = metadata.requires("ingot") or ()
        except metadata.PackageNotFoundError:
            required = ()
    found = [_REQUIREMENT.match(one) for one in required]
    needed = [_Requirement(*one.groups()) for one in found if one]
    yield _check_libraries([one for one in needed if not one.extra])
    for extra in EXTRAS:
        of_extra = [one for one in needed if one.extra == extra]
        if of_extra and all(one.version for one in of_extra):
            yield _installed(f"extra {extra}", "ok", ", ".join(map(str, of_extra)))
        else:
            hint = f'pip install "ingot[{extra}]"'
            yield _installed(f"extra {extra}", "skipped", "not installed", hint)


def _check_libraries(needed: Sequence[_Requirement]) -> Check:
    if not needed:
        figure = "not compared: ingot runs without being installed"
        return _installed("libraries", "skipped", figure)
    problems = [one.problem for one in needed if one.problem]
    if problems:
        hint = "pip install again: pip install --upgrade ingot"
        return _installed("libraries", "fail", ", ".join(problems), hint)
    shown = [str(one) for one in needed if one.name in SHOWN_LIBRARIES]
    more = len(needed) - len(shown)
    return _installed("libraries", "ok", ", ".join(shown) + (f" and {more} more" if more else ""))


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release: `3.51.0rc1` = (3, 51, 0); `1.2` = `1.2.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


LEAST_FREE = 5 * 10**9
_BUSY_S = 5.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_HOME_HINT = "set INGOT_HOME to a folder that you may write to"
# What is lost where a file is moved away.
_LOST_TEXTS = {
    checkpoints.RUNS_FILE: "runs that wait for a person",
    cache.CACHE_FILE: "what was learnt about endpoints, and their accepted answers",
}


def folder_checks() -> Iterator[Check]:
    """Check the state folder, the temporary and the current folder; nothing is left in them."""
    home = find_state_folder()
    if home is None:
        yield _place("state folder", "fail", "none is known", _HOME_HINT)
    else:
        state = _check_state_folder(home)
        yield state
        if state.state != "fail" and home.is_dir():
            yield _check_private(home)
            yield _check_sqlite(home)
            yield from (_check_database(home / name) for name in _LOST_TEXTS)
    try:
        hint = "set TMPDIR to a folder that you may write to"
        yield _check_folder("temporary", Path(tempfile.gettempdir()), hint, "fail")
    except FileNotFoundError:
        figure, hint = "no temporary folder can be written", "set TMPDIR to one that can"
        yield _place("temporary", "fail", figure, hint)
    try:
        yield _check_folder("current folder", Path.cwd(), "give --out a folder elsewhere", "warn")
    except FileNotFoundError:
        figure, hint = "the current folder is gone", "change to a folder that exists"
        yield _place("current folder", "fail", figure, hint)


def find_state_folder() -> Path | None:
    """Return the folder of ingot's state, None where neither it nor the user's home is known."""
    try:
        return checkpoints.state_home()
    except RuntimeError:
        return None


def _check_state_folder(home: Path) -> Check:
    try:
        there = next(one for one in (home, *home.absolute().parents) if one.exists())
    except OSError as error:
        return _place("state folder", "fail", f"{home}: {_error_words(error)}", _HOME_HINT)
    if not there.is_dir():
        return _place("state folder", "fail", f"{home}: {there} is a file", _HOME_HINT)
    whose = "INGOT_HOME" if os.environ.get("INGOT_HOME") else "the default"
    absent = "" if there == home else "; not there yet, made when it is needed"
    shown = f"{home} ({whose}){absent}"
    return _check_folder("state folder", there, _HOME_HINT, "fail", named=home, shown=shown)


def _check_folder(
    name: str,
    folder: Path,
    hint: str,
    otherwise: State,
    *,
    named: Path | None = None,
    shown: str = "",
) -> Check:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ingot")
            file.flush()
    except OSError as error:
        figure = f"{named or folder}: cannot be written: {_error_words(error)}"
        return _place(name, otherwise, figure, hint)
    free = shutil.disk_usage(folder).free
    figure = f"{shown or folder}, {_size_text(free)} free"
    if free < LEAST_FREE:
        return _place(
            name, "warn", figure, f"conversions may need more than {_size_text(LEAST_FREE)}"
        )
    return _place(name, "ok", figure)


def _check_private(home: Path) -> Check:
    loose = [
        f"chmod {mode} {path}"
        for path, mode in ((home, "700"), *((home / name, "600") for name in _LOST_TEXTS))
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if loose:
        figure = "others on this machine may read the state"
        return _place("permissions", "warn", figure, "; ".join(loose))
    return _place("permissions", "ok", "700 and 600: yours alone")


def _check_sqlite(home: Path) -> Check:
    """Check that SQLite works on that file system; WAL lets several runs write."""
    try:
        with (
            tempfile.TemporaryDirectory(dir=home, prefix=".doctor-") as scratch,
            closing(sqlite3.connect(Path(scratch) / "try.sqlite")) as connection,
        ):
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            connection.execute("CREATE TABLE tried (one)")
    except (OSError, sqlite3.Error) as error:
        return _place("SQLite", "fail", f"cannot be used there: {_error_words(error)}", _HOME_HINT)
    if mode != "wal":
        figure = f"{sqlite3.sqlite_version}, without WAL on this file system"
        return _place("SQLite", "warn", figure, "set INGOT_HOME to a folder on a local disk")
    return _place("SQLite", "ok", f"{sqlite3.sqlite_version}, WAL")


def _check_database(file: Path) -> Check:
    if not file.exists():
        return _place(file.name, "skipped", "not there yet")
    hint = f"move {file} away: {_LOST_TEXTS[file.name]} are lost"
    try:
        where = f"{file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(where, uri=True, timeout=_BUSY_S)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            return _place(file.name, "warn", "in use by another process", "look again later")
        return _place(file.name, "fail", f"cannot be read: {error}", hint)
    if said != "ok":
        return _place(file.name, "fail", f"damaged: {said.splitlines()[0]}", hint)
    journal = ", WAL" * (mode == "wal")
    return _place(file.name, "ok", f"{_size_text(file.stat().st_size)}, whole{journal}")


def _error_words(error: OSError | sqlite3.Error) -> str:
    return getattr(error, "strerror", None) or str(error)


def _size_text(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
