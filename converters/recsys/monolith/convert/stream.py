"""Convert one stream: read and filter its rows, and write them as records or as a table."""

import dataclasses
import json
import operator
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.monolith.convert.settings import Counts, Filters, LabelTest, Settings
from ingot.converters.recsys.monolith.example_io import bad_record_error
from ingot.converters.recsys.monolith.frames.compression import open_decompressed, peek_bytes
from ingot.converters.recsys.monolith.frames.framing import PARQUET, Framing
from ingot.converters.recsys.monolith.frames.record_io import (
    RecordReader,
    RecordWriter,
    find_unwritable,
)
from ingot.converters.recsys.monolith.line_ids import (
    MANDATORY,
    decode_line_ids,
    find_incomplete,
    with_sample_rate,
)
from ingot.converters.recsys.monolith.record_index import Bad, Places, Records, Rows, prefix_sums
from ingot.converters.recsys.monolith.streams import read_rows, read_table_rows, read_until_error
from ingot.converters.recsys.monolith.wire.message_writer import (
    BatchBuilder,
    ExampleWriter,
    example_records,
)
from ingot.converters.recsys.monolith.wire.row_index import (
    find_unfit_for_batches,
    index_examples_and_doubled,
)
from ingot.converters.rows import read_ahead
from ingot.converters.sources.recognizers.monolith import Kind
from ingot.converters.sources.storage.listing import Entry

_UNKNOWN: Final = "an ExampleBatch would read an unknown field as one of its own"

Added = tuple[list[Bad], Callable[[], object]]
"""Rows that cannot be written, and what writes the others: called once, in the order of rows."""


class ExampleSink:
    """Rows as Examples."""

    def __init__(
        self, stream: BinaryIO, settings: Settings, compression: str, counts: Counts
    ) -> None:
        self._writer = RecordWriter(stream, settings.out_framing, "example", compression)
        self._framing = settings.out_framing
        self._counts = counts

    def add(self, rows: Rows) -> Added:
        """Take rows."""
        examples = ExampleWriter(rows)
        wrong, good = self._find_wrong(rows, examples.sizes)
        if wrong:
            rows = rows.chosen(good)
            examples = ExampleWriter(rows)
        self._count(rows)
        framed, _ = examples.frames(self._framing)
        return wrong, partial(self._writer.append, framed, len(rows))

    def add_records(self, records: Records, rows: Rows) -> Added:
        """Take the messages of rows, one for each."""
        wrong, good = self._find_wrong(rows, records.stop - records.start)
        records = records.select(good) if wrong else records
        self._count(records)
        return wrong, partial(self._writer.write, records)

    def _count(self, written: Records | Rows) -> None:
        self._counts.written += len(written)
        if not self._framing.sort_id:
            self._counts.lost_sort_ids += _count_sort_ids(written)

    def _find_wrong(self, rows: Rows, sizes: Places) -> tuple[list[Bad], NDArray[np.bool_]]:
        wrong = _bad_rows(rows, sizes, self._framing)
        for row in np.flatnonzero(sizes == 0).tolist():
            wrong[row] = rows.bad(row, "empty", "it has no fields")
        good = np.ones(len(rows), np.bool_)
        good[list(wrong)] = False
        return list(wrong.values()), good

    def close(self) -> None:
        """Write what compression still holds."""
        self._writer.close()


def _count_sort_ids(records: Records | Rows) -> int:
    return int(np.count_nonzero(records.sort_stop > records.sort_start))


def _bad_rows(rows: Rows, sizes: Places, framing: Framing) -> dict[int, Bad]:
    """Rows that no frame holds, by their places: large ones, of tables, and by their keys."""
    details: dict[str, Callable[[int], str]] = {
        "data_source_key": lambda row: f"its low 8 bits are not 0: {rows.source[row]}",
        "sort_id": lambda row: f"{rows.sort_stop[row] - rows.sort_start[row]:,} bytes",
        "size": lambda row: f"{sizes[row]:,} bytes",
    }
    unwritable = find_unwritable(rows, sizes, framing, "example")
    return {
        row: rows.bad(row, reason, detail(row))
        for reason, detail in details.items()
        for row in np.flatnonzero(unwritable[reason]).tolist()
    }


class ExampleBatchSink:
    """Rows as ExampleBatches."""

    def __init__(
        self, stream: BinaryIO, settings: Settings, compression: str, counts: Counts
    ) -> None:
        self._writer = RecordWriter(stream, settings.out_framing, "examplebatch", compression)
        self._batches = BatchBuilder(settings.batch_size, shared=settings.shared)
        self._framing = settings.out_framing
        self._counts = counts

    def add(self, rows: Rows) -> Added:
        """Take rows."""
        features = prefix_sums(rows.stop - rows.start)
        wrong = _bad_rows(rows, np.diff(features[rows.first]), self._framing)
        for row in np.flatnonzero(find_unfit_for_batches(rows)).tolist():
            wrong[row] = rows.bad(row, "unknown", _UNKNOWN)
        if wrong:
            good = np.ones(len(rows), np.bool_)
            good[list(wrong)] = False
            rows = rows.chosen(good)
        self._counts.written += len(rows)
        if not self._framing.sort_id:
            self._counts.lost_sort_ids += _count_sort_ids(rows)
        batches = self._batches.add(rows) if len(rows) else iter(())  # made as they are written
        return list(wrong.values()), partial(self._write, batches)

    def _write(self, batches: Iterator[Records]) -> None:
        for records in batches:
            self._writer.write(records)
            self._counts.batches += 1

    def close(self) -> None:
        """Write the last batch, and what compression still holds."""
        self._write(self._batches.finish())
        self._counts.early += self._batches.early
        self._counts.filled += self._batches.filled
        if self._framing.sort_id:  # else all of them were counted
            self._counts.lost_sort_ids += self._batches.lost_sort_ids
        self._writer.close()


class Sink(Protocol):
    """Takes rows."""

    def add(self, rows: Rows, /) -> Added:
        """Take rows."""

    def close(self) -> None:
        """Write what is held back."""


SINKS: Final[dict[str, type[ExampleSink] | type[ExampleBatchSink]]] = {
    "example": ExampleSink,
    "examplebatch": ExampleBatchSink,
}
"""Those of records, by what these are."""


def verbatim_records(records: Records) -> tuple[Records, Rows, list[Bad]]:
    """Return the records that are Examples, unchanged if that is correct.

    Records that have their LineId, labels or weight both in fields and in features are written
    again with the fields alone: Monolith's reader would take labels twice. So are records whose
    data_source_key is in a lagrangex header and not in the message.
    """
    rows, wrong, doubled = index_examples_and_doubled(records)
    good = np.searchsorted(records.record, rows.record)
    is_rewritten = doubled | (records.source[good] > 0)
    records = replace(records.select(good), source=rows.source)
    if is_rewritten.any():
        rewritten, positions = (
            example_records(rows.chosen(is_rewritten)),
            np.flatnonzero(is_rewritten).tolist(),
        )
        records = records.with_messages(
            {position: rewritten.message(n) for n, position in enumerate(positions)}
        )
    return records, rows, wrong


Reject = Callable[[dict[str, object]], object]  # takes a reject, as rejects.jsonl has it


def reject_writer(file: BinaryIO) -> Reject:
    """Return what appends rejects to a file, a line each."""
    return lambda document: file.write(json.dumps(document).encode() + b"\n")


_HINT = "set `skip_bad` to count what is bad and go on"


class StreamConverter:
    """One stream that is converted."""

    def __init__(
        self,
        file: Entry,
        settings: Settings,
        reject: Reject = lambda _: None,
        watch: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Convert `file`; `reject` takes what is bad, `watch` how many rows were read."""
        self._file, self._settings = file, settings
        self._where = str(file.place)
        self._reject, self._watch = reject, watch
        self.counts = Counts()
        self.first_bad: SourceError | None = None

    def write_to(self, sink: Sink) -> None:
        """Give its rows to a sink, and close that; some are written while others are read."""
        with ThreadPoolExecutor(1, "write") as writer:
            writing: Future[object] = writer.submit(lambda: None)
            for write in self._added_to(sink):
                writing.result()
                writing = writer.submit(write)
            writing.result()
        sink.close()

    def _added_to(self, sink: Sink) -> Iterator[Callable[[], object]]:
        if self._settings.is_verbatim and isinstance(sink, ExampleSink):
            yield from self._reframed(sink)
            return
        for rows in self.rows():
            wrong, write = sink.add(rows)
            for record in wrong:
                self._reject_bad(record)
            yield write

    def _reframed(self, sink: ExampleSink) -> Iterator[Callable[[], object]]:
        with self._opened() as stream, ThreadPoolExecutor(1, "read") as reader:
            for part in read_ahead(self._verbatim(stream), reader):
                if isinstance(part, Bad):
                    self._reject_bad(part, of_record=True)
                    continue
                records, rows, unread = part
                self._read(rows)
                self.counts.lacking += int(find_incomplete(decode_line_ids(rows)).sum())
                unwritten, write = sink.add_records(records, rows)
                for bads, of_record in ((unread, True), (unwritten, False)):
                    for bad in bads:
                        self._reject_bad(bad, of_record=of_record)
                yield write

    def _verbatim(self, stream: BinaryIO) -> Iterator[tuple[Records, Rows, list[Bad]] | Bad]:
        for part in self._parts(stream, "example"):
            yield part if isinstance(part, Bad) else verbatim_records(part)

    def rows(self) -> Generator[Rows, None, None]:
        """Yield and count the rows that pass the filters."""
        with closing(self._read_rows()) as parts, ThreadPoolExecutor(1, "read") as reader:
            for part in read_ahead(parts, reader):
                if isinstance(part, Bad):
                    # A record, or a row that was read and that no rows hold.
                    of_record = part.row is None and self._settings.source != "parquet"
                    self.counts.rows += not of_record
                    self._reject_bad(part, of_record=of_record)
                    continue
                self._read(part)
                rows, filters = self._with_line_ids(part), self._settings.filters
                remaining = filter_rows(filters, rows, self._file.name, self.counts.filtered)
                if len(remaining):
                    yield remaining

    def _read_rows(self) -> Generator[Rows | Bad, None, None]:
        with self._opened() as stream:
            if self._settings.source == "parquet":
                options = self._settings.table, self._settings.fid
                yield from read_table_rows(stream, self._where, *options)
            else:
                kind = self._settings.source
                yield from read_rows(self._parts(stream, kind), kind, self.counts.lost)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with self._file.place.open() as raw:
            if self._settings.source == "parquet":
                head, stream = peek_bytes(raw, self._where, len(PARQUET))
                if head != PARQUET:
                    raise SourceError(self._where, "is not a Parquet file", "check `source`")
                yield stream
            else:
                compression, kind = self._settings.compression, self._settings.source
                yield open_decompressed(raw, self._where, compression, kind)

    def _parts(self, stream: BinaryIO, kind: Kind) -> Iterator[Records | Bad]:
        reader = RecordReader(stream, self._where, self._settings.framing, kind)
        return read_until_error(reader) if self._settings.skip_bad else iter(reader)

    def _read(self, rows: Rows) -> None:
        self.counts.rows += len(rows)
        self._watch(len(rows))

    def _with_line_ids(self, rows: Rows) -> Rows:
        """Rows without those whose LineId lacks what it must have, where that is asked for."""
        lines = decode_line_ids(rows)
        lacks = find_incomplete(lines)
        self.counts.lacking += int(lacks.sum())
        if not self._settings.require_line_id or not lacks.any():
            return rows
        for row in np.flatnonzero(lacks).tolist():
            missing = ", ".join(name for name in MANDATORY if not lines.given[name][row])
            self._reject_bad(rows.bad(row, "mandatory", missing))
        return rows.chosen(~lacks)

    def _reject_bad(self, bad: Bad, *, of_record: bool = False) -> None:
        self.counts.rejected_records += of_record
        self.counts.rejected_rows += not of_record
        of_table = self._settings.source == "parquet"
        error = bad_record_error(self._where, bad, _HINT, of_table=of_table)
        if not self._settings.skip_bad:
            raise error
        self.first_bad = self.first_bad or error
        self.counts.rejects[bad.reason] += 1
        self._reject({"file": self._file.name, **dataclasses.asdict(bad)})


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def filter_rows(filters: Filters, rows: Rows, stream: str, dropped: Counter[str]) -> Rows:
    """Return the rows that are left, with the features that are left."""
    if not filters.are_any:
        return rows
    _note_matched(filters, rows)
    is_kept = np.ones(len(rows), np.bool_)
    tests = [("label", _holds(test, rows)) for test in filters.labels]
    tests += [("has", _has_feature(rows, name)) for name in filters.has]
    tests += [("lacks", ~_has_feature(rows, name)) for name in filters.lacks]
    if filters.negative_rate is not None:
        # Shares in [0, 1), random by seed, stream and a row's place in it alone.
        start = xxhash.xxh64_intdigest(stream.encode(), seed=filters.seed)
        row = np.maximum(rows.row, 0).astype(np.uint64)
        number = rows.record.astype(np.uint64) << np.uint64(20) ^ row
        mixed = _splitmix64(_splitmix64(number) + np.uint64(start)) >> np.uint64(11)
        is_sampled = (mixed.astype(np.float64) * 2.0**-53) < filters.negative_rate
        tests.append(("negative", is_sampled | ~_holds(filters.negative, rows)))
    for reason, passes in tests:
        dropped[reason] += int((is_kept & ~passes).sum())
        is_kept &= passes
    remaining = rows.chosen(is_kept, _select_features(filters, rows))
    if filters.negative_rate is None:
        return remaining
    # Negatives say with which rate they were taken, times the one that they had.
    lines = decode_line_ids(remaining)
    old_rate = np.where(lines.given["sample_rate"], lines.numbers["sample_rate"], np.float32(1))
    rate = (old_rate * np.float32(filters.negative_rate)).astype(np.float32)
    return with_sample_rate(remaining, rate, _holds(filters.negative, rows)[is_kept])


def _note_matched(filters: Filters, rows: Rows) -> None:
    names = {name.decode() for name in rows.names}
    filters.matched.update(names.intersection((*filters.has, *filters.lacks)))
    for pattern in {*filters.features, *filters.drop_features} - filters.matched:
        if any(fnmatchcase(name, pattern) for name in names):
            filters.matched.add(pattern)


def _select_features(filters: Filters, rows: Rows) -> NDArray[np.bool_]:
    is_selected = [
        (not filters.features or _matches(name, filters.features))
        and not _matches(name, filters.drop_features)
        for name in rows.names
    ]
    is_kept = np.array(is_selected, np.bool_)[rows.name]
    if filters.drop_raw:
        is_kept &= ~rows.raw
    if filters.drop_unset:
        is_kept &= rows.stop > rows.start
    return is_kept


def _matches(name: bytes, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.decode(), pattern) for pattern in patterns)


def _holds(test: LabelTest, rows: Rows) -> NDArray[np.bool_]:
    """Return bool[R]; false for rows that have no such label."""
    has_label = np.diff(rows.label_first) > test.position
    result = np.zeros(len(rows), np.bool_)
    labels = rows.label[rows.label_first[:-1][has_label] + test.position]
    result[has_label] = _COMPARE[test.compare](labels, np.float32(test.value))
    return result


def _has_feature(rows: Rows, name: str) -> NDArray[np.bool_]:
    """bool[R], which rows have a feature with a value."""
    has_name = np.array([one == name.encode() for one in rows.names], np.bool_)
    entries = has_name[rows.name] & (rows.stop > rows.start)
    result = np.zeros(len(rows), np.bool_)
    result[rows.entry_row[entries]] = True
    return result


def _splitmix64(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))
