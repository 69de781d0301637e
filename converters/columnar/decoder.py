"""The process that decodes Parquet, ORC and Feather V1 files: one that ends it ends no run.

It opens a file by its path, or asks its parent for the bytes of one that has none. A batch is sent
as an Arrow stream of its own, checked, and only when the parent wants it.
"""

import io
import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from ingot.converters.columnar.batch_checks import is_valid_batch
from ingot.converters.columnar.file_opening import OTHER_FORMS, OtherFile, check_footer, open_path
from ingot.converters.columnar.lance_files import (
    FindVersion,
    FoundVersion,
    LanceFragment,
    OpenFragment,
    find_version,
)
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.output.worker_pool import NOTHING, Inbox, Send, limit_process

_BUFFERS: Final = 64 << 20
_LEAST_BUFFER: Final = 16 << 10
_MOST_BUFFER: Final = 8 << 20
_PROBE_BUFFER: Final = 64 << 10
"""Bytes of the file that are held, of all columns and of one; of one whose dictionary is read."""
_DECODED_BYTES: Final = 32 << 20  # of a batch, however often its rows share a long value
# Where batches are to have a size, rows are decoded few at a time and put together by their own:
# the sizes in a file are those of all rows of a row group together, and say nothing at all where
# equal texts are stored once.
_FEW_BYTES: Final = 256 << 10
_DICTIONARY_ROWS: Final = 256
_MOST_PARTS: Final = 16  # of a batch that is larger; each part has the whole of a dictionary
_MEMORY: Final = 768 << 20
_LANCE_MEMORY: Final = 1536 << 20
_GROWTH: Final = 4  # a file may need more: so often what a row group of it has as stored


@dataclass(frozen=True, slots=True)
class OpenFile:
    """Asks for the `Facts` of a file."""

    where: str
    form: str  # `parquet`, `orc` or `feather` (version 1)
    size: int
    path: str | None  # None where it has none
    inode: tuple[int, int] | None  # and the device


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Asks for the first batch of the open file, with at most so many rows and bytes in each."""

    rows: int
    groups: Sequence[int] | None
    columns: Sequence[str] | None
    size: int | None  # None: not known before the rows are decoded


@dataclass(frozen=True, slots=True)
class NextBatch:
    """Asks for the batch that follows."""


@dataclass(frozen=True, slots=True)
class CloseFile:
    """Lets go of the open file; there is no reply."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a footer says; the rows of a row group, and their bytes as encoded."""

    schema: pa.Schema
    columns: int  # of the file: those inside of structs and lists count each
    groups: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch: the bytes of its Arrow stream, and whether each value fits to its type."""

    size: int
    valid: bool


@dataclass(frozen=True, slots=True)
class WantedBytes:
    """What the parent is asked for; it sends the bytes."""

    start: int
    size: int


# What is sent, and the bytes behind it.
Reply: TypeAlias = tuple[Facts | FoundVersion | SentBatch | Exception | None, memoryview]


def decode_files(inbox: Inbox, send: Send) -> int:
    """Do what the parent asks for until it is gone."""
    pa.set_memory_pool(pa.system_memory_pool())  # the others take more than they are asked for
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a library's last words
    items = iter(inbox)
    decoder = _Decoder(items, send)
    for request in items:
        if isinstance(request, CloseFile):
            decoder.close()
        else:
            send(*_reply(decoder, request))
    return 0


def decode_lance(inbox: Inbox, send: Send) -> int:
    """Decode like `decode_files`, but in separate processes: Lance keeps memory once loaded."""
    return decode_files(inbox, send)


def _reply(decoder: "_Decoder", request: object) -> Reply:
    try:
        if isinstance(request, OpenFile):
            return decoder.open(request), NOTHING
        if isinstance(request, LanceFragment):
            return decoder.open_fragment(request), NOTHING
        if isinstance(request, FindVersion):
            limit_process(memory=_LANCE_MEMORY)
            return find_version(request), NOTHING
        if isinstance(request, ReadRows):
            decoder.read(request)
        return decoder.next_batch()
    except SourceError as error:
        return error, NOTHING
    except Exception as error:  # noqa: BLE001 - the parent raises it
        error.add_note(traceback.format_exc())
        return error, NOTHING


class _AskedFile(io.RawIOBase):
    """A file whose bytes the parent reads."""

    def __init__(self, items: Iterator[Any], send: Send, size: int) -> None:
        self._items, self._send, self._size = items, send, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        remaining = max(0, self._size - self._at)
        self._send(WantedBytes(self._at, remaining if size < 0 else min(size, remaining)))
        data: bytes = next(self._items)
        self._at += len(data)
        return data


class _Decoder:
    """One open file at a time."""

    def __init__(self, items: Iterator[Any], send: Send) -> None:
        self._items, self._send = items, send
        self._source: Any = None
        self._where = ""
        self._batches: Iterator[Reply] = iter(())
        self._other: OtherFile | OpenFragment | None = None
        self._rows: Sequence[int] = ()  # of each row group
        self._stream = pa.allocate_buffer(0)  # new memory for every batch would take longer

    def open(self, request: OpenFile) -> Facts:
        self.close()
        self._where = request.where
        limit_process(memory=_MEMORY)
        with translate_read_errors(request.where):
            self._source = open_path(request.path, request.inode) or _AskedFile(
                self._items, self._send, request.size
            )
            if request.form == "parquet":
                check_footer(self._source, request.size, request.where)
        if request.form != "parquet":
            with translate_read_errors(request.where):
                other = OTHER_FORMS[request.form](self._source)
            limit_process(memory=_MEMORY + _GROWTH * request.size // max(1, other.parts))
            return self._other_facts(other, ((other.rows, request.size),))
        with translate_read_errors(request.where, "cannot read its Parquet footer"):
            self._metadata = pq.read_metadata(self._source)
            self._file = self._reader(_MOST_BUFFER)
            groups = [self._metadata.row_group(n) for n in range(self._metadata.num_row_groups)]
            sizes = tuple((group.num_rows, group.total_byte_size) for group in groups)
            schema = self._file.schema_arrow
        limit_process(memory=_MEMORY + _GROWTH * request.size // max(1, len(sizes)))
        self._rows = [rows for rows, _ in sizes]
        return Facts(schema, self._metadata.num_columns, sizes)

    def open_fragment(self, request: LanceFragment) -> Facts:
        self.close()
        self._where = request.path
        limit_process(memory=_LANCE_MEMORY)
        fragment = OpenFragment(request)
        return self._other_facts(fragment, fragment.groups)

    def _other_facts(
        self, other: OtherFile | OpenFragment, groups: tuple[tuple[int, int], ...]
    ) -> Facts:
        self._other, self._rows = other, [rows for rows, _ in groups]
        return Facts(other.schema, len(other.schema), groups)

    def _reader(self, max_buffer: int, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """A reader that holds buffers of the columns, not a row group of them."""
        size = _BUFFERS // max(1, self._metadata.num_columns)
        return pq.ParquetFile(
            self._source,
            metadata=self._metadata,
            read_dictionary=list(dictionaries),
            buffer_size=max(_LEAST_BUFFER, min(size, max_buffer)),
            pre_buffer=False,
        )

    def read(self, request: ReadRows) -> None:
        self._batches = self._sent_batches(request)

    def next_batch(self) -> Reply:
        """Return the batch that follows, None behind the last."""
        return next(self._batches, (None, NOTHING))

    def close(self) -> None:
        """Let go of the file and of the memory."""
        self._batches = iter(())
        self._file = self._metadata = self._other = None
        if self._source is not None:
            self._source.close()
            self._source = None
            pa.default_memory_pool().release_unused()

    def _sent_batches(self, request: ReadRows) -> Iterator[Reply]:
        batches = self._decoded_batches(request)
        number = rows = 0
        while True:
            with translate_read_errors(self._where):
                batch = next(batches, None)
            if batch is None:
                # Of some damaged columns no rows come, and no error is raised.
                groups = range(len(self._rows)) if request.groups is None else request.groups
                expected = sum(self._rows[group] for group in groups)
                if rows != expected and (request.columns is None or len(request.columns)):
                    problem = f"damaged: {rows:,} of the {expected:,} rows that it tells of"
                    raise SourceError(self._where, problem, "fetch or copy it again")
                return
            rows += batch.num_rows
            with translate_read_errors(self._where):
                valid = is_valid_batch(batch, number, self._where)
                slice_rows = self._rows_to_send(batch, request)
            for start in range(0, batch.num_rows, slice_rows):
                with translate_read_errors(self._where):
                    data = self._stream_bytes(batch.slice(start, slice_rows))
                yield SentBatch(len(data), valid), data
            number += 1

    def _rows_to_send(self, batch: pa.RecordBatch, request: ReadRows) -> int:
        """How many rows of a decoded batch are sent at a time; of ORC it is a whole stripe."""
        rows: int = batch.num_rows
        size: int = max(1, batch.nbytes)
        if self._other is not None:
            return min(request.rows, max(1, rows * (request.size or size) // size))
        max_rows = max(1, rows * _DECODED_BYTES // max(_DECODED_BYTES, size))
        return max(max_rows, -(-rows // _MOST_PARTS))

    def _stream_bytes(self, batch: pa.RecordBatch) -> memoryview:
        """A batch as an Arrow stream, good until the next; the file's own metadata stays."""
        batch = batch.replace_schema_metadata(None)
        counted = pa.MockOutputStream()
        _write_stream(counted, batch)
        if self._stream.size < counted.size():
            self._stream = pa.allocate_buffer(counted.size())
        _write_stream(pa.FixedSizeBufferWriter(self._stream), batch)
        return memoryview(self._stream)[: counted.size()]

    def _decoded_batches(self, request: ReadRows) -> Iterator[pa.RecordBatch]:
        """The batches of row groups, cut shorter in those groups that may grow when decoded."""
        if self._other is not None:
            yield from self._other.batches(request.rows, request.groups, request.columns)
            return
        groups = range(self._metadata.num_row_groups) if request.groups is None else request.groups
        columns = None if request.columns is None else list(request.columns)
        options: dict[str, Any] = {"columns": columns, "use_threads": False}
        uniform = request.size is None
        if uniform and not any(self._long_dictionaries(group, request) for group in groups):
            yield from self._file.iter_batches(request.rows, row_groups=groups, **options)
            return
        for group in groups:
            group_request = (
                request if uniform else replace(request, rows=self._few_rows(group, request))
            )
            rows = self._rows_by_dictionary(group, group_request)
            batches = self._file.iter_batches(rows, row_groups=[group], **options)
            if request.size is not None:
                batches = _coalesce_batches(batches, request.rows, request.size)
            yield from batches

    def _chunks(self, group: int, request: ReadRows) -> list[pq.ColumnChunkMetaData]:
        """What the footer says of the columns of a group that are asked for."""
        facts = self._metadata.row_group(group)
        chunks = [facts.column(number) for number in range(facts.num_columns)]
        if request.columns is None:
            return chunks
        names = {*request.columns}
        return [
            one
            for one in chunks
            if not names.isdisjoint((one.path_in_schema, one.path_in_schema.split(".")[0]))
        ]

    def _few_rows(self, group: int, request: ReadRows) -> int:
        """Rows of a group that have about `_FEW_BYTES`, going by the sizes of their columns."""
        chunks, count = self._chunks(group, request), self._metadata.row_group(group).num_rows
        size = sum(one.total_uncompressed_size for one in chunks)
        rows: int = max(1, _FEW_BYTES * max(1, count) // max(1, size))
        if any(one.has_dictionary_page for one in chunks):
            rows = min(rows, _DICTIONARY_ROWS)
        return min(rows, request.rows)

    def _long_dictionaries(self, group: int, request: ReadRows) -> list[str]:
        """The columns of a group whose values may need more than `_DECODED_BYTES` in a batch."""
        row_count = min(request.rows, self._metadata.row_group(group).num_rows)
        return [
            one.path_in_schema
            for one in self._chunks(group, request)
            if one.has_dictionary_page
            and one.physical_type == "BYTE_ARRAY"
            and row_count * one.total_uncompressed_size > _DECODED_BYTES
        ]

    def _rows_by_dictionary(self, group: int, request: ReadRows) -> int:
        """How many rows of a group fit into `_DECODED_BYTES`, however often a value repeats."""
        # Sizes in a footer are those of the encoded values.
        paths = self._long_dictionaries(group, request)
        if not paths:
            return request.rows
        count = self._metadata.row_group(group).num_rows
        probe = self._reader(_PROBE_BUFFER, paths)
        batch = next(
            probe.iter_batches(1, row_groups=[group], columns=paths, use_threads=False), None
        )
        longest = [_longest_value(column) for column in batch.columns] if batch else [0]
        values = max(one.num_values for one in self._chunks(group, request))
        row_bytes = values / max(1, count) * max(longest)
        if row_bytes * request.rows <= _DECODED_BYTES:
            return request.rows
        return max(1, int(_DECODED_BYTES / row_bytes))


def _coalesce_batches(
    batches: Iterator[pa.RecordBatch], most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pending and (rows + batch.num_rows > most_rows or size + batch.nbytes > most_bytes):
            yield _concat_batches(pending)
            pending, rows, size = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        del batch  # it may be the one that does not fit into the memory twice
    if pending:
        yield _concat_batches(pending)


def _concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (together,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together


def _write_stream(out: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)


def _longest_value(column: pa.Array) -> int:
    """The bytes of the longest value in the dictionaries of an array."""
    kind = column.type
    if types.is_dictionary(kind):
        large = types.is_large_string(kind.value_type) or types.is_large_binary(kind.value_type)
        values = column.dictionary
        offsets = np.frombuffer(values.buffers()[1] or b"", np.int64 if large else np.int32)
        lengths = np.diff(offsets[values.offset : values.offset + len(values) + 1])
        return int(lengths.max(initial=0))
    if types.is_struct(kind):
        inner = [column.field(number) for number in range(kind.num_fields)]
    elif types.is_map(kind):
        inner = [column.keys, column.items]
    else:
        inner = [column.values] if types.is_list(kind) or types.is_large_list(kind) else []
    return max(map(_longest_value, inner), default=0)
