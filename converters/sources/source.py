"""A source: the files of a location that hold data of one shape, and their rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from ingot.converters.errors import SourceError, redact_urls
from ingot.converters.paths import join_path
from ingot.converters.rows import Batch, Json
from ingot.converters.sources import grouping
from ingot.converters.sources.facts import FileFacts, LeftOut, RootCandidate, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.json_rows import parse_json_document, top_level_containers
from ingot.converters.sources.formats.row_chunks import BrokenRow, to_batches
from ingot.converters.sources.formats.text import read_utf8_blocks
from ingot.converters.sources.readers import (
    HEAD,
    NoData,
    peek_file,
    read_file,
    side_file_reason,
    sniff_file,
)
from ingot.converters.sources.storage import archives
from ingot.converters.sources.storage import listing as results
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, Listing, list_location, matches_globs

MAX_BYTES = 64 << 20  # a larger file is not loaded to look for roots, only its head is
MAX_HEAD = 1 << 20
_HEAD_BLOCKS = 8  # of a megabyte
_MOST_CANDIDATES = 20
_MOST_DEPTH = 3
_FEW_VALUES = 3  # an object of fewer values is a record rather than keyed by id


def root_candidates(files: Sequence[SourceFile]) -> tuple[RootCandidate, ...]:
    """Candidates of the largest file that is one object; () where there is none.

    `rows` counts that file alone, and is None where it is too large to be loaded.
    """
    objects = [file for file in files if file.facts.layout == "object"]
    if not objects:
        return ()
    file = max(objects, key=lambda file: (file.bytes, file.name))
    with file.place.open() as raw:
        stream = open_decompressed(raw, str(file.place))
        parts = read_utf8_blocks(stream, str(file.place), file.facts.encoding, file.facts.newline)
        head = b"".join(islice(parts, _HEAD_BLOCKS))
        value = parse_json_document(chain([head], parts), MAX_BYTES)
    if isinstance(value, dict):
        return rank_roots(value, len(objects))
    return (
        tuple(_head_candidates(head)) if type(value) is BrokenRow and len(head) > MAX_HEAD else ()
    )


def _head_candidates(head: bytes) -> Iterator[RootCandidate]:
    """The candidates of a file that is too large, from its first megabytes."""
    held = top_level_containers(head)
    if len(held) > _MOST_CANDIDATES and all(is_object for _, is_object in held):
        yield RootCandidate(path="*", rows=None, why="objects keyed by id")
        return
    for key, is_object in held:
        mark, why = (".*", "an object") if is_object else ("[*]", "a list")
        yield RootCandidate(path=join_path(key, mark), rows=None, why=f"{why} in a large file")


def rank_roots(value: dict[str, Json], files: int) -> tuple[RootCandidate, ...]:
    """The candidates of one object, best first; `files` is how many files there are like it."""
    found = [(points, root) for points, root in _find_roots(value, (), 1)]
    found.append(
        (_file_points(value, files), RootCandidate(path="$", rows=1, why="the file as one row"))
    )
    return tuple(root for _, root in sorted(found, key=lambda item: (-item[0], item[1].path)))


def _find_roots(
    value: dict[str, Json], keys: tuple[str, ...], depth: int
) -> Iterator[tuple[float, RootCandidate]]:
    if len(value) >= _FEW_VALUES and (why := _id_key_reason(value)):
        path = join_path(*keys, ".*").removeprefix(".")
        yield 2.0 - depth * 0.5, RootCandidate(path=path, rows=len(value), why=why)
    for key, held in value.items():
        here = (*keys, key)
        if isinstance(held, list) and held and all(isinstance(item, dict) for item in held):
            root = RootCandidate(
                path=join_path(*here, "[*]"), rows=len(held), why="a list of objects"
            )
            yield (1.5 if len(held) >= _FEW_VALUES else 0.9) - depth * 0.25, root
        elif (
            isinstance(held, list)
            and len(held) >= _FEW_VALUES
            and all(isinstance(i, str) for i in held)
        ):
            root = RootCandidate(
                path=join_path(*here, "[*]"), rows=len(held), why="a list of texts"
            )
            yield 0.1 - depth * 0.25, root
        elif isinstance(held, dict) and depth < _MOST_DEPTH and len(value) < 100:
            yield from _find_roots(held, here, depth + 1)


def _id_key_reason(value: dict[str, Json]) -> str | None:
    """Whether the values are records of one kind: objects with the same keys, or long texts."""
    held = list(value.values())
    if all(isinstance(item, dict) for item in held):
        shared = set(held[0]).intersection(*held[:100])
        return "objects keyed by id" if shared and not _has_field_names(value) else None
    if all(isinstance(item, str) for item in held):
        long = sum(len(item) > 40 for item in held) * 2 > len(held)
        return (
            "texts keyed by id"
            if len(held) > 20 or (long and not _has_field_names(value))
            else None
        )
    numbered = all(any(map(str.isdigit, key)) for key in value)
    if all(isinstance(item, list) for item in held) and (len(held) > 20 or numbered):
        return "lists keyed by id"
    return None


def _has_field_names(value: dict[str, Json]) -> bool:
    """Whether the keys read like names of fields: few plain words without a digit."""
    return len(value) < 10 and all(
        key.isidentifier() and not any(map(str.isdigit, key)) for key in value
    )


def _file_points(value: dict[str, Json], files: int) -> float:
    """A file is a record if there are many like it, or if it has a text of its own."""
    text = any(isinstance(item, str) and len(item) > 200 for item in value.values())
    return (1.4 if files > 2 else 0.0) + (0.8 if text else 0.0) + 0.4


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
        with archives.keep_archive_open():
            for file in self.files if files is None else files:
                yield from to_batches(file.name, read_file(file, self.spec), fields)

    def with_spec(self, spec: SourceSpec) -> "Source":
        """The same location read another way. Raises SourceError."""
        return _assemble_source(self.location, self.listing, spec)

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
    return _assemble_source(
        redact_urls(location), results.drop_own_results(list_location(location)), spec
    )


def _assemble_source(location: str, listing: Listing, spec: SourceSpec) -> Source:
    left_out = [LeftOut(name=name, why=results.OWN_RESULT) for name in listing.results]
    left_out += [LeftOut(name=name, why=why) for name, why in listing.unreadable]
    files: list[SourceFile] = []
    entries = _select_entries(location, listing, spec, left_out)
    head = head_size(len(entries))
    with archives.keep_archive_open():
        for entry in entries:
            looked = inspect_entry(entry, spec, direct=listing.direct, head=head)
            files += looked.files
            left_out += looked.left_out
    main, others = grouping.select_main_group(files, spec)
    files = list(main)
    left_out += others
    return Source(
        location=location,
        name=_source_name(listing.base),
        spec=spec,
        files=tuple(files),
        left_out=tuple(sorted(left_out, key=lambda item: item.name)),
        guessed=grouping.guessed_spec(files),
        roots=root_candidates(files),
        listing=listing,
    )


class EntryFiles(NamedTuple):
    """What one entry is: the files in it that hold data, and those that do not."""

    files: list[SourceFile]
    left_out: list[LeftOut]


def head_size(files: int) -> int:
    """How much of each of so many files is read to find out what it is, in bytes."""
    return _SMALL_HEAD if files > _MANY_FILES else HEAD


def _source_name(base: str) -> str:
    return re.sub(r"[*?\[\]]+", "", base) or "data"


def _select_entries(
    location: str, listing: Listing, spec: SourceSpec, left_out: list[LeftOut]
) -> list[Entry]:
    """The entries that may hold data by name and by the globs that were stated."""
    if listing.direct:
        return list(listing.entries)
    kept = []
    for entry in listing.entries:
        wanted = matches_globs(entry.name, spec.files)
        why = side_file_reason(entry.name) if spec.files is None else None
        if not wanted or why:
            left_out.append(LeftOut(name=entry.name, why=why or "not in source.files"))
        else:
            kept.append(entry)
    if spec.files is not None and not kept and not _has_archive(listing):
        raise SourceError(location, f"no file matches {list(spec.files)}", "check `source.files`")
    return kept


def _has_archive(listing: Listing) -> bool:
    return any(re.search(r"\.(zip|tar|tgz|tar\.\w+)$", entry.name) for entry in listing.entries)


def inspect_entry(
    entry: Entry, spec: SourceSpec = SourceSpec(), *, direct: bool, head: int
) -> EntryFiles:
    """Find out what one file is; an archive is looked into."""
    seen = peek_file(entry, head)
    files: list[SourceFile] = []
    left_out: list[LeftOut] = []
    if seen.archive is None:
        _add_verdict(entry, _sniff_entry(entry, seen, spec, direct), direct, files, left_out)
        return EntryFiles(files, left_out)
    prefix = "" if direct else f"{entry.name}/"
    for member in archives.archive_members(entry, seen.archive):
        if not isinstance(member, Entry):
            left_out.append(LeftOut(name=prefix + member[0], why=member[1]))
            continue
        why = _exclusion_reason(member.name, spec)
        named = replace(member, name=prefix + member.name)
        if why:
            left_out.append(LeftOut(name=named.name, why=why))
        else:
            inner = sniff_file(named, peek_file(named), spec)
            _add_verdict(named, inner, False, files, left_out)
    return EntryFiles(files, left_out)


def _sniff_entry(
    entry: Entry, seen: FilePeek, spec: SourceSpec, direct: bool
) -> FileFacts | NoData:
    """What a file is; one of a folder that has other columns than were stated is another one."""
    try:
        return sniff_file(entry, seen, spec)
    except SourceError as error:
        if spec.columns is None or direct:
            raise
        return NoData(error.problem)


def _exclusion_reason(name: str, spec: SourceSpec) -> str | None:
    if spec.files is not None:
        return None if matches_globs(name, spec.files) else "not in source.files"
    return side_file_reason(name)


def _add_verdict(
    entry: Entry,
    verdict: FileFacts | NoData,
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
