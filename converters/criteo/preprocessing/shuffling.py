"""The exact shuffle of training days, out of core.

The permutation is that of `np.random.seed(seed); np.random.shuffle(rows)`: 4 bytes a row, and a bit
while it is inverted. Rows go to files of places that lie side by side (buckets), each of which fits
in memory; then every bucket is put in order and written where it belongs.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DENSE, SPARSE, array_name
from ingot.converters.criteo.preprocessing.arrays import HEADER, create, row_bytes, write_all
from ingot.converters.criteo.preprocessing.kernels.shuffling import (
    count_buckets,
    invert,
    put_in_order,
    sort_into_buckets,
)
from ingot.converters.criteo.preprocessing.sources import PartRows
from ingot.converters.criteo.preprocessing.work import Work
from ingot.converters.errors import ConversionError, OutputError

_WIDTH: Final = 2 + DENSE + SPARSE
_RECORD: Final = 4 * _WIDTH
_MOST: Final = (1 << 32) - 1
_TOGETHER: Final = 8  # buckets that are synced and deleted at a time


def inverse_permutation(rows: int, seed: int) -> NDArray[np.uint32]:
    """uint32[rows], the place of each row.

    Raises:
        ConversionError: there are more rows than 32 bits can number.
    """
    if rows > _MOST:
        problem = f"{rows:,} training rows cannot be shuffled, {_MOST:,} can"
        raise ConversionError("", problem, "choose fewer days, or --no-shuffle")
    places = np.arange(rows, dtype=np.uint32)
    np.random.RandomState(seed).shuffle(places)
    invert(places, np.zeros(rows // 8 + 1, np.uint8))
    return places


class Shuffle:
    """The shuffle of some parts into a result folder; every step may be broken off and redone.

    Args:
        parts: names and rows, in order.
        work: where buckets are kept.
        result: where the arrays are written.
        seed: of the permutation.
        threads: that work.
        bucket: places of a bucket; the result does not depend on it, nor on
        block: rows that are read at a time; None for half a bucket.
    """

    def __init__(
        self,
        parts: Sequence[tuple[str, int]],
        work: Work,
        result: Path,
        seed: int,
        threads: int,
        bucket: int,
        block: int | None = None,
    ) -> None:
        self._parts, self._work, self._result = tuple(parts), work, result
        self._threads, self._bucket = threads, bucket
        self._block = block or -(-bucket // 2)
        self._rows = sum(rows for _, rows in parts)
        self._places = inverse_permutation(self._rows, seed)
        self._ends = np.zeros(-(-self._rows // bucket), np.int64)  # records of each bucket so far
        self._read = 0  # rows so far

    @property
    def buckets(self) -> int:
        """How many there are."""
        return len(self._ends)

    def pass_over(self, rows: int) -> None:
        """Rows whose records a broken-off run left in the buckets."""
        count_buckets(self._next_places(rows), self._bucket, self._ends)

    def scatter(self, source: PartRows, tell: Callable[[int], None]) -> None:
        """Append the records of a part to the buckets; they are on the disk afterwards."""
        self._work.bucket(0).parent.mkdir(exist_ok=True)
        written = np.zeros(self.buckets, bool)
        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            tasks = []
            for start in range(0, source.rows, self._block):
                stop = min(start + self._block, source.rows)
                places = self._next_places(stop - start)
                begins = self._ends.copy()
                count_buckets(places, self._bucket, self._ends)
                written |= self._ends > begins
                tasks.append(pool.submit(self._scatter, source, start, places, begins))
                if len(tasks) > self._threads:
                    tasks.pop(0).result()
                    tell(self._block)
            for task in tasks:
                task.result()
        self._work.sync(*(self._work.bucket(int(at)) for at in np.flatnonzero(written)))

    def _next_places(self, rows: int) -> NDArray[np.uint32]:
        self._read += rows
        return self._places[self._read - rows : self._read]

    def _scatter(
        self,
        source: PartRows,
        start: int,
        places: NDArray[np.uint32],
        begins: NDArray[np.int64],
    ) -> None:
        counts = np.zeros(self.buckets, np.int64)
        count_buckets(places, self._bucket, counts)
        ends = np.concatenate([[0], np.cumsum(counts)[:-1]])
        records = np.empty((len(places), _WIDTH), np.uint32)
        labels, dense, sparse = source.read(start, start + len(places))
        sort_into_buckets(places, self._bucket, labels, dense, sparse, ends, records)
        for number in np.flatnonzero(counts).tolist():
            own = records[ends[number] - counts[number] : ends[number]]
            _put(self._work.bucket(number), own, int(begins[number]) * _RECORD)

    def gather(self, tell: Callable[[int], None]) -> None:
        """Write the arrays of the shuffled parts, and delete each bucket that is in them.

        A bucket that is not there was written by a run that was broken off.
        """
        for name, rows in self._parts:
            for kind in ("dense", "labels", "sparse"):
                create(self._result / array_name(name, kind), kind, rows)
        numbers = [at for at in range(self.buckets) if self._work.bucket(at).exists()]
        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            for first in range(0, len(numbers), _TOGETHER):
                some = numbers[first : first + _TOGETHER]
                for rows in pool.map(self._gather, some):
                    tell(rows)
                self._drop(some)

    def _drop(self, numbers: Sequence[int]) -> None:
        # On the disk before what they were made of is gone: a power cut must not lose rows.
        arrays = [
            self._result / array_name(name, kind)
            for name, _ in self._parts
            for kind in ("dense", "labels", "sparse")
        ]
        self._work.sync(*arrays)
        for number in numbers:
            self._work.bucket(number).unlink()

    def _gather(self, number: int) -> int:
        first = number * self._bucket
        rows = min(self._bucket, self._rows - first)
        records = np.fromfile(self._work.bucket(number), np.uint32).reshape(-1, _WIDTH)
        if len(records) != rows:
            problem = f"holds {len(records):,} of {rows:,} rows: it was changed by somebody else"
            raise OutputError(str(self._work.bucket(number)), problem, "begin anew: --no-resume")
        values = {
            "labels": np.empty((rows, 1), np.uint32),
            "dense": np.empty((rows, DENSE), np.uint32),
            "sparse": np.empty((rows, SPARSE), np.uint32),
        }
        put_in_order(records, first, values["labels"], values["dense"], values["sparse"])
        for kind, array in values.items():
            self._write(kind, first, array)
        return rows

    def _write(self, kind: str, first: int, values: NDArray[np.uint32]) -> None:
        """Write rows of places `first`, ... into the parts that they are of."""
        begin = 0
        for name, rows in self._parts:
            start, stop = max(first, begin), min(first + len(values), begin + rows)
            if start < stop:
                own = values[start - first : stop - first]
                offset = HEADER + (start - begin) * row_bytes(kind)
                _put(self._result / array_name(name, kind), own, offset)
            begin += rows


def _put(path: Path, values: NDArray[np.uint32], offset: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        write_all(descriptor, values, offset)
    finally:
        os.close(descriptor)
