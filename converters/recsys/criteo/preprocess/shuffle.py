"""Write the rows of parts in their order, or shuffled out of core."""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.preprocess.part_files import map_values
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE

_LEAST: Final = -(1 << 31)


@kernel
def invert_permutation(permutation: NDArray[np.uint32], done: NDArray[np.uint8]) -> None:
    """Replace a permutation by its inverse, cycle by cycle."""
    for start in range(len(permutation)):
        if done[start >> 3] >> (start & 7) & 1:
            continue
        previous, position = np.int64(start), np.int64(permutation[start])
        while position != start:
            following = np.int64(permutation[position])
            permutation[position] = previous
            done[position >> 3] |= np.uint8(1 << (position & 7))
            previous = position
            position = following
        permutation[start] = previous


@kernel
def count_buckets(positions: NDArray[np.uint32], size: int, counts: NDArray[np.int64]) -> None:
    """Add the rows of each bucket of `size` places to `counts`."""
    for position in positions:
        counts[np.int64(position) // size] += 1


@kernel
def sort_into_buckets(
    positions: NDArray[np.uint32],
    size: int,
    labels: NDArray[np.uint32],
    dense: NDArray[np.uint32],
    sparse: NDArray[np.uint32],
    next_records: NDArray[np.int64],
    records: NDArray[np.uint32],
) -> None:
    """Make records of rows, those of a bucket side by side."""
    width = dense.shape[1]
    for row in range(len(positions)):
        bucket = np.int64(positions[row]) // size
        record = records[next_records[bucket]]
        next_records[bucket] += 1
        record[0] = positions[row]
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

    folder: Path  # with its labels.npy and dense.npy
    rows: int
    ids: Sequence[Path]  # of each column, int32
    remaps: Mapping[int, Path]  # of columns whose ids are replaced: int32 by number
    rounded: bool  # whether ids and labels go through float32

    def read(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        """Read rows start..stop-1, as bits."""
        labels = _read_slice(self.folder / "labels.npy", contract.HEADER, start, stop)
        dense = _read_slice(self.folder / "dense.npy", contract.HEADER, start * DENSE, stop * DENSE)
        if self.rounded:
            labels = _round_to_float32(labels)
        return labels, dense.reshape(-1, DENSE), self.sparse(start, stop)

    def sparse(self, start: int, stop: int) -> NDArray[np.uint32]:
        """Return uint32[26, R]: the ids of rows start..stop-1."""
        sparse = np.empty((SPARSE, stop - start), np.uint32)
        for column, path in enumerate(self.ids):
            ids = _read_slice(path, 0, start, stop)
            if column in self.remaps:
                # Those below the first one stay, they are of unseen values.
                remap = map_values(self.remaps[column], np.uint32)
                is_known = ids >= contract.FIRST_ID
                ids[is_known] = remap[ids[is_known] - contract.FIRST_ID]
            sparse[column] = _round_to_float32(ids) if self.rounded else ids
        return sparse


def _read_slice(path: Path, offset: int, start: int, stop: int) -> NDArray[np.uint32]:
    return np.fromfile(path, np.uint32, stop - start, offset=offset + 4 * start)


def _round_to_float32(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Through float32 and back, which loses what is beyond 24 bits."""
    floats = values.view(np.int32).astype(np.float32)
    floats[floats >= -_LEAST] = _LEAST  # where the reference runs, on x86
    return floats.astype(np.int32).view(np.uint32)


_ROWS: Final = 1 << 16


def write_sparse(
    source: PartRows, path: Path, threads: int, report: Callable[[int], object]
) -> None:
    """Write the ids of a part, in its order."""
    contract.create_array(path, "sparse", source.rows)

    def write_rows(start: int) -> int:
        stop = min(start + _ROWS, source.rows)
        rows = np.ascontiguousarray(source.sparse(start, stop).T)
        _write_at(path, rows, contract.HEADER + start * contract.row_bytes("sparse"))
        return stop - start

    with ThreadPoolExecutor(threads, "write") as pool:
        for rows in pool.map(write_rows, range(0, source.rows, _ROWS)):
            report(rows)


_WIDTH: Final = 2 + DENSE + SPARSE
_RECORD: Final = 4 * _WIDTH
_MOST: Final = (1 << 32) - 1
_LEAST_BUCKET: Final = 1 << 17
"""Rows of a bucket of few rows; of more rows there are `_BUCKETS`, up to the size that is set."""
_BUCKETS: Final = 64


def inverse_permutation(rows: int, seed: int) -> NDArray[np.uint32]:
    """Return uint32[rows]: the position of each row."""
    if rows > _MOST:
        problem = f"{rows:,} training rows cannot be shuffled, {_MOST:,} can"
        raise ConversionError("", problem, "choose fewer `days`, or no `shuffle_seed`")
    permutation = np.arange(rows, dtype=np.uint32)
    np.random.RandomState(seed).shuffle(permutation)
    invert_permutation(permutation, np.zeros(rows // 8 + 1, np.uint8))
    return permutation


@dataclass(frozen=True, kw_only=True)
class Records:
    """The rows of one part as records, those of a bucket side by side."""

    path: Path
    counts: Sequence[int]  # records of each bucket, one bucket behind the other

    @cached_property
    def _starts(self) -> list[int]:
        """In bytes."""
        return [0, *accumulate(count * _RECORD for count in self.counts)]

    def read_into(self, records: NDArray[np.uint32], bucket: int) -> int:
        """Read the records of a bucket into `records`, and return how many they are."""
        view = records.reshape(-1).view(np.uint8).data[: self.counts[bucket] * _RECORD]
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._starts[bucket])
            done = 0
            while count := file.readinto(view[done:]):
                done += count
        return done // _RECORD

    def truncate(self, bucket: int) -> None:
        """Delete the records of a bucket and of those behind it, which are in the arrays."""
        if self.path.stat().st_size > self._starts[bucket]:
            os.truncate(self.path, self._starts[bucket])


class Shuffle:
    """The shuffle of parts with so many rows each, in buckets of about `bucket` places."""

    def __init__(self, rows: Sequence[int], threads: int, bucket: int) -> None:
        self._begins = [0, *accumulate(rows)]
        self._rows = self._begins[-1]
        self._bucket = min(bucket, max(_LEAST_BUCKET, self._rows // _BUCKETS))
        self._threads = threads
        self.block = -(-self._bucket // 2)  # rows that are moved at a time

    def scatter(
        self,
        source: PartRows,
        positions: NDArray[np.uint32],
        path: Path,
        report: Callable[[int], object],
    ) -> Records:
        """Write the records of a part, whose rows go to these places, into a file."""
        counts = np.zeros(-(-self._rows // self._bucket), np.int64)
        count_buckets(positions, self._bucket, counts)
        offsets, block = np.cumsum(counts) - counts, self.block
        path.touch()
        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            tasks = deque[Future[int]]()
            for start in range(0, source.rows, block):
                block_positions, begins = positions[start : start + block], offsets.copy()
                count_buckets(block_positions, self._bucket, offsets)
                tasks.append(
                    pool.submit(self._scatter, source, start, block_positions, begins, path)
                )
                if len(tasks) > self._threads:
                    report(tasks.popleft().result())
            for task in tasks:
                report(task.result())
        return Records(path=path, counts=counts.tolist())

    def _scatter(
        self,
        source: PartRows,
        start: int,
        positions: NDArray[np.uint32],
        begins: NDArray[np.int64],
        path: Path,
    ) -> int:
        counts = np.zeros(len(begins), np.int64)
        count_buckets(positions, self._bucket, counts)
        offsets = np.concatenate([[0], np.cumsum(counts)[:-1]])
        records = np.empty((len(positions), _WIDTH), np.uint32)
        labels, dense, sparse = source.read(start, start + len(positions))
        sort_into_buckets(positions, self._bucket, labels, dense, sparse, offsets, records)
        for number in np.flatnonzero(counts).tolist():
            bucket_records = records[offsets[number] - counts[number] : offsets[number]]
            _write_at(path, bucket_records, int(begins[number]) * _RECORD)
        return len(positions)

    def gather(
        self,
        number: int,
        scattered: Sequence[Records],
        arrays: Mapping[str, Path],
        report: Callable[[int], object],
    ) -> None:
        """Write the arrays of one part, by kind, of what `scatter` made of every part."""
        first_row, last_row = self._begins[number : number + 2]
        for kind, path in arrays.items():
            contract.create_array(path, kind, last_row - first_row)

        def gather(bucket: int) -> int:
            first, values = self._arranged(bucket, scattered)
            start, stop = max(first, first_row), min(first + self._bucket, last_row)
            for kind, path in arrays.items():
                part_rows = values[kind][start - first : stop - first]
                _write_at(
                    path,
                    part_rows,
                    contract.HEADER + (start - first_row) * contract.row_bytes(kind),
                )
            return stop - start

        with ThreadPoolExecutor(self._threads, "shuffle") as pool:
            for rows in pool.map(
                gather, range(first_row // self._bucket, -(-last_row // self._bucket))
            ):
                report(rows)

    def truncate(self, number: int, scattered: Sequence[Records]) -> None:
        """Delete the records that only this part and later ones had use of."""
        for one in scattered:
            one.truncate(-(-self._begins[number] // self._bucket))

    def _arranged(
        self, number: int, scattered: Sequence[Records]
    ) -> tuple[int, dict[str, NDArray[np.uint32]]]:
        """Return the first place of a bucket, and its rows in order by kind."""
        first = number * self._bucket
        rows = min(self._bucket, self._rows - first)
        records, count = np.empty((rows, _WIDTH), np.uint32), 0
        for one in scattered:
            count += one.read_into(records[count:], number)
        if count != rows:
            problem = f"bucket {number} holds {count:,} of {rows:,} rows"
            problem += ": something else changed the files"
            raise OutputError("shuffled rows", problem, "start again without `resume`")
        values = {
            "labels": np.empty((rows, 1), np.uint32),
            "dense": np.empty((rows, DENSE), np.uint32),
            "sparse": np.empty((rows, SPARSE), np.uint32),
        }
        put_in_order(records, first, values["labels"], values["dense"], values["sparse"])
        return first, values


def _write_at(path: Path, values: NDArray[np.uint32], offset: int) -> None:
    with contract.open_in_place(path) as file:
        contract.write_all(file.fileno(), values, offset)
