"""A source: the files of a location that hold data of one shape, and their rows.

`open_source` finds the files, tells by content what each one is, leaves out side files and files of
another shape (with the reason), and gives a `Source`, which streams rows as batches.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

from ingot.converters.errors import SourceError
from ingot.converters.readers import archives, grouping, results, sniff
from ingot.converters.readers.facts import FileFacts, LeftOut, RootCandidate, SourceFile
from ingot.converters.readers.files import file_stretches
from ingot.converters.readers.globs import chosen
from ingot.converters.readers.reaching import redacted
from ingot.converters.readers.roots import candidates
from ingot.converters.readers.sidefiles import side_file
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.storage import Entry, Listing, find
from ingot.converters.readers.stretch import to_batches
from ingot.converters.rows import Batch

_MANY_FILES = 1000  # beyond, less of each file is read to find out what it is
_SMALL_HEAD = 32 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Raw data that can be read: see docs/readers.md.

    Attributes:
        location: as the user wrote it.
        name: last part of the location without extensions; the default of `meta.source`.
        spec: what was asked.
        files: what is read, in reading order.
        left_out: what is not, and why.
        guessed: facts that were guessed, not known: a saved mapping states them.
        roots: where rows may lie in a JSON file that is one object, best first; else empty.
    """

    location: str
    name: str
    spec: SourceSpec
    files: tuple[SourceFile, ...]
    left_out: tuple[LeftOut, ...]
    guessed: SourceSpec
    roots: tuple[RootCandidate, ...]
    listing: Listing = field(repr=False)

    def batches(self, files: Sequence[SourceFile] | None = None) -> Iterator[Batch]:
        """The rows of all files (or of some of them) in order, a few hundred at a time.

        Raises:
            SourceError: a file cannot be read on; all rows before that point were given.
        """
        fields = self.spec.json_fields or ()
        with archives.kept_open():
            for file in self.files if files is None else files:
                yield from to_batches(file.name, file_stretches(file, self.spec), fields)

    def with_spec(self, spec: SourceSpec) -> "Source":
        """The same location read another way. Raises SourceError."""
        return _assembled(self.location, self.listing, spec)

    def open_raw(self, file: SourceFile) -> BinaryIO:
        """The bytes of a file as they lie on storage, from the start. Raises SourceError."""
        return file.open_raw()


def open_source(location: str, spec: SourceSpec = SourceSpec()) -> Source:
    """Find out what lies at a location and how it is read.

    Args:
        location: a file, folder, glob or archive of this machine, an fsspec URL, or `hf://datasets/...`.
        spec: facts that are stated and not to be guessed.

    Raises:
        SourceError: nothing there, not readable, damaged, or a single file that holds no data.
    """
    return _assembled(redacted(location), results.without_results(find(location)), spec)


def _assembled(location: str, listing: Listing, spec: SourceSpec) -> Source:
    left_out = [LeftOut(name=name, why=results.WHY) for name in listing.results]
    left_out += [LeftOut(name=name, why=why) for name, why in listing.unreadable]
    files: list[SourceFile] = []
    entries = _selected(location, listing, spec, left_out)
    head = head_size(len(entries))
    with archives.kept_open():
        for entry in entries:
            looked = look(entry, spec, direct=listing.direct, head=head)
            files += looked.files
            left_out += looked.left_out
    main, others = grouping.main_group(files, spec)
    files = list(main)
    left_out += others
    return Source(
        location=location,
        name=_name(listing.base),
        spec=spec,
        files=tuple(files),
        left_out=tuple(sorted(left_out, key=lambda item: item.name)),
        guessed=grouping.guessed(files),
        roots=candidates(files),
        listing=listing,
    )


class Looked(NamedTuple):
    """What one entry is: the files in it that hold data, and those that do not."""

    files: list[SourceFile]
    left_out: list[LeftOut]


def head_size(files: int) -> int:
    """How much of each of so many files is read to find out what it is, in bytes."""
    return _SMALL_HEAD if files > _MANY_FILES else sniff.HEAD


def _name(base: str) -> str:
    return re.sub(r"[*?\[\]]+", "", base) or "data"


def _selected(
    location: str, listing: Listing, spec: SourceSpec, left_out: list[LeftOut]
) -> list[Entry]:
    """The entries that may hold data by name and by the globs that were stated."""
    if listing.direct:
        return list(listing.entries)
    kept = []
    for entry in listing.entries:
        wanted = chosen(entry.name, spec.files)
        why = side_file(entry.name) if spec.files is None else None
        if not wanted or why:
            left_out.append(LeftOut(name=entry.name, why=why or "not in source.files"))
        else:
            kept.append(entry)
    if spec.files is not None and not kept and not _has_archive(listing):
        raise SourceError(location, f"no file matches {list(spec.files)}", "check source.files")
    return kept


def _has_archive(listing: Listing) -> bool:
    return any(re.search(r"\.(zip|tar|tgz|tar\.\w+)$", entry.name) for entry in listing.entries)


def look(entry: Entry, spec: SourceSpec = SourceSpec(), *, direct: bool, head: int) -> Looked:
    """Find out what one file is; an archive is looked into.

    Args:
        entry: the file.
        spec: what is not to be guessed.
        direct: it alone was named, so that finding no data in it is an error.
        head: bytes of its beginning to look at.

    Raises:
        SourceError: it cannot be read, is damaged, or is named alone and no data.
    """
    seen = sniff.peek(entry, head)
    files: list[SourceFile] = []
    left_out: list[LeftOut] = []
    if seen.archive is None:
        _judge(entry, _verdict(entry, seen, spec, direct), direct, files, left_out)
        return Looked(files, left_out)
    prefix = "" if direct else f"{entry.name}/"
    for member in archives.members(entry, seen.archive):
        if not isinstance(member, Entry):
            left_out.append(LeftOut(name=prefix + member[0], why=member[1]))
            continue
        why = _why_not(member.name, spec)
        named = replace(member, name=prefix + member.name)
        if why:
            left_out.append(LeftOut(name=named.name, why=why))
        else:
            inner = sniff.sniff(named, sniff.peek(named), spec)
            _judge(named, inner, False, files, left_out)
    return Looked(files, left_out)


def _verdict(
    entry: Entry, seen: sniff.Peek, spec: SourceSpec, direct: bool
) -> FileFacts | sniff.NoData:
    """What a file is; one of a folder that has other columns than were stated is another one."""
    try:
        return sniff.sniff(entry, seen, spec)
    except SourceError as error:
        if spec.columns is None or direct:
            raise
        return sniff.NoData(error.problem)


def _why_not(name: str, spec: SourceSpec) -> str | None:
    if spec.files is not None:
        return None if chosen(name, spec.files) else "not in source.files"
    return side_file(name)


def _judge(
    entry: Entry,
    verdict: FileFacts | sniff.NoData,
    direct: bool,
    files: list[SourceFile],
    left_out: list[LeftOut],
) -> None:
    if isinstance(verdict, FileFacts):
        files.append(SourceFile.of(entry, verdict))
    elif direct and not verdict.elsewhere:
        hint = "ingot reads JSON, CSV, Parquet, Arrow and text"
        raise SourceError(str(entry.place), f"no data in it: {verdict.why}", hint)
    else:
        left_out.append(LeftOut(name=entry.name, why=verdict.why))
