"""What workbooks and databases have in common: entries, names, copies, one open in a process."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from ingot.converters.errors import SourceError, require_package, translate_read_errors
from ingot.converters.output.worker_pool import WorkerDiedError, give_back_process, take_process
from ingot.converters.sources.containers.table_process import MEMORY, serve_tables
from ingot.converters.sources.facts import NOT_SELECTED, FileFacts, NoData, SourceFile
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.storage.archives import (
    TableMember,
    give_back_open,
    is_unsafe_name,
    take_open,
)
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.places import Entry, LocalFile, Place

# Whether a table is selected by `source.files`; None where nothing is stated.
Wants: TypeAlias = Callable[[str], bool | None]

# A name, why the table is not read (None: it is), and whether it is where `source.files` names it.
FoundTable: TypeAlias = tuple[str, str | NoData | None, bool]
LeftMember: TypeAlias = tuple[str, str | NoData]  # a name, and why it is not read

QUERY: Final = "query"  # the name of the one table that a stated query gives
VIEW: Final = "a view: name it in `source.files` to have it read"


def database_facts(kind: str, columns: Sequence[str], rows: int | None) -> FileFacts:
    """Return the facts of a table of a database."""
    names = column_names(columns)
    return FileFacts(format=kind, columns=names, rows=rows, shape=frozenset(names))


def quoted_name(name: str, mark: str = '"') -> str:
    """Return a name as SQL takes it."""
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def selected_tables(
    entry: Entry,
    tables: Iterable[FoundTable],
    wants: Wants,
    describe: Callable[[int, str], FileFacts | NoData],
    etag: str | None = None,
) -> Iterator[Entry | LeftMember]:
    """Yield the tables that are read, with the size and stamps of their file, or name and reason.

    `describe` gives the facts of a table by its number and name, or why it is not read.
    """
    seen: set[str] = set()
    for number, (name, aside, may_be_named) in enumerate(tables):
        wanted = wants(name)
        if not name.strip() or is_unsafe_name(name) or not name.isprintable():
            yield ascii(name), "its name is blank, or no path below its file"
        elif name in seen:
            yield name, "another table has its name"
        elif wanted is False:
            yield name, NOT_SELECTED
        else:
            seen.add(name)
            why = None if wanted and may_be_named else aside
            facts = why or describe(number, name)
            place = TableMember(archive=entry.place, member=name, number=number)
            table = replace(entry, name=name, place=place, etag=etag or entry.etag)
            yield SourceFile.of(table, facts) if isinstance(facts, FileFacts) else (name, facts)


def local_copy(stack: ExitStack, place: Place, companions: Iterable[str] = ()) -> Path:
    """Return the path of a file, or of a temporary copy with those beside it, until the end."""
    where = str(place)
    with place.open() as raw, translate_read_errors(where):
        packed = detect_compression(peek_first_bytes(raw))
        if packed is None and isinstance(place, LocalFile) and not companions:
            return Path(place.path).absolute()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ingot-"))
        copy = Path(folder, "data")
        with copy.open("wb") as out:
            shutil.copyfileobj(open_decompressed(raw, where), out, 1 << 20)
        for ending in companions:
            shutil.copyfile(f"{where}{ending}", f"{copy}{ending}")
        return copy


class OpenTables:
    """A container that is open in a process: its place, what it holds, whether it is still served.

    In the process, `kind` opens it by its path or `content`, and has `tables()`, `describe(table)`
    and `rows(table)`. Its `NEEDS` say what it is, the package that reads it, and the extra of that;
    a file of at most `KEPT_BYTES` is kept for whoever opens it next.
    """

    def __init__(self, archive: Place, kind: type[Any], content: bytes | None = None) -> None:
        self.archive, self._where, self.sound = archive, str(archive), True
        self._is_kept = False
        require_package(self._where, *kind.NEEDS)
        with ExitStack() as stack:
            arguments: tuple[Any, ...] = kind, content
            if content is None:
                path = local_copy(stack, archive)
                facts, is_own = path.stat(), path == Path(self._where).absolute()
                self._is_kept = is_own and facts.st_size <= getattr(kind, "KEPT_BYTES", 0)
                arguments = kind, str(path), facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
            with translate_read_errors(self._where):
                self._process = take_process(serve_tables)
            stack.callback(self._end_process)
            self.tables = self._ask("open", arguments)
            self._stack = stack.pop_all()

    def describe(self, table: Any) -> Any:  # noqa: ANN401
        """Ask what a table is. Raises SourceError."""
        return self._ask("describe", table)

    def rows(self, table: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the rows of a table, some at a time. Raises SourceError."""
        some = self._ask("rows", table)
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
                self._ask("close", self._is_kept)
        if self.sound:
            give_back_process(serve_tables, self._process)
        else:
            self._process.end()

    def _ask(self, what: str, argument: object = None) -> Any:  # noqa: ANN401
        self.sound = False
        self._process.send((what, argument))
        try:
            reply, failed = self._process.receive()
        except WorkerDiedError as error:
            problem = f"cannot read it: the process that reads it {error.end_text}"
            hint = f"it is damaged, or needs over {MEMORY >> 30} GiB of memory: export it as CSV"
            raise SourceError(self._where, problem, hint) from None
        self.sound = True
        if failed:
            hint = "is the file complete? fetch or copy it again"
            hint = "check the query" if isinstance(argument, str) else hint
            raise SourceError(self._where, f"cannot read it: {failed}", hint)
        return reply


@contextmanager
def open_container(kind: type[Any], archive: Place, *more: Any) -> Iterator[Any]:  # noqa: ANN401
    """Open a container, or take the one that is kept open; it is given back if it is sound."""
    container = take_open(kind, archive) or kind(archive, *more)
    try:
        yield container
    finally:
        (give_back_open if container.sound else kind.close)(container)
