"""Write parts from the work folder to the result, in their order or shuffled out of core."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.preprocess.work_folder import WorkFolder, map_values
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, array_name

_LEAST: Final = -(1 << 31)


@kernel
def invert_permutation(permutation: NDArray[np.uint32], done: NDArray[np.uint8]) -> None:
    """Replace a permutation by its inverse, cycle by cycle."""
    for start in range(len(permutation)):
        if done[start >> 3] >> (start & 7) & 1:
            continue
        before, at = np.int64(start), np.int64(permutation[start])
        while at != start:
            following = np.int64(permutation[at])
            permutation[at] = before
            done[at >> 3] |= np.uint8(1 << (at & 7))
            before = at
            at = following
        permutation[start] = before


@kernel
def count_buckets(places: NDArray[np.uint32], size: int, counts: NDArray[np.int64]) -> None:
    """Add the rows of each bucket of `size` places to `counts`."""
    for place in places:
        counts[np.int64(place) // size] += 1


@kernel
def sort_into_buckets(
    places: NDArray[np.uint32],
    size: int,
    labels: NDArray[np.uint32],
    dense: NDArray[np.uint32],
    sparse: NDArray[np.uint32],
    ends: NDArray[np.int64],
    records: NDArray[np.uint32],
) -> None:
    """Make records of rows, those of a bucket side by side."""
    width = dense.shape[1]
    for row in range(len(places)):
        bucket = np.int64(places[row]) // size
        record = records[ends[bucket]]
        ends[bucket] += 1
        record[0] = places[row]
        record[1] = labels[row]
        for column in range(width):
            record[2 + column] = dense[row, column]
        for column in range(len(sparse)):
            record[2 + width + column] = sparse[column, row]


@kernel
def put_in_order(
    records: NDArray[np.uint32],
    first: int,
    labels: NDArray[np.uint32],
    dense: NDArray[np.uint32],
    sparse: NDArray[np.uint32],
) -> None:
    """Put the records of a bucket, which begins at place `first`, where they belong."""
    width = dense.shape[1]
    for number in range(len(records)):
        record = records[number]
        row = np.int64(record[0]) - first
        labels[row, 0] = record[1]
        for column in range(width):
            dense[row, column] = record[2 + column]
        for column in range(sparse.shape[1]):
            sparse[row, column] = record[2 + width + column]


@dataclass(frozen=True, kw_only=True)
class PartRows:
    """A part that was read."""

    work: WorkFolder
    name: str
    rows: int
    remapped: frozenset[str]
    rounded: bool  # whether ids and labels go through float32

    def read(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        """Rows start..stop-1, as bits."""
        folder = self.work.part(self.name)
        labels = _read_slice(folder / "labels.npy", contract.HEADER, start, stop)
        dense = _read_slice(folder / "dense.npy", contract.HEADER, start * DENSE, stop * DENSE)
        if self.rounded:
            labels = _round_to_float32(labels)
        return labels, dense.reshape(-1, DENSE), self.sparse(start, stop)

    def sparse(self, start: int, stop: int) -> NDArray[np.uint32]:
        """uint32[26, R], the ids of rows start..stop-1."""
        sparse = np.empty((SPARSE, stop - start), np.uint32)
        for at, key in enumerate(contract.KEYS):
            ids = _read_slice(self.work.column(self.name, key, "ids"), 0, start, stop)
            if key in self.remapped:
                # Those below the first one stay, they are of unseen values.
                remap = map_values(self.work.remap(key), np.uint32)
                own = ids >= contract.FIRST_ID
                ids[own] = remap[ids[own] - contract.FIRST_ID]
            sparse[at] = _round_to_float32(ids) if self.rounded else ids
        return sparse


def _read_slice(path: Path, offset: int, start: int, stop: int) -> NDArray[np.uint32]:
    return np.fromfile(path, np.uint32, stop - start, offset=offset + 4 * start)


def _round_to_float32(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Through float32 and back, which loses what is beyond 24 bits."""
    floats = values.view(np.int32).astype(np.float32)
    floats[floats >= -_LEAST] = _LEAST  # where the reference runs, on x86
    return floats.astype(np.int32).view(np.uint32)


_ROWS: Final = 1 << 16


def write_part(source: PartRows, work: WorkFolder, result: Path, threads: int) -> None:
    """Write the arrays of a part; they are on the disk afterwards. May be done again."""
    path = write_sparse(source, result, threads)
    for kind in ("dense", "labels"):
        ready = work.part(source.name) / f"{kind}.npy"
        if ready.exists():
            ready.rename(result / array_name(source.name, kind))
    work.sync(path, result)


def write_sparse(source: PartRows, result: Path, threads: int) -> Path:
    """Write the ids of a part, and return where."""
    path = result / array_name(source.name, "sparse")
    contract.create_array(path, "sparse", source.rows)

    def write_rows(start: int) -> None:
        columns = source.sparse(start, min(start + _ROWS, source.rows))
        _write_at(
            path,
            np.ascontiguousarray(columns.T),
            contract.HEADER + start * contract.row_bytes("sparse"),
        )

    with ThreadPoolExecutor(threads, "write") as pool:
        deque(pool.map(write_rows, range(0, source.rows, _ROWS)), maxlen=0)
    return path


_WIDTH: Final = 2 + DENSE + SPARSE
_RECORD: Final = 4 * _WIDTH
_MOST: Final = (1 << 32) - 1
_LEAST_BUCKET: Final = 1 << 17
"""Rows of a bucket of few rows; of more rows there are `_BUCKETS`, up to the size that is set."""
_BUCKETS: Final = 64
_TOGETHER: Final = 8  # buckets that are synced and deleted at a time


def inverse_permutation(rows: int, seed: int) -> NDArray[np.uint32]:
    """uint32[rows], the place of each row."""
    if rows > _MOST:
        problem = f"{rows:,} training rows cannot be shuffled, {_MOST:,} can"
        raise ConversionError("", problem, "choose fewer `days`, or no `shuffle_seed`")
    places = np.arange(rows, dtype=np.uint32)
    np.random.RandomState(seed).shuffle(places)
    invert_permutation(places, np.zeros(rows // 8 + 1, np.uint8))
    return places


class Shuffle:
    """The shuffle of some parts into a result folder; every step may be broken off and redone."""

    def __init__(
        self,
        parts: Sequence[tuple[str, int]],
        work: WorkFolder,
        result: Path,
        seed: int,
        threads: int,
        bucket: int,
        places: NDArray[np.uint32] | None = None,
    ) -> None:
        self._parts, self._work, self._result = tuple(parts), work, result
        self._rows = sum(rows for _, rows in parts)
        bucket = min(bucket, max(_LEAST_BUCKET, self._rows // _BUCKETS))
        self._threads, self._bucket = threads, bucket
        self._block = -(-bucket // 2)
        self._places = inverse_permutation(self._rows, seed) if places is None else places
        self._ends = np.zeros(-(-self._rows // bucket), np.int64)  # records of each bucket so far
        self._read = 0  # rows so far
        self._own: tuple[str, int] | None = None  # the one part that is written; None: all

    def pass_over(self, rows: int) -> None:
        """Rows whose records a broken-off run left in the buckets."""
        count_buckets(self._next_places(rows), self._bucket, self._ends)

    def scatter(self, source: PartRows, tell: Callable[[int], None]) -> None:
        """Append the records of a part to the buckets; they are on the disk afterwards."""
        self._work.bucket(0).parent.mkdir(exist_ok=True)
        written = np.zeros(len(self._ends), bool)
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

    def scatter_alone(self, source: PartRows) -> list[int]:
        """Write the records of one part, whose places `places` are, into the file of all buckets.

        Returns how many records of each bucket follow one another there.
        """
        counts = np.zeros(len(self._ends), np.int64)
        count_buckets(self._places, self._bucket, counts)
        self._ends = np.cumsum(counts) - counts
        self.scatter(source, lambda _: None)
        return list(map(int, counts))

    def _next_places(self, rows: int) -> NDArray[np.uint32]:
        self._read += rows
        return self._places[self._read - rows : self._read]

    def _scatter(
        self, source: PartRows, start: int, places: NDArray[np.uint32], begins: NDArray[np.int64]
    ) -> None:
        counts = np.zeros(len(self._ends), np.int64)
        count_buckets(places, self._bucket, counts)
        ends = np.concatenate([[0], np.cumsum(counts)[:-1]])
        records = np.empty((len(places), _WIDTH), np.uint32)
        labels, dense, sparse = source.read(start, start + len(places))
        sort_into_buckets(places, self._bucket, labels, dense, sparse, ends, records)
        for number in np.flatnonzero(counts).tolist():
            own = records[ends[number] - counts[number] : ends[number]]
            _write_at(self._work.bucket(number), own, int(begins[number]) * _RECORD)

    def gather(self, tell: Callable[[int], None]) -> None:
        """Write the arrays of the shuffled parts, and delete each bucket that is in them."""
        arrays = [(name, kind) for name, _ in self._parts for kind in contract.KINDS]
        for name, rows in self._parts:
            for kind in contract.KINDS:
                contract.create_array(self._result / array_name(name, kind), kind, rows)
        # A bucket that is not there was written by a run that was broken off.
        numbers = [at for at in range(len(self._ends)) if self._work.bucket(at).exists()]
        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            for first in range(0, len(numbers), _TOGETHER):
                some = numbers[first : first + _TOGETHER]
                for rows in pool.map(self._gather, some):
                    tell(rows)
                # On the disk before what they were made of is gone: a power cut must not lose rows.
                self._work.sync(*(self._result / array_name(*one) for one in arrays))
                for number in some:
                    self._work.bucket(number).unlink()

    def gather_alone(self, number: int, scattered: Sequence[tuple[Path, list[int]]]) -> None:
        """Write the arrays of one part, of what `scatter_alone` made of every part."""
        begin = sum(rows for _, rows in self._parts[:number])
        self._own, end = self._parts[number], begin + self._parts[number][1]
        for kind in contract.KINDS:
            contract.create_array(self._result / array_name(self._own[0], kind), kind, end - begin)
        counts = np.array([one for _, one in scattered], np.int64)
        starts = np.cumsum(counts, axis=1) - counts

        def gather(bucket: int) -> None:
            records = [
                np.fromfile(path, np.uint32, count[bucket] * _WIDTH, offset=start[bucket] * _RECORD)
                for (path, _), count, start in zip(scattered, counts, starts, strict=True)
                if count[bucket]
            ]
            self._arrange(bucket, np.concatenate(records))

        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            buckets = range(begin // self._bucket, -(-end // self._bucket))
            deque(pool.map(gather, buckets), maxlen=0)

    def _gather(self, number: int) -> int:
        return self._arrange(number, np.fromfile(self._work.bucket(number), np.uint32))

    def _arrange(self, number: int, flat: NDArray[np.uint32]) -> int:
        first = number * self._bucket
        rows = min(self._bucket, self._rows - first)
        records = flat.reshape(-1, _WIDTH)
        if len(records) != rows:
            problem = f"holds {len(records):,} of {rows:,} rows: something else changed it"
            raise OutputError(
                str(self._work.bucket(number)), problem, "start again without `resume`"
            )
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
            if start < stop and self._own in (None, (name, rows)):
                own = values[start - first : stop - first]
                offset = contract.HEADER + (start - begin) * contract.row_bytes(kind)
                _write_at(self._result / array_name(name, kind), own, offset)
            begin += rows


def _write_at(path: Path, values: NDArray[np.uint32], offset: int) -> None:
    with contract.open_in_place(path) as file:
        contract.write_all(file.fileno(), values, offset)
