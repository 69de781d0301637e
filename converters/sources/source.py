"""A source: the files of a location that hold data of one shape, and their rows."""

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

from ingot.converters.errors import SourceError, redact_urls
from ingot.converters.rows import Batch
from ingot.converters.sources.facts import FileFacts, LeftOut, RootCandidate, SourceFile, SourceSpec
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import LISTS
from ingot.converters.sources.formats.row_chunks import to_batches
from ingot.converters.sources.readers import (
    HEAD,
    NoData,
    may_be_data_alone,
    peek_file,
    read_file,
    side_file_reason,
    sniff_file,
)
from ingot.converters.sources.root_candidates import root_candidates
from ingot.converters.sources.storage import archives
from ingot.converters.sources.storage import listing as results
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, Listing, list_location, matches_globs

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
    listing = results.drop_own_results(list_location(location))
    return _assemble_source(redact_urls(location), listing, spec)


def _assemble_source(location: str, listing: Listing, spec: SourceSpec) -> Source:
    files, left_out = _inspect_listing(location, listing, spec, frozenset())
    if not files and (alone := names_alone(one.name for one in left_out)):
        files, left_out = _inspect_listing(location, listing, spec, alone)
    left_out += [LeftOut(name=name, why=results.OWN_RESULT) for name in listing.results]
    left_out += [LeftOut(name=name, why=why) for name, why in listing.unreadable]
    main, others = _select_main_group(files, spec)
    for file in main if spec.orient else ():
        if file.facts.format != "json" or file.facts.layout == "values":
            problem = f"`orient` is for a JSON file of one value; this one is {_file_form(file)}"
            raise SourceError(str(file.place), problem, "leave `source.orient` out")
    return Source(
        location=location,
        name=re.sub(r"[*?\[\]]+", "", listing.base) or "data",
        spec=spec,
        files=main,
        left_out=tuple(sorted([*left_out, *others], key=lambda item: item.name)),
        guessed=guessed_spec(main),
        roots=() if spec.orient else root_candidates(main, tables=spec.root is None),
        listing=listing,
    )


def _inspect_listing(
    location: str, listing: Listing, spec: SourceSpec, alone: Collection[str]
) -> "EntryFiles":
    """The files that hold data, `alone` among those that are looked into, and the others."""
    looked = EntryFiles([], [])
    entries = _select_entries(location, listing, spec, looked.left_out, alone)
    head = head_size(len(entries))
    with archives.keep_archive_open():
        for entry in entries:
            found = inspect_entry(entry, spec, direct=listing.direct, head=head)
            looked.files.extend(found.files)
            looked.left_out.extend(found.left_out)
    return looked


def names_alone(names: Iterable[str]) -> frozenset[str]:
    """The auxiliary files that may be data, of folders in which all files are auxiliary ones."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return frozenset(
        name
        for held in folders.values()
        if all(side_file_reason(one) for one in held)
        for name in held
        if may_be_data_alone(name)
    )


def _file_form(file: SourceFile) -> str:
    several = file.facts.layout == "values"
    return "JSON of several values" if several else file.facts.format


class EntryFiles(NamedTuple):
    """What one entry is: the files in it that hold data, and those that do not."""

    files: list[SourceFile]
    left_out: list[LeftOut]


def head_size(files: int) -> int:
    """How much of each of so many files is read to find out what it is, in bytes."""
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
    kept = []
    for entry in listing.entries:
        why = None if entry.name in alone else _exclusion_reason(entry.name, spec)
        if why:
            left_out.append(LeftOut.of(entry, why))
        else:
            kept.append(entry)
    if spec.files is not None and not kept and not _has_archive(listing):
        raise SourceError(location, f"no file matches {list(spec.files)}", "check `source.files`")
    return kept


def _has_archive(listing: Listing) -> bool:
    return any(re.search(r"\.(zip|tar|tgz|tar\.\w+)$", entry.name) for entry in listing.entries)


def _exclusion_reason(name: str, spec: SourceSpec) -> str | None:
    if spec.files is not None:
        return None if matches_globs(name, spec.files) else "not in source.files"
    return side_file_reason(name)


def inspect_entry(
    entry: Entry, spec: SourceSpec = SourceSpec(), *, direct: bool, head: int
) -> EntryFiles:
    """Find out what one file is; an archive is looked into."""
    seen = peek_file(entry, head)
    looked = EntryFiles([], [])
    if seen.archive is None:
        try:
            verdict = sniff_file(entry, seen, spec)
        except SourceError as error:
            if spec.columns is None or direct:
                raise
            verdict = NoData(error.problem)  # a file of a folder with other columns than stated
        _add_verdict(looked, entry, verdict, direct)
        return looked
    looked = _inspect_members(entry, seen.archive, spec, direct=direct, alone=frozenset())
    prefix = "" if direct else f"{entry.name}/"
    alone = names_alone(one.name.removeprefix(prefix) for one in looked.left_out)
    if looked.files or not alone:
        return looked
    return _inspect_members(entry, seen.archive, spec, direct=direct, alone=alone)


def _inspect_members(
    entry: Entry, archive: str, spec: SourceSpec, *, direct: bool, alone: Collection[str]
) -> EntryFiles:
    looked = EntryFiles([], [])
    prefix = "" if direct else f"{entry.name}/"
    for member in archives.archive_members(entry, archive):
        if not isinstance(member, Entry):
            looked.left_out.append(LeftOut(name=prefix + member[0], why=member[1]))
            continue
        named = replace(member, name=prefix + member.name)
        if member.name not in alone and (why := _exclusion_reason(member.name, spec)):
            looked.left_out.append(LeftOut.of(named, why))
        else:
            _add_verdict(looked, named, sniff_file(named, peek_file(named), spec), False)
    return looked


def _add_verdict(
    looked: EntryFiles, entry: Entry, verdict: FileFacts | NoData, direct: bool
) -> None:
    if isinstance(verdict, FileFacts):
        looked.files.append(SourceFile.of(entry, verdict))
    elif direct and not verdict.elsewhere:
        hint = "ingot reads JSON, CSV, Parquet, Arrow and text"
        raise SourceError(str(entry.place), f"no data in it: {verdict.why}", hint)
    else:
        looked.left_out.append(LeftOut.of(entry, verdict.why))


# --- which files belong together

_FAMILY = {"jsonl": "JSON", "json": "JSON"}
_TABLES = ("csv", "parquet", "arrow")
_TABLE_NAME = re.compile(r"\.(csv|tsv|tab|psv|json|jsonl|ndjson)(\.\w{2,4})?$", re.IGNORECASE)
_SPLIT = re.compile(r"(?<![a-z])(?:train(?:ing)?|dev|test|valid(?:ation)?|val|eval)(?![a-z])")
# Plain text beside structured data is usually a list or a note about it, unless there is a lot.
_MOST_NOTES = 3
_WEIGHT_OF_NOTES = 0.25
_WEIGHT_OF_LISTS = 0.02
_MOST_SHARE = 0.75  # of the texts whose encoding is guessed
_DECODED_BYTES = 64 << 10


@dataclass(slots=True)
class _Group:
    """Files that are read together; `shape` is the union of theirs."""

    family: str
    shape: frozenset[str]
    files: list[SourceFile]

    @property
    def weight(self) -> float:
        size = sum(max(1, file.bytes) for file in self.files)
        if self.family != "text":
            return size
        if self.shape & frozenset(LISTS):
            return size * _WEIGHT_OF_LISTS
        return size * (_WEIGHT_OF_NOTES if len(self.files) <= _MOST_NOTES else 1.0)

    def takes(self, file: SourceFile) -> bool:
        """Whether a file has the same format and a shape that goes with the group's."""
        if _family(file) != self.family:
            return False
        shape = file.facts.shape
        fewer, common = min(len(shape), len(self.shape)), len(shape & self.shape)
        if fewer == 0 or 2 * common < fewer:
            return fewer == 0
        # Tables that share their keys only are others: books and verses, users and posts.
        return (
            file.facts.format not in _TABLES
            or 5 * common >= 4 * fewer
            or 5 * common >= 2 * len(shape | self.shape)
            or _split_pattern(file.name) == _split_pattern(self.files[0].name) is not None
        )


def _split_pattern(name: str) -> str | None:
    """What the splits of one data set are called apart from the split (`train.tsv`, `test.tsv`)."""
    bare, splits = _SPLIT.subn("*", name.rpartition("/")[2].lower())
    return bare if splits else None


def _family(file: SourceFile) -> str:
    """The format; a table that is to be read as text (`format` is stated) stays a table."""
    if file.facts.format == "text" and _TABLE_NAME.search(file.name):
        return "table"
    return _FAMILY.get(file.facts.format, file.facts.format)


def _select_main_group(
    files: Sequence[SourceFile], spec: SourceSpec
) -> tuple[tuple[SourceFile, ...], list[LeftOut]]:
    """The files of the shape with most bytes, in their order, and the others with the reason."""
    files, groups = _make_groups(files, spec)
    if not groups:
        return (), []
    main = max(groups, key=lambda group: group.weight)
    kept = {file.name for file in main.files}
    if spec.files is not None:
        kept |= {file.name for file in files if _family(file) == main.family}
    others = [file for file in files if file.name not in kept]
    left_out = [_leave_out(file, "another shape than the main files") for file in others]
    return tuple(file for file in files if file.name in kept), left_out


def group_files(
    files: Sequence[SourceFile],
) -> tuple[list[tuple[SourceFile, ...]], list[LeftOut]]:
    """The files by shape, the heaviest shape first, each group in the order of the files.

    Plain text beside structured data that weighs more is a note about it and left out; so are
    members of an archive that have another shape than most of it: an archive is read as one.
    """
    files, groups = _make_groups(files, SourceSpec())
    groups.sort(key=lambda group: -group.weight)
    kept: list[dict[str, SourceFile]] = [{} for _ in groups]
    left_out: list[LeftOut] = []
    archive_groups: dict[str, int] = {}
    for number, group in enumerate(groups):
        for file in group.files:
            archive = str(getattr(file.place, "archive", ""))
            elsewhere = archive and archive_groups.setdefault(archive, number) != number
            if elsewhere or (number and group.family == "text"):
                left_out.append(_leave_out(file, "another shape than the other files"))
            else:
                kept[number][file.name] = file
    order = {file.name: place for place, file in enumerate(files)}
    made = [tuple(sorted(one.values(), key=lambda file: order[file.name])) for one in kept]
    return [group for group in made if group], left_out


def _make_groups(
    files: Sequence[SourceFile], spec: SourceSpec
) -> tuple[list[SourceFile], list[_Group]]:
    """The files, read alike where they belong together, and their groups."""
    files = _read_single_objects_as_lines(_unify_headers(_unify_encodings(files), spec))
    groups: list[_Group] = []
    for file in sorted(files, key=lambda file: (-file.bytes, file.name)):
        group = next((group for group in groups if group.takes(file)), None)
        if group is None:
            groups.append(_Group(_family(file), file.facts.shape, [file]))
        else:
            group.files.append(file)
            group.shape |= file.facts.shape
    return files, groups


def _leave_out(file: SourceFile, why: str) -> LeftOut:
    names = sorted(file.facts.shape)
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    described = f"{file.facts.format}{f' with {shown}' if shown else ''}"
    return LeftOut.of(file, f"{why}: {described}")


def _change_facts(file: SourceFile, **facts: Any) -> SourceFile:  # noqa: ANN401
    return replace(file, facts=replace(file.facts, **facts))


def _read_single_objects_as_lines(files: Sequence[SourceFile]) -> list[SourceFile]:
    """A file of one object beside files of one object per line holds one line as well."""
    lines = [file.facts.shape for file in files if file.facts.format == "jsonl"]
    return [
        _change_facts(file, format="jsonl", layout="list")
        if file.facts.one_line and any(file.facts.shape & shape for shape in lines)
        else file
        for file in files
    ]


def _unify_encodings(files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Texts of a folder are in one encoding: a few bytes beyond ASCII do not show another one."""
    doubtful = [f for f in files if f.facts.format == "text" and "encoding" in f.facts.guessed]
    counts = Counter(file.facts.encoding for file in doubtful)
    usual, times = counts.most_common(1)[0] if counts else ("", 0)
    if len(counts) < 2 or times < _MOST_SHARE * len(doubtful):
        return files
    odd = {file.name for file in doubtful if file.facts.encoding != usual}
    return [
        _change_facts(file, encoding=usual)
        if file.name in odd and _is_decodable(file, usual)
        else file
        for file in files
    ]


def _is_decodable(file: SourceFile, encoding: str) -> bool:
    with file.open_raw() as raw:
        data = open_decompressed(raw, file.name).read(_DECODED_BYTES)
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _unify_headers(files: Sequence[SourceFile], spec: SourceSpec) -> Sequence[SourceFile]:
    """Tables of one width have all a header or none: parts of one table begin differently."""
    if spec.columns is not None:
        return files
    tables = [file for file in files if file.facts.format == "csv"]
    times = Counter(file.facts.columns for file in tables)
    headerless = {len(file.facts.columns) for file in tables if not file.facts.header}
    return [
        _drop_header(file)
        if file.facts.format == "csv"
        and file.facts.header
        and times[file.facts.columns] == 1
        and len(file.facts.columns) in headerless
        else file
        for file in files
    ]


def _drop_header(file: SourceFile) -> SourceFile:
    names = column_names([""] * len(file.facts.columns))
    guessed = file.facts.guessed | {"columns"}
    return _change_facts(file, header=False, columns=names, shape=frozenset(names), guessed=guessed)


def guessed_spec(files: Sequence[SourceFile]) -> SourceSpec:
    """The facts that a later run could guess otherwise, where all files agree on them."""
    facts = ("format", "encoding", "delimiter", "quote")
    agreed: dict[str, Any] = {fact: _agreed_fact(files, fact) for fact in facts}
    if all("columns" in file.facts.guessed for file in files):
        agreed["columns"] = _agreed_fact(files, "columns")
    return SourceSpec(**agreed)


def _agreed_fact(files: Iterable[SourceFile], fact: str) -> Any:  # noqa: ANN401
    values = {getattr(file.facts, fact) for file in files}
    some = any(fact in file.facts.guessed for file in files)
    return values.pop() if some and len(values) == 1 else None
