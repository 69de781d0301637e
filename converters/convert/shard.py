"""One shard of a job: some files of a source become parts of records and rejects, with counts."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from uuid import uuid4

from ingot.converters.convert.result import (
    RECORDS_FOLDER,
    REJECTED_FOLDER,
    Counts,
    check_counts,
    shard_name,
)
from ingot.converters.convert.reuse import FormerShard
from ingot.converters.mapping.bind import Mapping
from ingot.converters.mapping.columns.executor import MappingExecutor, UnifiedTable
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.output.files import encode_json, file_entry, output_errors, sync_tree
from ingot.converters.progress import peak_rss
from ingot.converters.records import RecordFormat
from ingot.converters.records.schema import RecordKind
from ingot.converters.records.writers import PartsWriter, RejectWriter
from ingot.converters.rows import Batch, Json
from ingot.converters.sources import Source, SourceFile
from ingot.converters.sources.facts import hash_input

SHARD_FILE = "shard.json"


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
    former: FormerShard | None = None

    @property
    def folder(self) -> Path:
        """Where the finished shard lies."""
        return self.work / shard_name(self.number)


class _LimitedRows:
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
    """Convert a shard, or find it done, or take it over."""
    with output_errors(task.work):
        done = task.folder / SHARD_FILE
        if done.exists():
            found: dict[str, Json] = json.loads(done.read_bytes())
            return found
        draft = task.work / f".{shard_name(task.number)}-{uuid4().hex[:8]}"
        try:
            return _finish_shard(task, draft, tick)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _finish_shard(
    task: ShardTask, draft: Path, tick: Callable[[int, int], None] | None
) -> dict[str, Json]:
    shard = _reuse_former(task, draft)
    if shard is None:
        _clear_draft(draft)
        shard = _convert_rows(task, draft, tick)
    (draft / SHARD_FILE).write_bytes(encode_json(shard))
    sync_tree(draft)
    # Give the shard its name; an equal one of an orphan that was there first is as good.
    try:
        draft.rename(task.folder)
    except OSError:
        if not (task.folder / SHARD_FILE).exists():
            raise
        shutil.rmtree(draft, ignore_errors=True)
    return shard


def _clear_draft(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)
    (draft / RECORDS_FOLDER).mkdir(parents=True)
    (draft / REJECTED_FOLDER).mkdir()


def _reuse_former(task: ShardTask, draft: Path) -> dict[str, Json] | None:
    if task.former is None:
        return None
    _clear_draft(draft)
    return task.former.take(draft)


def _convert_rows(
    task: ShardTask, draft: Path, tick: Callable[[int, int], None] | None
) -> dict[str, Json]:
    started = time.monotonic()
    counts = Counts()
    reading = _LimitedRows(task)
    unifier = MappingExecutor(task.mapping, source_name=task.source_name, language=task.language)
    batches = reading.batches()
    if task.mapping.group:
        batches = group_rows(batches, task.mapping.group, folder=draft)
    kind: RecordKind = "pt" if task.mapping.kind == "pt" else "sft"
    parts = PartsWriter(draft / RECORDS_FOLDER, kind=kind, format=task.format)
    with parts, RejectWriter(draft / REJECTED_FOLDER) as rejected:
        for batch in batches:
            unified = unifier.batch(batch)
            rejects = sorted(unified.rejects, key=attrgetter("row"))
            _write_unified(parts, unified)
            rejected.write(rejects)
            counts.add_batch(unified, rejects)
            if tick:
                tick(reading.rows, counts.records["written"])
    counts.add_paths(unifier.stats.counts)
    counts.rows["read"] = reading.rows
    check_counts(counts.rows, task.source.location)
    return {
        **counts.to_document(),
        "inputs": _input_entries(task.source, reading.whole_files()),
        "parts": _part_entries(draft, RECORDS_FOLDER),
        "rejected_parts": _part_entries(draft, REJECTED_FOLDER),
        "seconds": round(time.monotonic() - started, 3),
        "peak_rss": peak_rss(),
    }


def _write_unified(parts: PartsWriter, unified: UnifiedBatch | UnifiedTable) -> None:
    if isinstance(unified, UnifiedTable):
        parts.write_batch(unified.table)
    else:
        parts.write(unified.records)


def _part_entries(draft: Path, folder: str) -> list[dict[str, Json]]:
    files = sorted((draft / folder).iterdir())
    return [file_entry(draft, path.relative_to(draft)) for path in files]


def _input_entries(source: Source, whole: list[SourceFile]) -> list[dict[str, Json]]:
    hashed = {file.name for file in whole}
    return [
        {
            "name": file.name,
            "bytes": file.bytes,
            "sha256": hash_input(file) if file.name in hashed else None,
        }
        for file in source.files
    ]


def discard_drafts(work: Path) -> None:
    """Delete what dead workers left half written."""
    for draft in work.glob(".*"):
        shutil.rmtree(draft, ignore_errors=True)
        if draft.is_file():
            draft.unlink()
