"""What the tables of workbooks and databases have in common: entries, names, temporary copies."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources.facts import FileFacts, SourceFile
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.storage.archives import TableMember, is_unsafe_name
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, LocalFile, Place

# Whether a table is selected by `source.files`; None where nothing is stated.
Wants: TypeAlias = Callable[[str], bool | None]

# A name, why the table is not read (None: it is), and whether it is where `source.files` names it.
FoundTable: TypeAlias = tuple[str, str | None, bool]

VIEW: Final = "a view: name it in `source.files` to have it read"
NOT_SELECTED: Final = "not in source.files"
MOST_COPIED: Final = 16 << 30
_BLOCK: Final = 1 << 20


def table_entry(
    entry: Entry, name: str, facts: FileFacts, *, number: int = 0, etag: str | None = None
) -> SourceFile:
    """Return a table of a container; its size and stamps are those of the container."""
    return SourceFile(
        name=name,
        place=TableMember(archive=entry.place, member=name, number=number),
        bytes=entry.bytes,
        mtime_ns=entry.mtime_ns,
        etag=etag or entry.etag,
        facts=facts,
    )


def database_facts(kind: str, columns: Sequence[str], rows: int | None) -> FileFacts:
    """Return the facts of a table of a database."""
    names = column_names(columns)
    return FileFacts(format=kind, columns=names, rows=rows, shape=frozenset(names))


def quoted_name(name: str, mark: str = '"') -> str:
    """Return a name as SQL takes it."""
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def selected_names(
    found: Iterable[FoundTable], wants: Wants
) -> Iterator[tuple[int, str, str | None]]:
    """Number the tables; give each with the reason for which it is left out, None if it is read."""
    seen: set[str] = set()
    for number, (name, aside, may_be_named) in enumerate(found):
        wanted = wants(name)
        if not name.strip() or is_unsafe_name(name) or not name.isprintable():
            yield number, ascii(name), "its name is blank, or no path below its file"
        elif name in seen:
            yield number, name, "another table has its name"
        elif wanted is False:
            yield number, name, NOT_SELECTED
        else:
            seen.add(name)
            yield number, name, None if wanted and may_be_named else aside


class LocalCopy:
    """A file with a path: the file itself, or a temporary copy that is removed when closed."""

    def __init__(self, place: Place, beside: tuple[str, ...] = ()) -> None:
        where = str(place)
        with ExitStack() as stack, place.open() as raw, translate_read_errors(where):
            packed = detect_compression(peek_first_bytes(raw))
            if packed is None and isinstance(place, LocalFile) and not beside:
                self.path = Path(place.path).absolute()
            else:
                made = stack.enter_context(tempfile.TemporaryDirectory(prefix="ingot-"))
                self.path = Path(made, "data")
                _copy_stream(open_decompressed(raw, where), self.path, where)
                for ending in beside:
                    with LocalFile(where + ending).open() as journal:
                        _copy_stream(journal, Path(f"{self.path}{ending}"), where)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Remove the copy."""
        self._stack.close()


def _copy_stream(stream: BinaryIO, path: Path, where: str) -> None:
    size = 0
    with path.open("wb") as out:
        while block := stream.read(_BLOCK):
            size += len(block)
            if size > MOST_COPIED:
                problem = "too large for a temporary copy, which a database needs here"
                raise SourceError(where, problem, "unpack it to a disk, and name it there")
            out.write(block)
