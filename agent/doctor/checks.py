"""Check what is installed: ingot, Python, the libraries it needs, its extras.

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
from typing import Literal

from ingot import __version__
from ingot.agent import state as checkpoints
from ingot.agent.model import cache
from ingot.converters.errors import ModelError, OutputError

State = Literal["ok", "warn", "fail", "skipped"]
ENDPOINT = "endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one check found.

    Attributes:
        group: `installation`, `places` or `endpoint`.
        state: `fail` = ingot cannot work with it, `skipped` = not there or not looked at.
        hint: what to do; empty = nothing.
    """

    group: str
    name: str
    state: State
    figure: str
    hint: str = ""
    notes: tuple[str, ...] = ()


def raise_if_failed(found: Sequence[Check]) -> None:
    """Nothing where no check failed."""
    failed = [one for one in found if one.state == "fail"]
    if any(one.group != ENDPOINT for one in failed):
        raise OutputError("doctor", _failure_text(failed))
    if failed:
        raise ModelError("doctor", _failure_text(failed))


def _failure_text(failed: Sequence[Check]) -> str:
    count = f"{len(failed)} check{'s' * (len(failed) != 1)} failed"
    return f"{count}: {', '.join(one.name for one in failed)}"


# The libraries whose versions people are asked for.
SHOWN_LIBRARIES = ("openai", "langgraph", "pyarrow", "tokenizers", "zstandard")
EXTRAS = ("fast", "hf", "recsys", "studio", "torch")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:[=>]=\s*([\d.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*[\"']([\w-]+)[\"']")
_installation_check = partial(Check, group="installation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """A package that is needed: its name, the least version (`1.2`, empty = any), the extra."""

    name: str
    least: str = ""
    extra: str = ""


def installation_checks(required: Sequence[str] | None = None) -> Iterator[Check]:
    """What is installed."""
    yield _installation_check(name="ingot", state="ok", figure=__version__)
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield _installation_check(name="Python", state="ok", figure=system)
    needed = [
        _parse_requirement(one) for one in (_ingot_requirements() if required is None else required)
    ]
    yield _check_libraries([one for one in needed if not one.extra])
    for extra in EXTRAS:
        yield _check_extra(extra, [one for one in needed if one.extra == extra])


def _ingot_requirements() -> Sequence[str]:
    try:
        return metadata.requires("ingot") or ()
    except metadata.PackageNotFoundError:
        return ()


def _parse_requirement(text: str) -> Requirement:
    found, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
    name, least = found.groups() if found else (text, None)
    return Requirement(name=name, least=least or "", extra=extra.group(1) if extra else "")


def _check_libraries(needed: Sequence[Requirement]) -> Check:
    if not needed:
        figure = "not compared: ingot runs without being installed"
        return _installation_check(name="libraries", state="skipped", figure=figure)
    wanting = [problem for one in needed if (problem := _version_problem(one))]
    if wanting:
        hint = "pip install again: pip install --upgrade ingot"
        return _installation_check(
            name="libraries", state="fail", figure=", ".join(wanting), hint=hint
        )
    told = [
        f"{one.name} {_installed_version(one.name)}"
        for one in needed
        if one.name in SHOWN_LIBRARIES
    ]
    more = len(needed) - len(told)
    figure = ", ".join(told) + (f" and {more} more" if more else "")
    return _installation_check(name="libraries", state="ok", figure=figure)


def _check_extra(extra: str, needed: Sequence[Requirement]) -> Check:
    name = f"extra {extra}"
    installed = [
        f"{one.name} {_installed_version(one.name)}"
        for one in needed
        if _installed_version(one.name)
    ]
    if needed and len(installed) == len(needed):
        return _installation_check(name=name, state="ok", figure=", ".join(installed))
    hint = f'pip install "ingot[{extra}]"'
    return _installation_check(name=name, state="skipped", figure="not installed", hint=hint)


def _version_problem(one: Requirement) -> str:
    """What is wrong with an installed package; empty = nothing."""
    version = _installed_version(one.name)
    if version is None:
        return f"{one.name} is missing"
    if one.least and _version_numbers(version) < _version_numbers(one.least):
        return f"{one.name} is {version}, {one.least} is needed"
    return ""


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _version_numbers(version: str) -> tuple[int, ...]:
    """The numbers before whatever is no release: `3.51.0rc1` = (3, 51, 0); `1.2` = `1.2.0`."""
    numbers = [int(one) for one in re.findall(r"\d+", version.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


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
