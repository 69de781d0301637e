"""Inspect every file of a lake once, and again when it has changed; find the data sets."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from ingot import __version__
from ingot.agent.lake.lake_order import LakeOrder
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.proposing.recsys_data import raw_data_proposal
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.lake.survey import (
    SeenFile,
    Survey,
    document_folders,
    mark_records,
    survey_lake,
)
from ingot.converters.output.sharding import JobShard
from ingot.converters.output.worker_pool import Spreading, TaskFailure
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.documents.kinds import DOCUMENT
from ingot.converters.sources.facts import FileFacts, LeftOut, NoData, SourceSpec
from ingot.converters.sources.file_kinds import not_a_document, side_file_reason
from ingot.converters.sources.source import (
    EntryFiles,
    head_size,
    holds_rows_anyway,
    inspect_entry,
    names_alone,
)
from ingot.converters.sources.storage import archives
from ingot.converters.sources.storage import listing as results
from ingot.converters.sources.storage.archives import TableMember, TarMember, ZipMember
from ingot.converters.sources.storage.listing import Entry, LocalFile, Place, list_location
from ingot.converters.sources.storage.places import UnreadableName, is_local
from ingot.converters.sources.tables.table_folders import read_tables, table_reason

_CHUNK: Final = 200
_THREADS: Final = 8  # of a process that reads from afar

_RAW: Final = "recognized"
_DOCUMENTS: Final = SourceSpec(format=DOCUMENT)

Counted = Callable[[int, int], None]


class LakeListing(NamedTuple):
    """The files of a lake, those that are not looked into, and those whose name cannot be used."""

    entries: tuple[Entry, ...]
    lost: tuple[SeenFile, ...]
    left_out: tuple[LeftOut, ...]


def list_files(order: LakeOrder) -> LakeListing:
    """List the files of the lake, without those that ingot writes."""
    listing = read_tables(
        results.drop_own_results(list_location(order.root, whole=False), order.root)
    )
    local = any(is_local(entry.place) for entry in listing.entries[:1])
    own_folders = [] if not local or listing.direct else _own_folders(order)
    entries: list[Entry] = []
    lost, left_out = _sort_unreadable(listing.unreadable)
    for entry in listing.entries:
        if not _is_text(entry.name):
            name = entry.name.encode("utf-8", "replace").decode()
            left_out.append(LeftOut(name=name, why="its name is not valid UTF-8: rename it"))
        elif why := table_reason(entry.name, listing.closed):
            inspected = EntryFiles([], [LeftOut.of(entry, why)])
            lost.append(SeenFile(entry=entry, looked=inspected))
        elif not entry.name.startswith(tuple(own_folders)):
            entries.append(entry)
    return LakeListing(tuple(entries), tuple(lost), tuple(left_out))


def _sort_unreadable(
    unreadable: Sequence[UnreadableName],
) -> tuple[list[SeenFile], list[LeftOut]]:
    """Split into files that their data set lost, and what belongs to none (folders, pipes)."""
    lost: list[SeenFile] = []
    left_out: list[LeftOut] = []
    for name, why, dangling in unreadable:
        is_data = dangling and PurePosixPath(name).suffix and side_file_reason(name) is None
        if not is_data or not _is_text(name):
            left_out.append(LeftOut(name=name.encode("utf-8", "replace").decode(), why=why))
        else:
            lost.append(SeenFile(entry=Entry(name=name, place=LocalFile(name), bytes=0), fault=why))
    return lost, left_out


def _is_text(name: str) -> bool:
    """Check that a name is valid text; one in another encoding has halves of surrogate pairs."""
    return not any("\ud800" <= c <= "\udfff" for c in name)


def _own_folders(order: LakeOrder) -> list[str]:
    """Return the folders below the root that are the lake's own, each ending with `/`."""
    root = Path(order.root.removeprefix("file://")).expanduser().resolve()
    folders = [one.resolve() for one in (order.out, order.mappings)]
    for one in folders:
        if root.is_relative_to(one):
            problem = f"the data lies in it: {order.root}"
            raise OutputError(str(one), problem, "choose a folder that does not hold the data")
    below = [one.relative_to(root).as_posix() for one in folders if one.is_relative_to(root)]
    return [f"{one}/" for one in below if one != "."]


def scan_files(
    order: LakeOrder, entries: Sequence[Entry], workers: Spreading, counted: Counted
) -> Iterator[SeenFile]:
    """Yield every file and what is in it, in the given order."""
    alone = names_alone(one.name for one in entries)
    skipped = {
        one.name: why
        for one in entries
        if one.name not in alone
        and (why := side_file_reason(one.name))
        and not holds_rows_anyway(one, why)
    }
    seen = list(_scan_files(_Scan(order, SourceSpec(), workers, counted), entries, skipped))
    mark_records(seen)
    below = document_folders(seen)
    documents = [one for one in entries if one.name in below]
    skipped = {one.name: why for one in documents if (why := not_a_document(one.name))}
    rescanned = _scan_files(_Scan(order, _DOCUMENTS, workers, counted), documents, skipped)
    document_files = {
        one.entry.name: replace(one, place=below[one.entry.name]) for one in rescanned
    }
    yield from (document_files.get(one.entry.name, one) for one in seen)


def scan_part(
    order: LakeOrder, listed: LakeListing, workers: Spreading, counted: Counted
) -> list[str]:
    """Look into the files of one part of a lake; the parts that have not done theirs yet."""
    shard, entries = order.shard or JobShard(0, 1), listed.entries
    own_range = shard.own([entry.bytes or 0 for entry in entries])
    alone = names_alone(one.name for one in entries)
    mine = [
        one
        for one in entries[own_range.start : own_range.stop]
        if one.name in alone
        or (why := side_file_reason(one.name)) is None
        or holds_rows_anyway(one, why)
    ]
    scan = _Scan(order, SourceSpec(), workers, counted)
    known = order.state.files()
    new = [one for one in mine if not _is_known(one, known.get(one.name))]
    _scan_new_files(scan, new, head_size(len(entries)))
    stamps = [[one.name, _entry_stamp(one)] for one in entries]
    digest = hashlib.sha256(json.dumps(stamps).encode()).hexdigest()
    order.state.keep_note(f"{_PART}{shard}", digest, str)
    parts = (JobShard(number, shard.count) for number in range(shard.count))
    return [str(one) for one in parts if order.state.note(f"{_PART}{one}", str) != digest]


class _Scan(NamedTuple):
    """How files are looked into, and who hears of it."""

    order: LakeOrder
    spec: SourceSpec
    workers: Spreading
    counted: Counted

    def key(self, entry: Entry) -> str:
        """Return the key under which the scan remembers what a file holds when read this way."""
        return f"{entry.name}//document" if self.spec.format else entry.name


def _scan_files(
    scan: _Scan, entries: Sequence[Entry], skipped: Mapping[str, NoData]
) -> Iterator[SeenFile]:
    known = scan.order.state.files()
    new = [
        one
        for one in entries
        if one.name not in skipped and not _is_known(one, known.get(scan.key(one)))
    ]
    scanned = _scan_new_files(scan, new, head_size(len(entries)))
    for entry in entries:
        if why := skipped.get(entry.name):
            yield SeenFile(entry=entry, looked=EntryFiles([], [LeftOut.of(entry, why)]))
        elif entry.name in scanned:
            yield scanned[entry.name]
        else:
            with scan.order.state.decoding():
                seen = _decode_seen(entry, json.loads(known[scan.key(entry)][1]))
            yield seen


def _is_known(entry: Entry, known: tuple[str, str] | None) -> bool:
    """Check that what was found in a file still holds; a stamp may not show a change."""
    return entry.tells_changes and known is not None and known[0] == _entry_stamp(entry)


def _entry_stamp(entry: Entry) -> str:
    return json.dumps([__version__, entry.bytes, entry.mtime_ns, entry.etag])


_PART: Final = "part "  # notes of what files a part of a run has looked into


class _Chunk(NamedTuple):
    entries: tuple[Entry, ...]
    head: int
    spec: SourceSpec


def _scan_new_files(scan: _Scan, new: Sequence[Entry], head: int) -> dict[str, SeenFile]:
    """Inspect new files, by name; each result is kept at once."""
    scanned: dict[str, SeenFile] = {}
    retried: list[_Chunk] = []
    for chunk, seen in scan.workers.spread(_scan_chunk, _chunks(scan, new, head)):
        if isinstance(seen, TaskFailure):  # one of them takes the process with it
            retried += [chunk._replace(entries=(one,)) for one in chunk.entries]
        else:
            _remember_files(scan, seen, scanned)
        scan.counted(len(scanned), len(new))
    for chunk, seen in scan.workers.spread(_scan_chunk, retried):
        if isinstance(seen, TaskFailure):
            seen = [SeenFile(entry=chunk.entries[0], fault=seen.why)]
        _remember_files(scan, seen, scanned)
    return scanned


def _chunks(scan: _Scan, new: Sequence[Entry], head: int) -> list[_Chunk]:
    rest, size = iter(new), max(1, min(_CHUNK, -(-len(new) // scan.workers.jobs)))
    return [_Chunk(part, head, scan.spec) for part in iter(lambda: tuple(islice(rest, size)), ())]


def _remember_files(scan: _Scan, seen: Sequence[SeenFile], scanned: dict[str, SeenFile]) -> None:
    """Add and keep what was found; what could not be read is tried again each time."""
    scanned |= {one.entry.name: one for one in seen}
    scan.order.state.keep_files(
        (scan.key(one.entry), _entry_stamp(one.entry), json.dumps(_encode_seen(one)))
        for one in seen
        if not one.fault
    )


def _scan_chunk(chunk: _Chunk) -> list[SeenFile]:
    remote = not all(is_local(one.place) for one in chunk.entries)
    with archives.keep_archive_open():
        if not remote:
            return [_scan_entry(one, chunk) for one in chunk.entries]
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(lambda one: _scan_entry(one, chunk), chunk.entries))


def _scan_entry(entry: Entry, chunk: _Chunk) -> SeenFile:
    try:
        files = inspect_entry(entry, chunk.spec, direct=False, head=chunk.head)
        return SeenFile(entry=entry, looked=files)
    except SourceError as error:
        return SeenFile(entry=entry, fault=error.problem)


_LEFT_FACTS: Final = tuple(one.name for one in fields(LeftOut))
_MEMBERS: Final[dict[type[ZipMember | TarMember | TableMember], tuple[str, tuple[str, ...]]]] = {
    ZipMember: ("zip", ("member",)),
    TableMember: ("table", ("member", "number")),
    TarMember: ("tar", ("member", "number", "size", "offset")),
}


def _encode_seen(seen: SeenFile) -> Json:
    files = []
    for file in seen.looked.files:
        location = file.place
        members: list[Json] = []  # the outermost first
        while isinstance(location, ZipMember | TarMember | TableMember):
            kind, names = _MEMBERS[type(location)]
            members.insert(0, {kind: [getattr(location, name) for name in names]})
            location = location.archive
        stamps = [file.name, file.bytes, file.mtime_ns, file.etag]
        files.append({"stamps": stamps, "member": members, "facts": encode(file.facts)})
    left_out = [[getattr(one, name) for name in _LEFT_FACTS] for one in seen.looked.left_out]
    return {"files": files, "left_out": left_out}


def _decode_seen(entry: Entry, document: Json) -> SeenFile:
    files = []
    for one in document["files"]:
        name, size, mtime_ns, etag = one["stamps"]
        location, members = entry.place, one["member"] or []
        for member in members if isinstance(members, list) else [members]:  # of earlier versions
            location = _make_member(member, location)
        file = SourceFile.of(entry, decode(FileFacts, one["facts"]))
        files.append(
            replace(file, name=name, bytes=size, mtime_ns=mtime_ns, etag=etag, place=location)
        )
    left_out = [
        LeftOut(**dict(zip(_LEFT_FACTS, values, strict=False)))  # earlier versions kept less
        for values in document["left_out"]
    ]
    return SeenFile(entry=entry, looked=EntryFiles(files, left_out))


def _make_member(member: Json, archive: Place) -> Place:
    ((kind, values),) = member.items()
    member_class, names = next(
        (member_class, names) for member_class, (one, names) in _MEMBERS.items() if one == kind
    )
    values = [values] if isinstance(values, str) else values  # as earlier versions kept it
    return member_class(archive=archive, **dict(zip(names, values, strict=True)))


# --- data sets


@dataclass(frozen=True, slots=True)
class _Recognized:
    """What another command reads at a place, None = nothing, and a hash of its files."""

    digest: str
    # Not decoded before the digest says that this version wrote it.
    proposal: dict[str, Json] | None


def find_sets(order: LakeOrder, listed: LakeListing, workers: Spreading, hear: Counted) -> Survey:
    """Put files together to data sets; what other commands read is looked at if files changed."""
    known = order.state.note(_RAW, dict[str, _Recognized]) or {}
    recognized: dict[str, _Recognized] = {}

    def recognise(source: Source) -> Proposal | None:
        stamps = [[e.name, e.bytes, e.mtime_ns, e.etag] for e in source.listing.entries]
        digest = hashlib.sha256(json.dumps([__version__, stamps]).encode()).hexdigest()
        recorded = known.get(source.location)
        if recorded is None or recorded.digest != digest:
            try:
                proposal = raw_data_proposal(source)
            except SourceError:  # the data set that it belongs to says what cannot be read
                return None
            recorded = _Recognized(digest, encode(proposal) if proposal else None)
        recognized[source.location] = recorded
        return decode(Proposal, recorded.proposal) if recorded.proposal else None

    scanned = scan_files(order, listed.entries, workers, hear)
    seen = sorted([*scanned, *listed.lost], key=lambda one: one.entry.name)
    survey = survey_lake(order.root, seen, order.state.members(), recognise)
    if recognized != known:
        order.state.keep_note(_RAW, recognized, dict[str, _Recognized])
    return replace(survey, left_out=(*survey.left_out, *listed.left_out))
