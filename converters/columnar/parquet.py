"""Parquet files of strangers: opened and read through a process that may die, see `decoder`.

A process serves one file after another, and is started when the first one is opened. It ends with
this one, whatever ends this one.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import pyarrow as pa

from ingot.converters.columnar import decoder
from ingot.converters.columnar.lance_files import FindVersion, FoundVersion, LanceFragment
from ingot.converters.columnar.table_view import FragmentStream, TableStream, TableView
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.output.worker_pool import (
    Serve,
    WorkerDiedError,
    give_back_process,
    take_process,
)

_SPOOL_BYTES: Final = 64 << 20  # a file without random access is held in memory, then on disk
# Another allocator reserves 1 GiB at once where it may, and the next file may have less.
_VARIABLES: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}

# A batch, and whether each of its values fits to its type (False: not known, or not each).
ValidBatch: TypeAlias = tuple[pa.RecordBatch, bool]


@contextmanager
def open_random_access(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the stream itself, or an unnamed temporary copy of one that cannot seek."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield cast(BinaryIO, copy)


@contextmanager
def open_parquet(stream: BinaryIO, path: str, form: str = "parquet") -> Iterator["ParquetFile"]:
    """Yield a Parquet file, or one of `OTHER_FORMS` (one row group); the stream stays open."""
    fragment = isinstance(stream, FragmentStream)
    with nullcontext(stream) if fragment else open_random_access(stream) as source:
        view = stream.view if isinstance(stream, TableStream) else None
        file = ParquetFile(
            source, path, decoder.decode_lance if fragment else decoder.decode_files, view
        )
        try:
            file.open(form)
            yield file
        finally:
            file.close()


class ParquetFile:
    """An open Parquet file: what its footer says, and its batches; as its table sees both."""

    def __init__(
        self, source: BinaryIO, path: str, serve: Serve, view: TableView | None = None
    ) -> None:
        with translate_read_errors(path):
            self._process = take_process(serve, _VARIABLES)
        self._serve, self._source, self._where = serve, source, path
        self._owed = False  # whether a reply is still to come
        self._in_step = True  # whether it comes as a whole
        self._view = view
        self._starts = [0]  # the number of the first row of each row group, and of all
        self.schema: pa.Schema
        self.columns: int
        self.groups: tuple[tuple[int, int], ...]

    def open(self, form: str) -> None:
        """Have the file opened and its footer read."""
        facts: decoder.Facts = self.ask(self._opened(form))
        self.schema, self.columns, self.groups = facts.schema, facts.columns, facts.groups
        if self._view is not None:
            view, self._starts = self._view, [0, *accumulate(rows for rows, _ in facts.groups)]
            row_counts = map(view.rows_left, self._starts, (rows for rows, _ in facts.groups))
            self.schema = view.schema
            self.groups = tuple(zip(row_counts, (size for _, size in facts.groups), strict=True))

    def _opened(self, form: str) -> decoder.OpenFile | LanceFragment:
        if isinstance(self._source, FragmentStream):
            return self._source.fragment
        with translate_read_errors(self._where):
            size = self._source.seek(0, 2)
            path, inode = _local_path(self._source)
        return decoder.OpenFile(self._where, form, size, path, inode)

    def batches(
        self,
        rows: int,
        groups: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        size: int | None = None,
    ) -> Iterator[ValidBatch]:
        """Yield checked batches of at most so many rows, and of about `size` bytes if it is given.

        Only one iteration can be open: starting another one ends those that were started before.
        """
        if self._view is None:
            yield from self._stored_batches(rows, groups, columns, size)
            return
        for group in range(len(self.groups)) if groups is None else groups:
            first = self._starts[group]
            for batch, valid in self._stored_batches(rows, [group], None, size):
                with translate_read_errors(self._where):
                    seen = self._view.apply(batch, first)
                first += batch.num_rows
                yield seen if columns is None else seen.select(list(columns)), valid

    def _stored_batches(
        self,
        rows: int,
        groups: Sequence[int] | None,
        columns: Sequence[str] | None,
        size: int | None,
    ) -> Iterator[ValidBatch]:
        self._settle()
        batch: ValidBatch | None = self.ask(decoder.ReadRows(rows, groups, columns, size))
        while batch is not None:
            yield batch
            batch = self._receive() if self._owed else self.ask(decoder.NextBatch())
            if batch is not None:
                self._send(decoder.NextBatch())

    def close(self) -> None:
        """Let go of the file; the process serves the next one, if it has done all of this one."""
        with suppress(Exception):
            self._settle()
        if self._in_step and self._process.process.poll() is None:
            self._process.send(decoder.CloseFile())
            give_back_process(self._serve, self._process)
        else:
            self._process.end()

    def _settle(self) -> None:
        """Take the reply that nobody has waited for."""
        if self._owed and self._in_step:
            self._receive()

    def ask(self, message: object) -> Any:  # noqa: ANN401 - what fits to the message
        """Send a message to the process, and return its reply."""
        self._send(message)
        return self._receive()

    def _send(self, message: object) -> None:
        self._owed = True
        self._process.send(message)

    def _receive(self) -> Any:  # noqa: ANN401
        self._in_step = False
        while isinstance(reply := self._next_message(), decoder.WantedBytes):
            with translate_read_errors(self._where):
                self._source.seek(reply.start)
                data = self._source.read(reply.size)
            self._process.send(data)
        self._in_step, self._owed = True, False
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _next_message(self) -> Any:  # noqa: ANN401
        try:
            message = self._process.receive()
            if not isinstance(message, decoder.SentBatch):
                return message
            data = self._process.receive_bytes(message.size)
            return pa.ipc.open_stream(data).read_next_batch(), message.valid
        except WorkerDiedError as error:
            problem = f"cannot read it: the process that decodes it {error.end_text}"
            hint = "the file is damaged, or memory is short: fetch or copy it again"
            raise SourceError(self._where, problem, hint) from None


def find_lance_version(request: FindVersion) -> FoundVersion:
    """Return what a version of a Lance table holds. Raises SourceError."""
    fragment = LanceFragment(request.path, 0, 0, 0)
    with FragmentStream(fragment) as stream:
        file = ParquetFile(stream, request.path, decoder.decode_lance)
        try:
            return cast(FoundVersion, file.ask(request))
        finally:
            file.close()


def _local_path(source: BinaryIO) -> tuple[str | None, tuple[int, int] | None]:
    """The path of a file of this machine, with device and inode; None of other streams."""
    raw = getattr(source, "raw", None)
    if not isinstance(raw, io.FileIO) or isinstance(raw.name, int):
        return None, None
    facts = os.fstat(raw.fileno())
    return str(Path(os.fsdecode(raw.name)).absolute()), (facts.st_dev, facts.st_ino)
