"""What is written: streams of Examples or ExampleBatches."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.contract import MAX_RECORD
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.framing.framing import MAX_SORT_ID, Framing
from ingot.converters.monolith.framing.writing import RecordWriter, Writable, unfit
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.batches import Batches
from ingot.converters.monolith.wire.examples import example_records
from ingot.converters.monolith.wire.indexing import chosen
from ingot.converters.monolith.wire.unknown import unfit_for_batches


class Sink(Protocol):
    """Takes rows, and gives back what it could not write of them."""

    def add(self, rows: Rows) -> list[Bad]:
        """Write rows; those that cannot be written are told."""

    def close(self) -> None:
        """Write what is left."""


def of_row(rows: Rows, at: int, reason: str, detail: str) -> Bad:
    """What is wrong with a row."""
    return Bad(
        offset=int(rows.offset[at]),
        bytes=0,
        record=int(rows.record[at]),
        row=rows.row_in_batch(at),
        reason=reason,
        detail=detail,
    )


class Examples:
    """Rows as Examples."""

    def __init__(
        self, stream: Writable, settings: Settings, compression: str, counts: Counts
    ) -> None:
        self._writer = RecordWriter(stream, settings.out_framing, "example", compression)
        self._framing = settings.out_framing
        self._counts = counts

    def add(self, rows: Rows) -> list[Bad]:
        """Write rows; those that cannot be written are told."""
        return self.write(example_records(rows), rows)

    def write(self, records: Records, rows: Rows) -> list[Bad]:
        """Write the messages of rows, one for each."""
        sizes = records.stop - records.start
        problems: dict[str, tuple[NDArray[np.bool_], Callable[[int], str]]] = {
            "size": (sizes > MAX_RECORD["example"], lambda at: f"{sizes[at]:,} bytes"),
            "empty": (sizes == 0, lambda _: "it says nothing"),
            "sort_id": (_large_sort_ids(records, self._framing), lambda _: "its sort_id"),
            "data_source_key": (unfit(records, self._framing), lambda at: _key(rows, at)),
        }
        wrong: dict[int, Bad] = {}
        for reason, (which, detail) in problems.items():
            for at in _places(which):
                wrong.setdefault(at, of_row(rows, at, reason, detail(at)))
        good = np.ones(len(rows), np.bool_)
        good[list(wrong)] = False
        if wrong:
            records = chosen(records, good)
        if len(records):
            self._writer.write(records)
        self._counts.written += len(records)
        return list(wrong.values())

    def close(self) -> None:
        """Write what compression still holds."""
        self._writer.close()


def _places(which: NDArray[np.bool_]) -> list[int]:
    return [int(at) for at in np.flatnonzero(which)]


def _large_sort_ids(records: Records, framing: Framing) -> NDArray[np.bool_]:
    large = records.sort_stop - records.sort_start > MAX_SORT_ID
    return large if framing.sort_id else np.zeros(len(records), np.bool_)


def _key(rows: Rows, at: int) -> str:
    return f"its low 8 bits are not 0: {rows.source[at]}"


class ExampleBatches:
    """Rows as ExampleBatches."""

    def __init__(
        self, stream: Writable, settings: Settings, compression: str, counts: Counts
    ) -> None:
        self._writer = RecordWriter(stream, settings.out_framing, "examplebatch", compression)
        self._batches = Batches(settings.batch_size, shared=settings.shared)
        self._framing = settings.out_framing
        self._counts = counts

    def add(self, rows: Rows) -> list[Bad]:
        """Take rows; those that no batch can hold are told."""
        wrong = {
            (bad.record, bad.row): bad for bad in [*unfit_for_batches(rows), *self._misfits(rows)]
        }
        if wrong:
            places = [(int(rows.record[at]), rows.row_in_batch(at)) for at in range(len(rows))]
            rows = rows.chosen(np.array([place not in wrong for place in places], np.bool_))
        if len(rows):
            self._write(self._batches.add(rows))
        self._counts.written += len(rows)
        return list(wrong.values())

    def _misfits(self, rows: Rows) -> list[Bad]:
        """Rows that no frame of a batch holds: large ones, of tables, and by their keys."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.stop - rows.start)])
        sizes = np.diff(ends[rows.first])
        large = sizes > MAX_RECORD["example"]
        wrong = [of_row(rows, at, "size", f"{sizes[at]:,} bytes") for at in _places(large)]
        if self._framing.sort_id:
            long = rows.sort_stop - rows.sort_start > MAX_SORT_ID
            wrong += [of_row(rows, at, "sort_id", "its sort_id") for at in _places(long)]
        if self._framing.lagrangex_header:
            low = (rows.source & np.uint32(255)) != 0
            wrong += [of_row(rows, at, "data_source_key", _key(rows, at)) for at in _places(low)]
        return wrong

    def _write(self, batches: Iterator[Records]) -> None:
        for records in batches:
            self._writer.write(records)
            self._counts.batches += 1

    def close(self) -> None:
        """Write the last batch, and what compression still holds."""
        self._write(self._batches.finish())
        self._counts.early += self._batches.early
        self._counts.filled += self._batches.filled
        self._counts.lost_sort_ids += self._batches.lost_sort_ids
        self._writer.close()
