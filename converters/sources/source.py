"""A source: the files of a location that hold data of one shape, and their rows."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from ingot.converters.errors import SourceError, redact_urls
from ingot.converters.rows import Batch
from ingot.converters.sources.documents import kinds
from ingot.converters.sources.facts import (
    NOT_SELECTED,
    FileFacts,
    LeftOut,
    NoData,
    RootCandidate,
    SourceFile,
    SourceSpec,
)
from ingot.converters.sources.file_groups import guessed_spec, select_main_group
from ingot.converters.sources.file_kinds import (
    may_be_data_alone,
    may_hold_documents,
    not_a_document,
    side_file_reason,
    unread_hint,
)
from ingot.converters.sources.formats.detection import HEAD, peek_file
from ingot.converters.sources.formats.row_chunks import to_batches
from ingot.converters.sources.readers import (
    TABLE_CONTAINERS,
    Container,
    find_container,
    read_file,
    sniff_file,
)
from ingot.converters.sources.root_candidates import root_candidates
from ingot.converters.sources.storage import archives
from ingot.converters.sources.storage import listing as results
from ingot.converters.sources.storage.archives import TarMember
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, Listing, matches_globs
from ingot.converters.sources.tables.table_folders import (
    list_tables,
    part_of_table,
    table_folders,
    table_reason,
)

_MANY_FILES = 1000  # beyond, less of each file is read to find out what it is
_SMALL_HEAD = 32 << 10
_FIRST_BYTES = 64  # of a script, that tell whether it may hold rows
_TREES = ("yaml", "toml")  # layouts of documents that may be rows after all
_ARCHIVE_NAME = re.compile(r"\.(zip|tar|tgz|tar\.\w+)$")


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
        """Yield the rows of all files (or of some of them) in order, at most 4,096 at a time.

        Raises:
            SourceError: a file cannot be read on; all rows before that point were given.
        """
        fields = self.spec.json_fields or ()
        with archives.keep_archive_open():
            for file in self.files if files is None else files:
                first = file.piece.row if file.piece else 0
                yield from to_batches(file.name, read_file(file, self.spec), fields, first=first)

    def with_spec(self, spec: SourceSpec) -> "Source":
        """Return the same location read another way. Raises SourceError."""
        return _assemble_source(self.location, self.listing, spec)


def open_source(location: str, spec: SourceSpec = SourceSpec()) -> Source:
    """Find out what lies at a location and how it is read.

    Args:
        location: a file, folder, glob or archive of this machine, an fsspec URL, `hf://datasets/...`,
            or a table: `FOLDER@VERSION`, a metadata file of Iceberg, `iceberg://CATALOG/SPACE.NAME`.
        spec: facts that are stated and not to be guessed.

    Raises:
        SourceError: nothing there, not readable, damaged, or a single file that holds no data.
    """
    return _assemble_source(redact_urls(location), list_tables(location), spec)


def _assemble_source(location: str, listing: Listing, spec: SourceSpec) -> Source:
    if spec.query is not None:
        from ingot.converters.sources.tables.server_tables import state_query

        listing = state_query(listing, spec.query, location)
    files, left_out = _inspect_twice(
        lambda alone: _inspect_listing(location, listing, spec, alone), prefix=""
    )
    if any(file.facts.layout in _TREES for file in files):
        from ingot.converters.sources.interchange.yaml_toml import find_records

        files = find_records(files, (file.name for file in left_out))
    read = [(file.name, read_form(file), file.bytes) for file in files]
    undecided = not (_states_files(spec) or (listing.direct and files))
    if undecided and may_hold_documents(read, left_out):
        asked = replace(spec, format=kinds.DOCUMENT)
        files, left_out = _inspect_listing(location, listing, asked, frozenset())
    left_out += [LeftOut(name=name, why=results.OWN_RESULT) for name in listing.results]
    left_out += [LeftOut(name=one.name, why=one.why) for one in listing.unreadable]
    main, others_left = select_main_group(files, spec)
    if main and "=" in main[0].name:
        from ingot.converters.sources.tables.partitions import read_partitions

        main = read_partitions(main)
    if spec.query is not None:
        from ingot.converters.sources.tables.server_tables import check_queried

        check_queried(main)
    for file in main if spec.orient else ():
        several = file.facts.layout == "values"
        if file.facts.format != "json" or several:
            form = "JSON of several values" if several else file.facts.format
            problem = f"`orient` is for a JSON file of one value; this one is {form}"
            raise SourceError(str(file.place), problem, "leave `source.orient` out")
    objects = [] if spec.orient else [file for file in main if file.facts.layout == "object"]
    return Source(
        location=location,
        name=re.sub(r"[*?\[\]]+", "", listing.base) or "data",
        spec=spec,
        files=main,
        left_out=tuple(sorted([*left_out, *others_left], key=lambda item: item.name)),
        guessed=guessed_spec(main, spec, [other.name for other in others_left]),
        roots=root_candidates(objects, tables=spec.root is None) if objects else (),
        listing=listing,
    )


def read_form(file: SourceFile) -> str:
    """Return the format of a file.

    `object` for JSON of one object, which may be about documents.
    """
    whole = file.facts.format == "json" and file.facts.layout == "object"
    return "object" if whole else file.facts.format


def _states_files(spec: SourceSpec) -> bool:
    """Whether more is stated than how documents are read."""
    return replace(spec, encoding=None, html=None, json_fields=None) != SourceSpec()


def _inspect_twice(
    inspect: Callable[[Collection[str]], "EntryFiles"], *, prefix: str
) -> "EntryFiles":
    """What some names hold; where that is nothing, with those that are data alone."""
    looked = inspect(frozenset())
    if looked.files:
        return looked
    alone = names_alone(file.name.removeprefix(prefix) for file in looked.left_out)
    return inspect(alone) if alone else looked


def _inspect_listing(
    location: str, listing: Listing, spec: SourceSpec, alone: Collection[str]
) -> "EntryFiles":
    """The files that hold data, `alone` among those that are looked into, and the others."""
    looked = EntryFiles([], [])
    entries = _select_entries(location, listing, spec, looked.left_out, alone)
    head = head_size(len(entries))
    with archives.keep_archive_open():
        for entry in entries:
            looked.add(inspect_entry(entry, spec, direct=listing.direct, head=head))
    return looked


def names_alone(names: Iterable[str]) -> frozenset[str]:
    """Return auxiliary files that may be data, from folders that hold no other files."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return frozenset(
        name
        for names in folders.values()
        if (alone := list(filter(may_be_data_alone, names))) and all(map(side_file_reason, names))
        for name in alone
    )


class EntryFiles(NamedTuple):
    """What one entry is: the files in it that hold data, and those that do not."""

    files: list[SourceFile]
    left_out: list[LeftOut]

    def add(self, other: "EntryFiles") -> None:
        """Add what another entry is."""
        self.files.extend(other.files)
        self.left_out.extend(other.left_out)


def head_size(files: int) -> int:
    """Return how much of each of so many files is read to find out what it is, in bytes."""
    return _SMALL_HEAD if files > _MANY_FILES else HEAD


def _select_entries(
    location: str,
    listing: Listing,
    spec: SourceSpec,
    left_out: list[LeftOut],
    alone: Collection[str],
) -> list[Entry]:
    """The entries that may hold data by name and by the globs that were stated."""
    if listing.direct:
        return list(listing.entries)
    places = []
    for entry in listing.entries:
        why = _exclusion_reason(entry.name, spec, listing.closed, alone)
        if why is None or holds_rows_anyway(entry, why):
            places.append(entry)
        else:
            left_out.append(LeftOut.of(entry, why))
    archives_there = any(_ARCHIVE_NAME.search(entry.name) for entry in listing.entries)
    if spec.files is not None and not (places or listing.closed or archives_there):
        raise SourceError(location, f"no file matches {list(spec.files)}", "check `source.files`")
    return places


_ROWS_BEGIN = re.compile(rb"\s*(?:\{\s*\"|\[\s*[\[{])|PAR1|ARROW1")
_ROW_FORMATS = ("jsonl", "json", "parquet", "arrow")


def holds_rows_anyway(entry: Entry, reason: NoData) -> bool:
    """Return whether a file that its ending calls a script or document holds rows."""
    if reason.kind not in ("aside", "prose") or kinds.kind_by_name(entry.name) == (
        kinds.NOTEBOOK,
        "",
    ):
        return False
    if isinstance(entry.place, TarMember) and entry.place.offset is None:
        return False  # each would cost a pass over the archive
    try:
        with entry.place.open() as raw:
            if not _ROWS_BEGIN.match(open_decompressed(raw, entry.name).read(_FIRST_BYTES)):
                return False
        facts = sniff_file(entry, peek_file(entry), SourceSpec())
    except SourceError:
        return False
    known = isinstance(facts, FileFacts) and facts.format in _ROW_FORMATS
    return known and isinstance(facts, FileFacts) and facts.layout != "object"


def _exclusion_reason(
    name: str,
    spec: SourceSpec,
    closed: Mapping[str, tuple[str, str, str]],
    alone: Collection[str],
    prefix: str = "",
) -> NoData | None:
    if (why := table_reason(name, closed)) or name in alone:
        return why
    named = [name for name in spec.files or () if not name.startswith("!")]
    # Its tables may be named: `*.xlsx/Sheet1`.
    around = [name.rpartition("/")[0] for name in named]
    around = [folder for folder in around if "." in folder.rpartition("/")[2]]
    chosen = matches_globs(name, spec.files, f"{prefix}{name}")
    if not chosen and not matches_globs(name, around or ["!**"]):
        return NOT_SELECTED
    if named:
        return None
    return not_a_document(name) if spec.format in kinds.DOCUMENTS else side_file_reason(name)


def inspect_entry(
    entry: Entry, spec: SourceSpec = SourceSpec(), *, direct: bool, head: int
) -> EntryFiles:
    """Find out what one file is; an archive is looked into."""
    seen = peek_file(entry, head)
    looked = EntryFiles([], [])
    try:
        container = find_container(entry, seen, spec)
        if isinstance(container, Container):
            return _inspect_container(entry, container, spec, direct=direct)
        verdict = container or sniff_file(entry, seen, spec)
        if direct and _is_read_as_document(entry.name, verdict, spec):
            # Whatever it is called.
            asked = replace(spec, format=kinds.DOCUMENT, files=(entry.name,))
            verdict = sniff_file(entry, seen, asked)
    except SourceError as error:
        if (spec.columns is None and spec.header_rows is None) or direct:
            raise
        verdict = NoData(error.problem)  # a file of a folder with other columns than stated
    _add_verdict(looked, entry, verdict, direct)
    return looked


def _inspect_container(
    entry: Entry, container: Container, spec: SourceSpec, *, direct: bool
) -> EntryFiles:
    prefix = "" if direct else f"{entry.name}/"
    looked = _inspect_twice(
        lambda alone: _inspect_members(entry, container, spec, prefix, alone), prefix=prefix
    )
    if direct and spec.header_rows and not looked.files:
        problem = f"no table in it has a row {spec.header_rows[-1]}"
        raise SourceError(str(entry.place), problem, "correct `source.header_rows`")
    return looked


def _is_read_as_document(name: str, verdict: FileFacts | NoData, spec: SourceSpec) -> bool:
    """Whether a file that is named alone is a document: asked for, or by name and content."""
    if _states_files(spec):
        return spec.format in kinds.DOCUMENTS and isinstance(verdict, NoData)
    kind, _ = kinds.kind_by_name(name) or (kinds.TEXT, "")
    if isinstance(verdict, NoData):
        return kind != kinds.TEXT or verdict.form == kinds.HTML
    notebook = kind == kinds.NOTEBOOK and verdict.shape & {"cells", "worksheets"}
    return bool(notebook) or (kind != kinds.TEXT and verdict.format in ("csv", "text"))


def _is_selected(
    container: str, files: Sequence[str] | None, direct: bool, table: str
) -> bool | None:
    """Whether `source.files` selects a table; None if it says nothing, or names all of them."""
    if files is None:
        return None
    name, chosen = f"{container}/{table}", [name for name in files if not name.startswith("!")]
    if chosen and (matches_globs(name, files) or (direct and matches_globs(table, files))):
        return True
    excluding = [name for name in files if name.startswith("!")]
    excluded = not matches_globs(name, excluding, table if direct else "")
    return False if excluded or not matches_globs(container, chosen or None) else None


def _inspect_members(
    entry: Entry, container: Container, spec: SourceSpec, prefix: str, alone: Collection[str]
) -> EntryFiles:
    looked = EntryFiles([], [])
    wants = partial(_is_selected, entry.name, spec.files, not prefix)
    members = list(container.members(entry, spec, wants))
    folders = table_folders(member for member in members if isinstance(member, Entry))
    closed = {folder: (part_of_table(kind), "", "table") for folder, kind in folders.items()}
    for member in members:
        if not isinstance(member, Entry):
            name, why = member
            reason = why if isinstance(why, NoData) else NoData(why)
            if not (prefix or name):
                raise SourceError(str(entry.place), f"no data in it: {reason.why}")
            left = LeftOut.of(replace(entry, name=prefix + name if name else entry.name), reason)
            looked.left_out.append(replace(left, bytes=0))  # those of the container
            continue
        named = replace(member, name=prefix + member.name)
        if isinstance(named, SourceFile):
            looked.files.append(named)
        elif (
            left_for := _exclusion_reason(member.name, spec, closed, alone, prefix)
        ) and not holds_rows_anyway(named, left_for):
            looked.left_out.append(LeftOut.of(named, left_for))
        else:
            seen = peek_file(named)
            inner = find_container(named, seen, spec)
            if inner in TABLE_CONTAINERS.values() and isinstance(inner, Container):
                looked.add(_inspect_container(named, inner, spec, direct=False))
            else:
                verdict = inner if isinstance(inner, NoData) else sniff_file(named, seen, spec)
                _add_verdict(looked, named, verdict, False)
    return looked


def _add_verdict(
    looked: EntryFiles, entry: Entry, verdict: FileFacts | NoData, direct: bool
) -> None:
    if isinstance(verdict, FileFacts):
        looked.files.append(SourceFile.of(entry, verdict))
    elif direct and verdict.kind != "elsewhere":
        again = "write or fetch it again, or name another file"
        hint = again if verdict.kind == "empty" else unread_hint([verdict.form])
        raise SourceError(str(entry.place), f"no data in it: {verdict.why}", hint)
    else:
        looked.left_out.append(LeftOut.of(entry, verdict))
