"""What is written: streams of Examples or ExampleBatches."""

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.contract import MAX_RECORD
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.framing.framing import MAX_SORT_ID, Framing
from ingot.converters.monolith.framing.writing import RecordWriter, Writable
from ingot.converters.monolith.records import Bad, Places, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.batches import Batches
from ingot.converters.monolith.wire.examples import example_records
from ingot.converters.monolith.wire.indexing import chosen
from ingot.converters.monolith.wire.unknown import unfit_for_batches

_UNKNOWN: Final = "an unknown field has the number of one that an ExampleBatch knows"


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
        wrong = _unwritable(rows, sizes, self._framing)
        for at in _places(sizes == 0):
            wrong[at] = of_row(rows, at, "empty", "it says nothing")
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


def _unwritable(rows: Rows, sizes: Places, framing: Framing) -> dict[int, Bad]:
    """Rows that no frame holds, by their places: large ones, of tables, and by their keys.

    Args:
        rows: R rows.
        sizes: int64[R], bytes of each.
        framing: of what is written.
    """
    wrong: dict[int, Bad] = {}
    if framing.lagrangex_header:
        for at in _places((rows.source & np.uint32(255)) != 0):
            found = f"its low 8 bits are not 0: {rows.source[at]}"
            wrong[at] = of_row(rows, at, "data_source_key", found)
    if framing.sort_id:
        lengths = rows.sort_stop - rows.sort_start
        for at in _places(lengths > MAX_SORT_ID):
            wrong[at] = of_row(rows, at, "sort_id", f"{lengths[at]:,} bytes")
    for at in _places(sizes > MAX_RECORD["example"]):
        wrong[at] = of_row(rows, at, "size", f"{sizes[at]:,} bytes")
    return wrong


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
        features = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.stop - rows.start)])
        wrong = _unwritable(rows, np.diff(features[rows.first]), self._framing)
        for at in _places(unfit_for_batches(rows)):
            wrong[at] = of_row(rows, at, "unknown", _UNKNOWN)
        if wrong:
            good = np.ones(len(rows), np.bool_)
            good[list(wrong)] = False
            rows = rows.chosen(good)
        if len(rows):
            self._write(self._batches.add(rows))
        self._counts.written += len(rows)
        return list(wrong.values())

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
