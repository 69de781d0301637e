"""The process that opens workbooks and databases with packages that a damaged file may end.

It opens one file at a time, and sends what its tables are and their rows as it is asked for them.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from ingot.converters.errors import SourceError, error_text, translate_read_errors
from ingot.converters.output.worker_pool import (
    Inbox,
    Send,
    WorkerProcess,
    give_back_process,
    take_process,
)
from ingot.converters.sources.containers.tables import LocalCopy, read_up_to
from ingot.converters.sources.storage.archives import give_back_open, take_open
from ingot.converters.sources.storage.listing import Place

MEMORY: Final = 2 << 30
_SECONDS: Final = 600  # of processor time for one table: beyond, its file is damaged


class TableFile(Protocol):
    """An open file of tables, in the process."""

    def tables(self) -> Any:  # noqa: ANN401 - what the reader of its format takes
        """Say what is in it."""

    def describe(self, number: int) -> Any:  # noqa: ANN401
        """Say what a table is."""

    def rows(self, number: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the rows of a table, some at a time."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True)
class _Open:
    opener: Callable[[Any], TableFile]
    content: Any


@dataclass(frozen=True, slots=True)
class _Ask:
    """Asks for the tables, a table (`describe`), its first rows (`rows`) or more rows (`next`)."""

    what: str
    number: Any = 0


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a package said of a file that it cannot read."""

    text: str


class _Server:
    def __init__(self) -> None:
        self._file: TableFile | None = None
        self._rows: Iterator[Any] = iter(())

    def reply(self, asked: _Open | _Ask | None) -> Any:  # noqa: ANN401
        if isinstance(asked, _Ask):
            assert self._file is not None
            if asked.what == "rows":
                limit_resource(resource.RLIMIT_CPU, int(time.process_time()) + _SECONDS)
                self._rows = self._file.rows(asked.number)
            elif asked.what == "describe":
                return self._file.describe(asked.number)
            elif asked.what == "tables":
                return self._file.tables()
            return next(self._rows, None)
        self._rows = iter(())
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
        if asked is not None:
            limit_resource(resource.RLIMIT_DATA, MEMORY)
            limit_resource(resource.RLIMIT_CPU, int(time.process_time()) + _SECONDS)
            self._file = asked.opener(asked.content)
        return None


def serve_tables(inbox: Inbox, send: Send) -> int:
    """Do what the parent asks for until it is gone."""
    silent = os.open(os.devnull, os.O_WRONLY)  # a library's last words, and its progress
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    server = _Server()
    for asked in _items(inbox):
        try:
            reply = server.reply(asked)
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            reply = _Failed(f"{type(error).__name__}: {error_text(error)}")
        send(reply)
    return 0


def _items(inbox: Inbox) -> Iterator[_Open | _Ask | None]:
    for (asked,) in inbox:  # None would end the inbox
        yield asked


def limit_resource(kind: int, size: int) -> None:
    """Let no more be had, where the system keeps to such a limit (Linux does)."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


class OpenTables:
    """A container that is open in a process: its place; whether the process still serves it.

    It is opened by a path, or by its content where that has at `most` so many bytes, or by what
    the `content` is said to be.
    """

    def __init__(
        self,
        archive: Place,
        opener: Callable[[Any], TableFile],
        *,
        most: int | None = None,
        content: bytes | None = None,
    ) -> None:
        self.archive, self._where = archive, str(archive)
        self._copy = LocalCopy(archive) if most is None and content is None else None
        self.sound = True
        with translate_read_errors(self._where):
            self._process: WorkerProcess = take_process(serve_tables)
        try:
            if content is None and not self._copy:
                content = _read_content(archive, most or 0)
            self._ask(_Open(opener, str(self._copy.path) if self._copy else content))
            self.tables = self._ask(_Ask("tables"))
        except BaseException:
            self.close()
            raise

    def describe(self, number: int) -> Any:  # noqa: ANN401
        """Ask what a table is. Raises SourceError."""
        return self._ask(_Ask("describe", number))

    def rows(self, number: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the rows of a table, some at a time. Raises SourceError."""
        some = self._ask(_Ask("rows", number))
        while some is not None:
            yield some
            some = self._ask(_Ask("next"))

    def close(self) -> None:
        """Let go of the file; the process serves the next one, if it replied to all."""
        with suppress(SourceError):
            self._ask(None)
        if self.sound and self._process.process.poll() is None:
            give_back_process(serve_tables, self._process)
        else:
            self._process.end()
        if self._copy:
            self._copy.close()

    def _ask(self, message: _Open | _Ask | None) -> Any:  # noqa: ANN401
        if not self.sound:
            raise SourceError(self._where, "the process that reads it has ended")
        self.sound = False
        self._process.send((message,))
        try:
            reply = self._process.received.recv()
        except (EOFError, OSError):
            code = self._process.process.wait()
            how = f"by signal {-code}" if code < 0 else f"with status {code}"
            problem = f"cannot read it: the process that reads it ended {how}"
            hint = (
                f"it is damaged, or needs more than {MEMORY >> 30} GiB of memory: export it as CSV"
            )
            raise SourceError(self._where, problem, hint) from None
        self.sound = True
        if isinstance(reply, _Failed):
            problem = f"cannot read it: {reply.text}"
            raise SourceError(self._where, problem, "is the file complete? fetch or copy it again")
        return reply


def _read_content(place: Place, most: int) -> bytes:
    data = read_up_to(place, most + 1)
    if len(data) > most:
        raise SourceError(str(place), f"more than {most >> 20} MiB unpacked", "save it as CSV")
    return data


Tables = TypeVar("Tables", bound=OpenTables)


@contextmanager
def open_tables(archive: Place, kind: Callable[[Place], Tables]) -> Iterator[Tables]:
    """Open a container, or take the one that is kept open; it is given back in the end."""
    held = take_open(cast("type[Tables]", kind), archive) or kind(archive)
    try:
        yield held
    finally:
        if held.sound:
            give_back_open(held)
        else:
            held.close()
