"""What is written: streams of Examples or ExampleBatches."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.contract import MAX_RECORD
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.settings import Settings
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
        large, empty = sizes > MAX_RECORD["example"], sizes == 0
        misfit = unfit(records, self._framing)
        wrong = [
            *(of_row(rows, at, "size", f"{sizes[at]:,} bytes") for at in _places(large)),
            *(of_row(rows, at, "empty", "it says nothing") for at in _places(empty)),
            *(of_row(rows, at, "data_source_key", _key(rows, at)) for at in _places(misfit)),
        ]
        good = ~(large | empty | misfit)
        if wrong:
            records = chosen(records, good)
        if len(records):
            self._writer.write(records)
        self._counts.written += len(records)
        return wrong

    def close(self) -> None:
        """Write what compression still holds."""
        self._writer.close()


def _places(which: NDArray[np.bool_]) -> list[int]:
    return [int(at) for at in np.flatnonzero(which)]


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
        low = (rows.source & np.uint32(255)) != 0
        if not self._framing.lagrangex_header:
            return []
        return [of_row(rows, at, "data_source_key", _key(rows, at)) for at in _places(low)]

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
