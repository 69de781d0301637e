"""The process that opens workbooks and databases with packages that a damaged file may end.

It opens one file at a time, and sends what its tables are and their rows as it is asked for them.
"""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from ingot.converters.errors import (
    SourceError,
    error_text,
    require_package,
    translate_read_errors,
)
from ingot.converters.output.worker_pool import Inbox, Send, give_back_process, take_process
from ingot.converters.sources.containers.tables import local_copy
from ingot.converters.sources.storage.archives import give_back_open, take_open
from ingot.converters.sources.storage.listing import Place

MEMORY: Final = 2 << 30
_SECONDS: Final = 600  # of processor time for one table: beyond, its file is damaged


def serve_tables(inbox: Inbox, send: Send) -> int:
    """Do what the parent asks for until it is gone."""
    silent = os.open(os.devnull, os.O_WRONLY)  # a library's last words, and its progress
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    file: Any = None
    rows: Iterator[Any] = iter(())
    for what, given in inbox:
        reply: Any = None
        try:
            if what in ("open", "rows"):
                limit_resource(resource.RLIMIT_CPU, int(time.process_time()) + _SECONDS)
            if what == "open":
                limit_resource(resource.RLIMIT_DATA, MEMORY)
                kind, content = given
                file = kind(content)
                reply = file.tables()
            elif what == "describe":
                reply = file.describe(given)
            elif what == "close":
                file, rows = None, iter(())
            else:
                rows = file.rows(given) if what == "rows" else rows
                reply = next(rows, None)
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            send((None, f"{type(error).__name__}: {error_text(error)}"))
        else:
            send((reply, None))
    return 0


def limit_resource(kind: int, size: int) -> None:
    """Let no more be had, where the system keeps to such a limit (Linux does)."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


class OpenTables:
    """A container that is open in a process: its place, what it holds, whether it is still served.

    In the process, `kind` opens it by its path, or by what its `content` is said to be, and has
    `tables()`, `describe(number)` and `rows(number)`. Its `NEEDS` say what it is, the package that
    reads it, and the extra of that.
    """

    def __init__(self, archive: Place, kind: type[Any], content: bytes | None = None) -> None:
        self.archive, self._where, self.sound = archive, str(archive), True
        require_package(self._where, *kind.NEEDS)
        with ExitStack() as stack:
            given = str(local_copy(stack, archive)) if content is None else content
            with translate_read_errors(self._where):
                self._process = take_process(serve_tables)
            stack.callback(self._end_process)
            self.tables = self._ask("open", (kind, given))
            self._stack = stack.pop_all()

    def describe(self, table: int | str) -> Any:  # noqa: ANN401
        """Ask what a table or query is. Raises SourceError."""
        return self._ask("describe", table)

    def rows(self, number: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the rows of a table, some at a time. Raises SourceError."""
        some = self._ask("rows", number)
        while some is not None:
            yield some
            some = self._ask("next")

    def close(self) -> None:
        """Let go of the file."""
        self._stack.close()

    def _end_process(self) -> None:
        """Let the process serve the next file, if it replied to all."""
        if self.sound:
            with suppress(SourceError):
                self._ask("close")
        if self.sound:
            give_back_process(serve_tables, self._process)
        else:
            self._process.end()

    def _ask(self, what: str, given: object = None) -> Any:  # noqa: ANN401
        self.sound = False
        self._process.send((what, given))
        try:
            reply, failed = self._process.received.recv()
        except (EOFError, OSError):
            code = self._process.process.wait()
            how = f"by signal {-code}" if code < 0 else f"with status {code}"
            problem = f"cannot read it: the process that reads it ended {how}"
            hint = f"it is damaged, or needs over {MEMORY >> 30} GiB of memory: export it as CSV"
            raise SourceError(self._where, problem, hint) from None
        self.sound = True
        if failed:
            hint = "is the file complete? fetch or copy it again"
            hint = "check the query" if isinstance(given, str) else hint
            raise SourceError(self._where, f"cannot read it: {failed}", hint)
        return reply


@contextmanager
def open_tables(archive: Place, kind: type[Any]) -> Iterator[OpenTables]:
    """Open a container, or take the one that is kept open; it is given back in the end."""
    held = take_open(OpenTables, archive) or OpenTables(archive, kind)
    try:
        yield held
    finally:
        if held.sound:
            give_back_open(held)
        else:
            held.close()
