"""One shard of a job: some files of a source become parts of records and rejects, with counts."""

import gc
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Lookup
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypedDict, TypeVar, cast

from ingot.converters.convert import result as results
from ingot.converters.convert.result import Counts, CountsDocument, ShardDocument
from ingot.converters.mapping.columns.executor import MappingExecutor, UnifiedTable
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.mapping.signs import SignFinder
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import (
    FileEntry,
    InputEntry,
    file_entry,
)
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.pieces import PiecePlace, piece_name
from ingot.converters.progress import peak_rss
from ingot.converters.records import RecordFormat
from ingot.converters.records.writers import (
    PartsWriter,
    RejectWriter,
    first_reject_texts,
    part_name,
    part_order,
)
from ingot.converters.rows import Batch, NonFinite, add_non_finite, count_non_finite
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import (
    FileFacts,
    absolute_location,
    input_entry,
    input_stamp,
    unchanged_files,
)

T = TypeVar("T")
Tick = Callable[[int, int], None]  # is told the rows read and the records written


@dataclass(frozen=True, kw_only=True)
class FormerShard:
    """What a former result holds of a shard; `counts` are those of its `Piece`."""

    folder: Path
    counts: CountsDocument
    inputs: list[InputEntry]
    parts: list[FileEntry]
    rejected_parts: list[FileEntry]

    def take(self, draft: Path) -> ShardDocument | None:
        """Put the parts into a shard's folder, numbered from 0; None if one is not what it was."""
        parts = self._taken(draft, self.parts)
        rejected = self._taken(draft, self.rejected_parts)
        if parts is None or rejected is None:
            return None
        return {
            **self.counts,
            "etags": {},
            "first_rejects": self._first_rejects(),
            "inputs": self.inputs,
            "parts": parts,
            "rejected_parts": rejected,
            "seconds": 0.0,
            "peak_rss": 0,
            "taken_over": True,
        }

    def _first_rejects(self) -> list[str]:
        if not any(self.counts["rejects"].values()):
            return []
        files = [self.folder / part["path"] for part in self.rejected_parts]
        return first_reject_texts(files, results.SHOWN_REJECTS)

    def _taken(self, draft: Path, parts: list[FileEntry]) -> list[FileEntry] | None:
        entries: list[FileEntry] = []
        for number, part in enumerate(parts):
            old = PurePosixPath(part["path"])
            new = old.with_name(part_name(number, old.suffix.lstrip(".")))
            if not _link_part(self.folder, part, draft / new):
                return None
            entries.append(
                {"path": new.as_posix(), "bytes": part["bytes"], "sha256": part["sha256"]}
            )
        return entries


def _link_part(folder: Path, part: FileEntry, new: Path) -> bool:
    """Link a part to `new`; False if it is gone or not what it was."""
    try:
        if file_entry(folder, Path(part["path"])) != part:
            return False
    except OSError:  # gone, or not readable any more: the shard is converted
        return False
    try:
        os.link(folder / part["path"], new)
    except OSError:  # a file system without links, or no more of them
        shutil.copyfile(folder / part["path"], new)
    return True


PIECES: Final = "pieces"
_FACTS: Final = tuple(one.name for one in fields(FileFacts))


def shard_key(source: Source, files: Sequence[SourceFile]) -> str | None:
    """Return the key of a shard, None if a change of a file would not show."""
    if any(file.mtime_ns is None and file.etag is None for file in files):
        return None
    known = [
        [input_stamp(file), _file_facts(file), file.piece and asdict(file.piece)] for file in files
    ]
    digest = hashlib.sha256(json.dumps([absolute_location(source.location), known]).encode())
    return digest.hexdigest()


def _file_facts(file: SourceFile) -> dict[str, object]:
    facts = ((name, getattr(file.facts, name)) for name in _FACTS)
    return {name: sorted(one) if isinstance(one, frozenset) else one for name, one in facts}


class Piece(TypedDict):
    """A shard of a result: its key, how many of the result's files are its own, its counts."""

    key: str | None
    inputs: int
    parts: int
    rejected_parts: int
    counts: CountsDocument


_COUNTS: Final = CountsDocument.__annotations__.keys() - {"first_rejects"}


def reusable_shards(keys: Sequence[str | None], shards: Sequence[ShardDocument]) -> list[Piece]:
    """Return the pieces of a result for run.json: the key and the outcome of each shard."""
    return [
        {
            "key": key,
            "inputs": len(shard["inputs"]),
            "parts": len(shard["parts"]),
            "rejected_parts": len(shard["rejected_parts"]),
            "counts": cast(
                "CountsDocument", {name: one for name, one in shard.items() if name in _COUNTS}
            ),
        }
        for key, shard in zip(keys, shards, strict=True)
    ]


def former_shards(former: FinishedResult | None, identity: RunIdentity) -> dict[str, FormerShard]:
    """Return by key the shards of a finished result that a run may reuse."""
    if former is None:
        return {}
    try:
        if not _has_same_options(former.manifest, identity):
            return {}
        pieces = dict(_parse_former(former))
        complete = _adds_up(former, list(pieces.values()))
    except (KeyError, TypeError, ValueError, AttributeError):  # damaged files are nobody's promise
        return {}
    return {key: piece for key, piece in pieces.items() if key} if complete else {}


def _has_same_options(manifest: Lookup[str, Any], identity: RunIdentity) -> bool:
    """Whether the result was made the same way, but for the tokenizer, and of all rows."""
    ours, theirs = identity.settled, {name: manifest[name] for name in identity.settled}
    if not isinstance(theirs["options"], dict) or ours["options"]["limit"] is not None:
        return False
    ours, theirs = (
        {**one, "options": {**one["options"], "tokenizer": None}} for one in (ours, theirs)
    )
    return ours == theirs


def _parse_former(former: FinishedResult) -> Iterator[tuple[str, FormerShard]]:
    inputs = iter(former.manifest["inputs"])
    parts = {
        folder: iter(_folder_parts(former, folder))
        for folder in (results.RECORDS_FOLDER, results.REJECTED_FOLDER)
    }
    for one in former.run[PIECES]:
        yield (
            one["key"] or "",
            FormerShard(
                folder=former.folder,
                counts=one["counts"],
                inputs=_take_entries(inputs, one["inputs"]),
                parts=_take_entries(parts[results.RECORDS_FOLDER], one["parts"]),
                rejected_parts=_take_entries(parts[results.REJECTED_FOLDER], one["rejected_parts"]),
            ),
        )


def _take_entries(entries: Iterator[T], count: int) -> list[T]:
    taken = list(islice(entries, count))
    if len(taken) != count:
        raise ValueError("fewer files than the shards have")
    return taken


def _folder_parts(former: FinishedResult, folder: str) -> list[FileEntry]:
    """The parts of a folder by shard and number."""
    files = former.manifest["files"]
    in_folder = [one for one in files if PurePosixPath(one["path"]).parent.name == folder]
    return sorted(in_folder, key=lambda one: part_order(PurePosixPath(one["path"]).name))


def _adds_up(former: FinishedResult, pieces: Sequence[FormerShard]) -> bool:
    """Whether the pieces add up to what the manifest says."""
    manifest, counts = former.manifest, Counts()
    for piece in pieces:
        counts.add(piece.counts)
    records = sum(len(piece.parts) for piece in pieces)
    inputs = sum(len(piece.inputs) for piece in pieces)
    return (
        len(pieces) == len(former.run[PIECES])  # no key is there twice
        and records == len(_folder_parts(former, results.RECORDS_FOLDER))
        and inputs == len(manifest["inputs"])
        and {name: counts.rows[name] for name in results.ROW_COUNTS} == manifest["rows"]
        and {name: counts.records[name] for name in results.RECORD_COUNTS} == manifest["records"]
        and dict(counts.rejects) == manifest["rejects"]
        and dict(counts.meta) == manifest["warnings"]["meta"]
        and counts.rare_entries().items() <= manifest["warnings"].items()
    )


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a worker is told: its files (those of `source`), what to do with them, and where."""

    number: int
    source: Source
    mapping: Mapping
    source_name: str
    language: str | None
    format: RecordFormat
    limit: int | None  # of the rows that are read
    pieces: PiecePlace  # where the finished shard goes
    former: FormerShard | None = None  # what a former result holds of the same shard
    hashes: bool = False  # the first piece of a file also hashes the file


class _LimitedRows:
    """The rows of a shard, counted, and cut at its limit."""

    def __init__(self, task: ShardTask) -> None:
        self._task = task
        self.rows = 0
        self.stopped_in: str | None = None
        self.non_finite: NonFinite | None = None

    def batches(self) -> Iterator[Batch]:
        for batch in self._task.source.batches():
            remaining = None if self._task.limit is None else self._task.limit - self.rows
            size = len(batch.values) + len(batch.bad)
            if remaining is not None and size >= remaining:
                self.rows += remaining
                self.stopped_in = batch.file
                yield self._count(first_rows(batch, remaining))
                return
            self.rows += size
            yield self._count(batch)

    def _count(self, batch: Batch) -> Batch:
        counts = count_non_finite((batch.file, row, count) for row, count in batch.non_finite)
        self.non_finite = add_non_finite(self.non_finite, counts)
        return batch

    def whole_files(self) -> list[SourceFile]:
        """Return the files that were read to their end."""
        files = list(self._task.source.files)
        names = [file.name for file in files]
        return files if self.stopped_in is None else files[: names.index(self.stopped_in)]


def first_rows(batch: Batch, count: int) -> Batch:
    """Return the first `count` rows of a batch, readable or not, in the order of the file."""
    numbers = sorted([*batch.rows, *(bad.row for bad in batch.bad)])
    if count >= len(numbers):
        return batch
    end = numbers[count]
    positions = [position for position, row in enumerate(batch.rows) if row < end]
    bad = [bad for bad in batch.bad if bad.row < end]
    non_finite = [one for one in batch.non_finite if one[0] < end]
    return replace(batch.take(positions, bad), non_finite=non_finite)


def convert_shard(task: ShardTask, tick: Tick | None = None) -> ShardDocument:
    """Convert a shard, or find it done, or take it over."""

    def name_files(shard: ShardDocument) -> Iterator[tuple[str, str]]:
        for parts in (shard["parts"], shard["rejected_parts"]):
            for part, name in results.final_names(task.number, parts):
                yield part["path"], name

    name = piece_name(task.number)
    return task.pieces.do_piece(name, lambda draft: _make_shard(task, draft, tick), name_files)


def _make_shard(task: ShardTask, draft: Path, tick: Tick | None) -> ShardDocument:
    _clear_draft(draft)
    shard = task.former.take(draft) if task.former else None
    if shard is None:
        _clear_draft(draft)
        with unchanged_files(task.source.files):
            shard = _convert_rows(task, draft, tick)
    return shard


def _clear_draft(draft: Path) -> None:
    for folder in (results.RECORDS_FOLDER, results.REJECTED_FOLDER):
        shutil.rmtree(draft / folder, ignore_errors=True)
        (draft / folder).mkdir()


def _convert_rows(task: ShardTask, draft: Path, tick: Tick | None) -> ShardDocument:
    started = time.monotonic()
    counts = Counts()
    reading = _LimitedRows(task)
    unifier = MappingExecutor(task.mapping, source_name=task.source_name, language=task.language)
    finder = SignFinder(task.mapping)
    batches = reading.batches()
    if task.mapping.group:
        batches = group_rows(batches, task.mapping.group, folder=draft)
    parts = PartsWriter(draft / results.RECORDS_FOLDER, kind=unifier.kind, format=task.format)
    with _collected_by_hand(), parts, RejectWriter(draft / results.REJECTED_FOLDER) as rejected:
        for batch in batches:
            rejects = []
            finder.look(batch)
            for number, unified in enumerate(unifier.parts(batch)):
                if isinstance(unified, UnifiedTable):
                    parts.write_batch(unified.table, same_part=number > 0)
                else:
                    parts.write(unified.records, same_part=number > 0)
                counts.add_outcome(unified)
                finder.add(unified)
                rejects += unified.rejects
            counts.add_signs(batch, finder.found)
            rejects.sort(key=attrgetter("row"))
            rejected.write(rejects)
            counts.add_rejects(rejects)
            if tick:
                tick(reading.rows, counts.records["written"])
            del batch, unified, rejects
            gc.collect(1)  # errors of rows hold their frames in circles
    counts.add_stats(unifier.stats)
    counts.rows["read"] = reading.rows
    counts.non_finite = reading.non_finite
    results.check_counts(counts.rows, task.source.location)
    return {
        **counts.to_document(),
        "etags": {},
        "inputs": _input_entries(task, reading.whole_files()),
        "parts": _part_entries(draft, results.RECORDS_FOLDER),
        "rejected_parts": _part_entries(draft, results.REJECTED_FOLDER),
        "seconds": round(time.monotonic() - started, 3),
        "peak_rss": peak_rss(),
        "taken_over": False,
    }


@contextmanager
def _collected_by_hand() -> Iterator[None]:
    """Keep the collector of cycles from looking through rows again and again: JSON has none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _part_entries(draft: Path, folder: str) -> list[FileEntry]:
    files = sorted((draft / folder).iterdir())
    return [file_entry(draft, path.relative_to(draft)) for path in files]


def _input_entries(task: ShardTask, files: list[SourceFile]) -> list[InputEntry]:
    hashed = {file.name for file in files}
    return [
        input_entry(file)
        if file.name in hashed
        else {"name": file.name, "bytes": file.bytes, "sha256": None}
        for file in task.source.files
        if file.piece is None or (task.hashes and file.piece.start == 0)
    ]


def discard_drafts(work: Path) -> None:
    """Delete what dead workers left half written."""
    for draft in work.glob(".*"):
        shutil.rmtree(draft, ignore_errors=True)
        if draft.is_file():
            draft.unlink()
