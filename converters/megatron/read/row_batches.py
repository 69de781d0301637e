"""Read the rows of a unit batch by batch, and join their text columns to one text a row.

Only the columns that are needed are decoded, in batches bounded by the bytes of their texts. What
cannot be read is a `SourceError` that names the file; the file counts as failed then.
"""

import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.columnar.parquet import ValidBatch
from ingot.converters.errors import SourceError
from ingot.converters.megatron.read.input_files import (
    InputFile,
    InputLayout,
    Unit,
    check_same_file,
    check_schema_fits,
    open_file,
    translate_read_errors,
)
from ingot.converters.records.readers import read_batches

BATCH_BYTES: Final = 4 << 20  # of decoded text
JSONL_ROWS: Final = 1_024
_WAITING: Final = 4  # decoded batches per row group that is read ahead
_LOOK_SECONDS: Final = 0.1
_ReadGroup: TypeAlias = Callable[[], Iterator[ValidBatch]]  # decodes a row group


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBatch:
    """Consecutive rows of a file."""

    first: int  # number of the first, from 0
    table: pa.RecordBatch  # their columns, as the layout names them
    row_group: int | None  # where they lie, None where the file has none
    read: int  # bytes of the file that they stand for
    valid: bool = False  # each value is known to fit its type


def read_rows(
    file: InputFile, unit: Unit, layout: InputLayout, *, batch_size: int, parallel: int = 1
) -> Generator[RowBatch, None, None]:
    """Yield the rows of a unit, in order."""
    check_same_file(file)
    if file.path.suffix == ".jsonl":
        yield from _jsonl_rows(file, layout, batch_size)
        check_same_file(file)
        return
    with translate_read_errors(file):
        with open_file(file) as parquet:
            check_schema_fits(parquet.schema, layout, file)
            counts = [rows for rows, _ in parquet.groups]
        groups = range(*(unit.row_groups or (0, len(counts))))
        jobs = {group: partial(_group_batches, file, layout, group, batch_size) for group in groups}
        first = unit.first_row
        share = unit.bytes / max(1, sum(counts[group] for group in groups))
        for group, (batch, valid) in _ordered_batches(jobs, parallel):
            read = round(share * batch.num_rows)
            yield RowBatch(first=first, table=batch, row_group=group, read=read, valid=valid)
            first += batch.num_rows
    check_same_file(file)


def _group_batches(
    file: InputFile, layout: InputLayout, group: int, batch_size: int
) -> Iterator[ValidBatch]:
    names = list(layout.columns)
    columns = list(dict.fromkeys(names))
    with translate_read_errors(file), open_file(file) as parquet:
        batches = parquet.batches(batch_size, [group], columns, BATCH_BYTES)
        yield from ((batch.select(names), valid) for batch, valid in batches)


def _ordered_batches(
    jobs: Mapping[int, _ReadGroup], parallel: int
) -> Iterator[tuple[int, ValidBatch]]:
    """The batches of all row groups in order, with up to `parallel` of them decoded at once."""
    if parallel <= 1 or len(jobs) <= 1:
        for group, job in jobs.items():
            yield from ((group, batch) for batch in job())
        return
    stop = threading.Event()
    running: list[_GroupDecoder] = []
    with ThreadPoolExecutor(parallel) as pool:
        try:
            waiting = iter(jobs.values())
            for group in jobs:
                next_jobs = islice(waiting, parallel - len(running))
                running += [_GroupDecoder(job, stop, pool) for job in next_jobs]
                yield from ((group, batch) for batch in running.pop(0).batches())
        finally:
            stop.set()


class _GroupDecoder:
    """A row group that a thread of its own decodes, a few batches ahead."""

    def __init__(self, job: _ReadGroup, stop: threading.Event, pool: ThreadPoolExecutor) -> None:
        self._stop = stop
        self._queue: queue.Queue[ValidBatch | None] = queue.Queue(_WAITING)
        self._done = pool.submit(self._decode, job)

    def _decode(self, job: _ReadGroup) -> None:
        try:
            for batch in job():
                self._put(batch)
                if self._stop.is_set():
                    return
        finally:
            self._put(None)

    def _put(self, item: ValidBatch | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def batches(self) -> Iterator[ValidBatch]:
        while (item := self._queue.get()) is not None:
            yield item
        self._done.result()


def _jsonl_rows(file: InputFile, layout: InputLayout, batch_size: int) -> Iterator[RowBatch]:
    first = 0
    with translate_read_errors(file):
        for batch in read_batches([file.path], rows=min(batch_size, JSONL_ROWS)):
            if not set(layout.columns) <= set(batch.schema.names):
                problem = "holds records of another kind than the first file"
                raise SourceError(str(file.path), problem, "build one data set of each kind")
            table = batch.select(list(layout.columns))
            yield RowBatch(first=first, table=table, row_group=None, read=0, valid=True)
            first += batch.num_rows
    empty = pa.RecordBatch.from_pydict({})
    yield RowBatch(first=first, table=empty, row_group=None, read=file.bytes)


_WINDOW: Final = 4_096
# What `str.strip` takes off.
WHITE_SPACE: Final = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
_LEADING_SPACE: Final = re.compile(b"(?:%s)*+" % b"|".join(c.encode() for c in WHITE_SPACE))

Flags: TypeAlias = npt.NDArray[np.bool_]
_BadValues: TypeAlias = list[tuple[int, str]]  # places, and what is there

_NULL: Final = pa.scalar(None, pa.large_string())
_EMPTY: Final = pa.scalar("", pa.large_string())


def join_columns(
    rows: RowBatch, *, strip: bool, separator: str
) -> tuple[pa.LargeStringArray, Flags, dict[int, str]]:
    """Join the columns of each row; a null or an empty text leaves no separator behind.

    Gives the texts, without nulls, empty where there is none; which rows have a null in every
    column; the places of the rows with a value that is no UTF-8, whose text is empty, and why.
    """
    table = rows.table
    invalid: dict[int, str] = {}
    columns = []
    for column in table.columns:
        texts, wrong = _decode_column(column, rows.valid)
        columns.append(_strip_texts(texts) if strip else texts)
        invalid.update({position: value for position, value in wrong if position not in invalid})
    missing = np.ones(table.num_rows, np.bool_)
    for column in columns:
        missing &= column.is_null().to_numpy(zero_copy_only=False)
    missing[list(invalid)] = False
    texts = _concatenate_columns(columns, separator)
    if invalid and len(columns) > 1:
        is_valid = np.ones(table.num_rows, np.bool_)
        is_valid[list(invalid)] = False
        texts = pc.if_else(pa.array(is_valid), texts, _EMPTY)
    return texts, missing, dict(sorted(invalid.items()))


def _concatenate_columns(columns: list[pa.LargeStringArray], separator: str) -> pa.LargeStringArray:
    if len(columns) == 1:
        return columns[0].fill_null("") if columns[0].null_count else columns[0]
    parts = [pc.if_else(pc.equal(pc.binary_length(c), 0), _NULL, c) for c in columns]
    # A row of nothing but nulls would be missing from what Arrow joins.
    all_null = np.logical_and.reduce([p.is_null().to_numpy(zero_copy_only=False) for p in parts])
    parts[0] = pc.if_else(pa.array(all_null), _EMPTY, parts[0])
    between = pa.scalar(separator, pa.large_string())
    return pc.binary_join_element_wise(*parts, between, null_handling="skip")


def _text_view(texts: pa.LargeStringArray, position: int) -> memoryview:
    """The bytes of a text where they lie; a scalar of Arrow would be a copy."""
    _, offsets, data = texts.buffers()
    position += texts.offset
    start, end = np.frombuffer(offsets, np.int64)[position : position + 2].tolist()
    return memoryview(b"" if data is None else data)[start:end]


def _strip_texts(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    if len(texts) != 1 or texts.null_count:
        return pc.utf8_trim(texts, characters=WHITE_SPACE)
    # One alone may be a very long one: it stays where it is.
    data = _text_view(texts, 0)
    leading = _LEADING_SPACE.match(data)
    start = leading.end() if leading else 0
    end = len(data) - _trailing_space(data[start:])
    base = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset]
    offsets = pa.py_buffer(np.array([base + start, base + end], np.int64))
    return pa.LargeStringArray.from_buffers(1, offsets, texts.buffers()[2] or pa.py_buffer(b""))


def _trailing_space(text: memoryview) -> int:
    end = len(text)
    while end:
        start = max(0, end - _WINDOW)
        while text[start] & 0xC0 == 0x80:  # within a character
            start += 1
        block = bytes(text[start:end]).decode()
        rest = block.rstrip()
        end -= len(block[len(rest) :].encode())
        if rest:
            break
    return len(text) - end


def _decode_column(column: pa.Array, valid: bool) -> tuple[pa.LargeStringArray, _BadValues]:
    """A column as texts; values that are no UTF-8 are null, their places and starts are given."""
    try:
        texts = column.cast(pa.large_string())
        if not (valid and column.type in (pa.string(), pa.large_string())):
            texts.validate(full=True)
    except pa.ArrowInvalid:
        return _decode_values(column)
    return texts, []


def _decode_values(column: pa.Array) -> tuple[pa.LargeStringArray, _BadValues]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.cast(pa.large_binary()).take(column.indices)
    texts: list[str | None] = []
    wrong: _BadValues = []
    for position, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            wrong.append((position, f"byte {error.start}: {value[:100]!r}"))
            texts.append(None)
    return pa.array(texts, pa.large_string()), wrong
