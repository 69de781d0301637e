"""One shard of a job: some files of a source to parts of records and rejects, and their counts.

A shard's folder appears whole, in one rename, with `shard.json` in it; so a run that is taken up
again keeps every shard that it finds.
"""

import hashlib
import json
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from uuid import uuid4

from ingot.converters.columnar import ColumnarUnified
from ingot.converters.commit import encode, sync_tree, writing
from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.executors import AnyUnifier
from ingot.converters.group import grouped
from ingot.converters.mapping import Mapping
from ingot.converters.pieces import SHOWN_REJECTS, Piece
from ingot.converters.readers import Source, SourceFile
from ingot.converters.record_kinds import RecordKind
from ingot.converters.record_parts import PartsWriter
from ingot.converters.records import RecordFormat, RejectWriter
from ingot.converters.reject_texts import reject_text
from ingot.converters.rows import Batch, Json, Reject
from ingot.converters.unify import Unified

SHARD = "shard.json"
RECORDS = "records"
REJECTED = "rejected"
_HASH_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a worker is told: its files (those of `source`), what to do with them, and where.

    `limit` bounds the rows read of this shard; `work` is the folder in which the shard's own folder
    `NUMBER` appears; `former` is what a former result holds of the same shard.
    """

    number: int
    source: Source
    mapping: Mapping
    source_name: str
    language: str | None
    format: RecordFormat
    limit: int | None
    work: Path
    former: Piece | None = None

    @property
    def folder(self) -> Path:
        """Where the finished shard lies."""
        return self.work / shard_name(self.number)


def shard_name(number: int) -> str:
    """The name of a finished shard's folder."""
    return f"{number:06d}"


@dataclass(kw_only=True)
class Counts:
    """What came of the rows so far; adds up over shards."""

    rows: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    meta: Counter[str] = field(default_factory=Counter)
    paths: dict[str, list[int]] = field(default_factory=dict)
    first_rejects: list[str] = field(default_factory=list)

    def add_batch(self, unified: Unified | ColumnarUnified, rejects: list[Reject]) -> None:
        """Count one batch and its rejects, in the order of the file."""
        self.rows["converted"] += unified.converted
        self.rows["rejected"] += unified.rejected
        self.rows["filtered"] += unified.filtered
        self.records["written"] += unified.written
        self.records["ragged"] += unified.ragged
        self.meta.update(unified.meta_failures)
        for reject in rejects:
            if reject.reason == "filtered":
                self.records["filtered"] += 1
                continue
            self.records["rejected"] += 1
            self.rejects[reject.reason] += 1
            if len(self.first_rejects) < SHOWN_REJECTS:
                self.first_rejects.append(reject_text(reject))

    def add_paths(self, paths: dict[str, list[int]]) -> None:
        """Add [looked up, missing, null] per path."""
        for path, counts in paths.items():
            known = self.paths.get(path, [0, 0, 0])
            self.paths[path] = [a + b for a, b in zip(known, counts, strict=True)]

    def add(self, shard: dict[str, Json]) -> None:
        """Add the counts of a shard, as `to_document` gave them."""
        self.rows.update(shard["rows"])
        self.records.update(shard["records"])
        self.rejects.update(shard["rejects"])
        self.meta.update(shard["meta"])
        self.add_paths(shard["paths"])
        room = SHOWN_REJECTS - len(self.first_rejects)
        self.first_rejects += shard["first_rejects"][:room]

    def to_document(self) -> dict[str, Json]:
        """The counts as JSON, in the order in which a file of sorted keys gives them back."""
        return {
            "rows": dict(sorted(self.rows.items())),
            "records": dict(sorted(self.records.items())),
            "rejects": dict(sorted(self.rejects.items())),
            "meta": dict(sorted(self.meta.items())),
            "paths": dict(sorted(self.paths.items())),
            "first_rejects": self.first_rejects,
        }


def file_entry(folder: Path, path: Path) -> dict[str, Json]:
    """A file as manifests list it: `path` (relative to `folder`), its bytes and its SHA-256."""
    with (folder / path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"path": path.as_posix(), "bytes": stream.tell(), "sha256": digest}


def input_sha256(source: Source, file: SourceFile) -> str:
    """The SHA-256 of an input file's bytes as stored, streamed.

    Raises:
        SourceError: it cannot be read, or is not as long as it was when the source was opened.
    """
    digest = hashlib.sha256()
    size = 0
    with source.open_raw(file) as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
            size += len(block)
    if file.bytes and size != file.bytes:
        problem = f"changed while it was read: {size} bytes now, {file.bytes} before"
        raise SourceError(file.name, problem, "run again when nothing writes to it")
    return digest.hexdigest()


class _Reading:
    """The rows of a shard, counted, and cut at its limit."""

    def __init__(self, task: ShardTask) -> None:
        self._task = task
        self.rows = 0
        self.stopped_in: str | None = None

    def batches(self) -> Iterator[Batch]:
        for batch in self._task.source.batches():
            left = None if self._task.limit is None else self._task.limit - self.rows
            size = len(batch.values) + len(batch.bad)
            if left is not None and size >= left:
                self.rows += left
                self.stopped_in = batch.file
                yield first_rows(batch, left)
                return
            self.rows += size
            yield batch

    def whole_files(self) -> list[SourceFile]:
        """The files that were read to their end."""
        files = list(self._task.source.files)
        names = [file.name for file in files]
        return files if self.stopped_in is None else files[: names.index(self.stopped_in)]


def first_rows(batch: Batch, count: int) -> Batch:
    """The first `count` rows of a batch, readable or not, in the order of the file."""
    numbers = sorted([*batch.rows, *(bad.row for bad in batch.bad)])
    if count >= len(numbers):
        return batch
    end = numbers[count]
    kept = [place for place, row in enumerate(batch.rows) if row < end]
    return Batch(
        file=batch.file,
        rows=[batch.rows[place] for place in kept],
        values=[batch.values[place] for place in kept],
        keys=[batch.keys[place] for place in kept] if batch.keys is not None else None,
        bad=[bad for bad in batch.bad if bad.row < end],
    )


def convert_shard(
    task: ShardTask, tick: Callable[[int, int], None] | None = None
) -> dict[str, Json]:
    """Convert a shard, or find it done, or take it over.

    Args:
        task: files, mapping, options, place.
        tick: called after each batch with the rows read and records written so far.

    Returns:
        what `shard.json` holds: counts, inputs (name, bytes, sha256), parts (path, rows, bytes,
        sha256), seconds, peak_rss (bytes), taken_over (only if it was).

    Raises:
        SourceError: a file cannot be read to its end.
        OutputError: the parts cannot be written.
        ConversionError: a record does not fit its schema.
    """
    with writing(task.work):
        done = task.folder / SHARD
        if done.exists():
            found: dict[str, Json] = json.loads(done.read_bytes())
            return found
        draft = task.work / f".{shard_name(task.number)}-{uuid4().hex[:8]}"
        try:
            return _converted(task, draft, tick)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _converted(
    task: ShardTask, draft: Path, tick: Callable[[int, int], None] | None
) -> dict[str, Json]:
    shard = _taken_over(task, draft)
    if shard is None:
        _begin(draft)
        shard = _convert(task, draft, tick)
    (draft / SHARD).write_bytes(encode(shard))
    sync_tree(draft)
    _place(draft, task.folder)
    return shard


def _begin(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)
    (draft / RECORDS).mkdir(parents=True)
    (draft / REJECTED).mkdir()


def _taken_over(task: ShardTask, draft: Path) -> dict[str, Json] | None:
    if task.former is None:
        return None
    _begin(draft)
    return task.former.take(draft)


def _place(draft: Path, folder: Path) -> None:
    """Give the shard its name; an equal one of an orphan that was there first is as good."""
    try:
        draft.rename(folder)
    except OSError:
        if not (folder / SHARD).exists():
            raise
        shutil.rmtree(draft, ignore_errors=True)


def _convert(
    task: ShardTask, draft: Path, tick: Callable[[int, int], None] | None
) -> dict[str, Json]:
    started = time.monotonic()
    counts = Counts()
    reading = _Reading(task)
    unifier = AnyUnifier(task.mapping, source_name=task.source_name, language=task.language)
    batches = reading.batches()
    if task.mapping.group:
        batches = grouped(batches, task.mapping.group, folder=draft)
    kind: RecordKind = "pt" if task.mapping.kind == "pt" else "sft"
    parts = PartsWriter(draft / RECORDS, kind=kind, format=task.format)
    with parts, RejectWriter(draft / REJECTED) as rejected:
        for batch in batches:
            unified = unifier.batch(batch)
            rejects = sorted(unified.rejects, key=attrgetter("row"))
            _write(parts, unified)
            rejected.write(rejects)
            counts.add_batch(unified, rejects)
            if tick:
                tick(reading.rows, counts.records["written"])
    counts.add_paths(unifier.stats.counts)
    counts.rows["read"] = reading.rows
    check_sum(counts.rows, task.source.location)
    return {
        **counts.to_document(),
        "inputs": _inputs(task.source, reading.whole_files()),
        "parts": _entries(draft, RECORDS),
        "rejected_parts": _entries(draft, REJECTED),
        "seconds": round(time.monotonic() - started, 3),
        "peak_rss": peak_rss(),
    }


def _write(parts: PartsWriter, unified: Unified | ColumnarUnified) -> None:
    if isinstance(unified, ColumnarUnified):
        parts.write_batch(unified.table)
    else:
        parts.write(unified.records)


def _entries(draft: Path, folder: str) -> list[dict[str, Json]]:
    files = sorted((draft / folder).iterdir())
    return [file_entry(draft, path.relative_to(draft)) for path in files]


def check_sum(rows: Counter[str], where: str) -> None:
    """Hold the job to its accounting.

    Raises:
        ConversionError: rows are missing from the counts, which is a bug of ingot, never of data.
    """
    accounted = rows["converted"] + rows["rejected"] + rows["filtered"]
    if rows["read"] != accounted:
        problem = f"{rows['read']} rows read but {accounted} accounted for"
        raise ConversionError(where, problem, "this is a bug of ingot: please report it")


def _inputs(source: Source, whole: list[SourceFile]) -> list[dict[str, Json]]:
    hashed = {file.name for file in whole}
    return [
        {
            "name": file.name,
            "bytes": file.bytes,
            "sha256": input_sha256(source, file) if file.name in hashed else None,
        }
        for file in source.files
    ]


def peak_rss() -> int:
    """The most memory that this process has held, in bytes."""
    with suppress(OSError):  # only Linux has it; what getrusage tells there may be the parent's
        status = Path("/proc/self/status").read_text("ascii", "replace")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def discard_drafts(work: Path) -> None:
    """Delete what dead workers left half written."""
    for draft in work.glob(".*"):
        shutil.rmtree(draft, ignore_errors=True)
        if draft.is_file():
            draft.unlink()
