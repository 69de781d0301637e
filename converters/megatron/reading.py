"""The rows of a unit, batch by batch: text columns of any Parquet file, or unified records.

Only the columns that are needed are decoded, in batches bounded by the bytes of their texts. What
cannot be read is a `SourceError` that names the file; the file counts as failed then.
"""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import SourceError
from ingot.converters.megatron.layouts import Layout, check_fits, check_same, readable
from ingot.converters.megatron.units import InputFile, Unit, opened
from ingot.converters.records import read_batches

BATCH_BYTES: Final = 4 << 20  # of decoded text
JSONL_ROWS: Final = 1_024
# Rows are decoded few at a time and put together by their size: the sizes in a file are those of
# all rows of a row group together, and say nothing at all where equal texts are stored once.
_DECODED_BYTES: Final = 256 << 10
_DICTIONARY_ROWS: Final = 256
_PAGE_BYTES: Final = 1 << 20  # read at a time; else a whole column of a row group would be
_WAITING: Final = 4  # decoded batches per row group that is read ahead
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Consecutive rows of a file.

    Attributes:
        first: number of the first, from 0.
        table: their columns, as the layout names them.
        row_group: where they lie, None where the file has none.
        read: bytes of the file that they stand for.
    """

    first: int
    table: pa.RecordBatch
    row_group: int | None
    read: int


def read_rows(
    file: InputFile, unit: Unit, layout: Layout, *, batch_size: int, ahead: int = 1
) -> Iterator[Rows]:
    """The rows of a unit, in order.

    Args:
        file: the file.
        unit: which part of it.
        layout: what to read.
        batch_size: rows per batch, at most.
        ahead: row groups that are decoded at once.

    Raises:
        SourceError: it cannot be read to its end, or has changed since it was listed.
    """
    check_same(file)
    if file.path.suffix == ".jsonl":
        yield from _jsonl_rows(file, layout, batch_size)
        return
    with readable(file):
        with opened(file) as source, pq.ParquetFile(source) as parquet:
            check_fits(parquet.schema_arrow, layout, file)
            metadata = parquet.metadata
        groups = range(*(unit.row_groups or (0, metadata.num_row_groups)))
        jobs = [_Group(file, metadata, layout, group, batch_size) for group in groups]
        first, share = unit.first_row, unit.bytes / max(1, sum(job.rows for job in jobs))
        for group, batch in _in_turn(jobs, ahead):
            yield Rows(
                first=first, table=batch, row_group=group, read=round(share * batch.num_rows)
            )
            first += batch.num_rows
    check_same(file)


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group that is to be decoded."""

    file: InputFile
    metadata: pq.FileMetaData
    layout: Layout
    group: int
    batch_size: int

    @property
    def rows(self) -> int:
        count: int = self.metadata.row_group(self.group).num_rows
        return count

    def batches(self) -> Iterator[pa.RecordBatch]:
        with (
            readable(self.file),
            opened(self.file) as source,
            pq.ParquetFile(
                source, metadata=self.metadata, pre_buffer=False, buffer_size=_PAGE_BYTES
            ) as parquet,
        ):
            few = parquet.iter_batches(
                batch_size=self._few(),
                row_groups=[self.group],
                columns=list(dict.fromkeys(self.layout.columns)),
                use_threads=False,
            )
            for batch in _together(few, self.batch_size):
                yield batch.select(list(self.layout.columns))

    def _few(self) -> int:
        """Rows whose texts take about `_DECODED_BYTES`, going by the sizes of their columns."""
        facts = self.metadata.row_group(self.group)
        chunks = [facts.column(i) for i in range(facts.num_columns)]
        own = [chunk for chunk in chunks if self._reads(chunk.path_in_schema)]
        size = sum(chunk.total_uncompressed_size for chunk in own)
        rows = max(1, _DECODED_BYTES * max(1, facts.num_rows) // max(1, size))
        if any("DICTIONARY" in coding for chunk in own for coding in chunk.encodings):
            rows = min(rows, _DICTIONARY_ROWS)
        return int(min(rows, self.batch_size))

    def _reads(self, path: str) -> bool:
        return path in self.layout.columns or path.split(".")[0] in self.layout.columns


def _together(few: Iterator[pa.RecordBatch], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Batches of about `BATCH_BYTES`, and no more than `batch_size` rows."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in few:
        if held and (rows + batch.num_rows > batch_size or size + batch.nbytes > BATCH_BYTES):
            yield _one(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        del batch  # it may be the one that does not fit into the memory twice
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (together,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together


def _in_turn(jobs: list[_Group], ahead: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of all row groups in order, with up to `ahead` of them decoded at once."""
    if ahead <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield from ((job.group, batch) for batch in job.batches())
        return
    stop = threading.Event()
    running: list[_Decoding] = []
    with ThreadPoolExecutor(ahead) as pool:
        try:
            for place, job in enumerate(jobs):
                while len(running) < min(ahead, len(jobs) - place):
                    running.append(_Decoding(jobs[place + len(running)], stop, pool))
                yield from ((job.group, batch) for batch in running.pop(0).batches())
        finally:
            stop.set()


class _Decoding:
    """A row group that a thread of its own decodes, a few batches ahead."""

    def __init__(self, job: _Group, stop: threading.Event, pool: ThreadPoolExecutor) -> None:
        self._stop = stop
        self._queue: queue.Queue[pa.RecordBatch | None] = queue.Queue(_WAITING)
        self._done = pool.submit(self._decode, job)

    def _decode(self, job: _Group) -> None:
        try:
            for batch in job.batches():
                self._put(batch)
                if self._stop.is_set():
                    return
        finally:
            self._put(None)

    def _put(self, item: pa.RecordBatch | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches as they come."""
        while (item := self._queue.get()) is not None:
            yield item
        self._done.result()


def _jsonl_rows(file: InputFile, layout: Layout, batch_size: int) -> Iterator[Rows]:
    first = 0
    with readable(file):
        for batch in read_batches([file.path], rows=min(batch_size, JSONL_ROWS)):
            if not set(layout.columns) <= set(batch.schema.names):
                raise SourceError(
                    str(file.path),
                    "holds records of another kind than the first file",
                    "build one data set of each kind",
                )
            table = batch.select(list(layout.columns))
            yield Rows(first=first, table=table, row_group=None, read=0)
            first += batch.num_rows
    yield Rows(first=first, table=pa.RecordBatch.from_pydict({}), row_group=None, read=file.bytes)
