"""What the tables of workbooks and databases have in common: entries, names, temporary copies."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from ingot.converters.errors import translate_read_errors
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
    found: Iterable[FoundTable],
    wants: Wants,
    describe: Callable[[int, str], FileFacts | None],
    etag: str | None = None,
) -> Iterator[Entry | tuple[str, str]]:
    """Yield the tables that are read, with the size and stamps of their file, or name and reason.

    `describe` gives the facts of a table by its number and name, None where it is empty.
    """
    seen: set[str] = set()
    for number, (name, aside, may_be_named) in enumerate(found):
        wanted = wants(name)
        if not name.strip() or is_unsafe_name(name) or not name.isprintable():
            yield ascii(name), "its name is blank, or no path below its file"
        elif name in seen:
            yield name, "another table has its name"
        elif wanted is False:
            yield name, "not in source.files"
        else:
            seen.add(name)
            why = None if wanted and may_be_named else aside
            facts = None if why else describe(number, name)
            place = TableMember(archive=entry.place, member=name, number=number)
            table = replace(entry, name=name, place=place, etag=etag or entry.etag)
            yield SourceFile.of(table, facts) if facts else (name, why or "empty")


def local_copy(stack: ExitStack, place: Place, beside: Iterable[str] = ()) -> Path:
    """Return the path of a file, or of a temporary copy with those beside it, until the end."""
    where = str(place)
    with place.open() as raw, translate_read_errors(where):
        packed = detect_compression(peek_first_bytes(raw))
        if packed is None and isinstance(place, LocalFile) and not beside:
            return Path(place.path).absolute()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ingot-"))
        copy = Path(folder, "data")
        with copy.open("wb") as out:
            shutil.copyfileobj(open_decompressed(raw, where), out, 1 << 20)
        for ending in beside:
            shutil.copyfile(f"{where}{ending}", f"{copy}{ending}")
        return copy
