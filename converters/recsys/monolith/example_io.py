"""Streams of Monolith for Python: Examples and ExampleBatches as protobuf objects, in and out."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.output.files import output_errors, whole_file
from ingot.converters.recsys.monolith.contract import REASONS
from ingot.converters.recsys.monolith.frames.compression import (
    compression_by_name,
    open_decompressed,
)
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.frames.record_io import RecordReader, RecordWriter
from ingot.converters.recsys.monolith.record_index import Bad, Records, records_of_messages
from ingot.converters.recsys.monolith.streams import STDIN, find_inputs, read_rows
from ingot.converters.sources.recognizers.monolith import MAX_RECORD, Kind

if TYPE_CHECKING:
    from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch

Where = str | os.PathLike[str] | BinaryIO
"""A file, a folder, a glob or a URL, `-` for standard input or output, or an open binary stream."""
_BUFFER_BYTES = 4 << 20


def bad_record_error(
    location: str,
    bad: Bad,
    hint: str = "set `skip_bad` to skip what cannot be used",
    *,
    of_table: bool = False,
) -> SourceError:
    """Return the error for a bad record, or a bad row of a table, with its position."""
    row = "" if bad.row is None else f", row {bad.row}"
    position = f"record {bad.record}{row}, at byte {bad.offset}"
    if of_table:
        position = f"row {bad.record}"
    detail = f": {bad.detail}" if bad.detail else ""
    return SourceError(location, f"{position}: {REASONS[bad.reason]}{detail}", hint)


class _StreamSource:
    def __init__(
        self,
        where: Where,
        kind: Kind,
        framing: Framing | str,
        compression: str | None,
        skip_bad: bool,
    ) -> None:
        self.framing, self.rejects = Framing.parse(framing), Counter[str]()
        if kind not in MAX_RECORD:
            raise ConversionError("kind", f"{kind!r} is unknown", f"use {', '.join(MAX_RECORD)}")
        self.where, self.kind = where, kind
        self.compression, self.skip_bad = compression, skip_bad

    def records(self) -> Iterator[tuple[RecordReader, Records]]:
        """Yield the records of all streams, each with the reader of its stream."""
        for name, stream in _open_streams(self.where):
            with stream:
                data = open_decompressed(stream, name, self.compression, self.kind)
                reader = RecordReader(data, name, self.framing, self.kind)
                for part in reader:
                    if isinstance(part, Bad):
                        self.pass_over(reader, part)
                    else:
                        yield reader, part

    def pass_over(self, reader: RecordReader, bad: Bad) -> None:
        """Count it. Raises SourceError where nothing is to be passed over."""
        if not self.skip_bad:
            # What framing found is told what to do about already.
            advice = "" if bad.bytes else reader.advice()
            detail = f"{bad.detail}; {advice}" if advice else bad.detail
            raise bad_record_error(reader.where, replace(bad, detail=detail))
        self.rejects[bad.reason] += 1


def _open_streams(where: Where) -> Iterator[tuple[str, BinaryIO]]:
    """Streams and their names; those of a folder by name, without hidden and side files."""
    if not isinstance(where, str | os.PathLike):
        yield str(getattr(where, "name", "stream")), cast(BinaryIO, _CallerStream(where))
        return
    text = os.fspath(where)
    if text == STDIN:
        yield "standard input", cast(BinaryIO, _CallerStream(sys.stdin.buffer))
        return
    for file in find_inputs(text).files:
        yield str(file.place), file.place.open()


class _CallerStream(AbstractContextManager["_CallerStream"]):
    """A stream of the caller's: read, and never closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the stream has
        return getattr(self._stream, name)

    def __exit__(self, *_: object) -> None:
        """Leave it open."""

    def close(self) -> None:
        """Leave it open."""


def _parse_messages(streams: _StreamSource, message: Any) -> Iterator[Any]:  # noqa: ANN401 - generated
    """Parse the records of streams; a lagrangex header's key becomes theirs."""
    from ingot.converters.recsys.monolith.contract import DecodeError

    for reader, records in streams.records():
        for number in range(len(records)):
            try:
                parsed = message.FromString(records.message(number))
            except DecodeError as error:
                streams.pass_over(reader, records.bad(number, "message", str(error)[:200]))
                continue
            if records.source[number]:
                parsed.data_source_key = int(records.source[number])
            yield parsed


def _convert_examples(streams: _StreamSource) -> Iterator["Example"]:
    from ingot.converters.recsys.monolith.contract import example_pb2
    from ingot.converters.recsys.monolith.wire.message_writer import example_records

    for reader, records in streams.records():
        for part in read_rows([records], streams.kind):
            if isinstance(part, Bad):
                streams.pass_over(reader, part)
                continue
            messages = example_records(part)
            for number in range(len(messages)):
                yield example_pb2.Example.FromString(messages.message(number))


class ExampleReader(Iterator["Example"]):
    """Examples, one after the other.

    Attributes:
        rejects: what was passed over so far, counted by reason (`contract.REASONS`).
    """

    def __init__(self, streams: _StreamSource) -> None:
        from ingot.converters.recsys.monolith.contract import example_pb2

        self.rejects = streams.rejects
        self._examples = (
            _parse_messages(streams, example_pb2.Example)
            if streams.kind == "example"
            else _convert_examples(streams)
        )

    def __next__(self) -> "Example":
        return next(self._examples)


def read_examples(
    where: Where,
    *,
    kind: Kind = "example",
    framing: Framing | str = "sort_id",
    compression: str | None = None,
    skip_bad: bool = False,
) -> ExampleReader:
    """Read Examples; memory holds a few megabytes and one record.

    Args:
        where: a file, a folder (its files by name, but hidden and side files such as `_SUCCESS`), a
            glob, a URL, `-` for standard input, or an open binary stream, which stays open.
        kind: of the records; rows of an ExampleBatch and Instances are converted.
        framing: how they are framed, or its name, such as `sort_id,kafka_dump` or `none`.
        compression: none, snappy, zstd, gzip or zlib; None: told by name and content.
        skip_bad: pass over what cannot be used, and count it.

    Raises:
        SourceError: (while it is read) a stream cannot be read, or something in it cannot be used.
        ConversionError: an unknown framing or compression, or a package is missing.
    """
    return ExampleReader(_StreamSource(where, kind, framing, compression, skip_bad))


class ExampleBatchReader(Iterator["ExampleBatch"]):
    """ExampleBatches, one after the other; `examples()` gives their rows instead.

    Attributes:
        rejects: what was passed over so far, counted by reason.
    """

    def __init__(
        self,
        where: Where,
        *,
        framing: Framing | str = "sort_id",
        compression: str | None = None,
        skip_bad: bool = False,
    ) -> None:
        """Read `where`; arguments and errors are those of `read_examples`."""
        from ingot.converters.recsys.monolith.contract import example_pb2

        self._streams = _StreamSource(where, "examplebatch", framing, compression, skip_bad)
        self.rejects = self._streams.rejects
        self._batches: Iterator[ExampleBatch] = _parse_messages(
            self._streams, example_pb2.ExampleBatch
        )

    def __next__(self) -> "ExampleBatch":
        return next(self._batches)

    def examples(self) -> ExampleReader:
        """Return a reader of the rows as Examples, from the beginning, with the same `rejects`."""
        return ExampleReader(self._streams)


def write_examples(
    where: Where,
    examples: Iterable["Example"],
    *,
    framing: Framing | str = "sort_id",
    compression: str | None = None,
    sort_ids: Iterable[bytes] | None = None,
) -> int:
    """Write Examples, by default as Monolith's `FilePBDataset` reads them by default.

    Args:
        where: a file, which appears whole or not at all and replaces one of its name; `-` for
            standard output, or an open binary stream, which stays open.
        examples: to be written, in this order.
        framing: how they are framed, or its name.
        compression: none, snappy, zstd, gzip or zlib; None: by the file's name, else none.
        sort_ids: one for each; None: empty ones where the framing has them.

    Returns:
        How many were written.

    Raises:
        ConversionError: an unknown framing or compression; sort_ids that the framing has no place
            for, or that are more or fewer than Examples; an Example that is empty or too large, or
            whose data_source_key no lagrangex header holds.
        OutputError: the destination cannot be written.
    """
    framing = Framing.parse(framing)
    if sort_ids is not None and not framing.sort_id:
        hint = "leave them out, or choose a framing with sort_id"
        raise ConversionError("sort_ids", f"the framing {framing} has no sort_ids", hint)
    by_name = (
        compression_by_name(os.fspath(where)) if isinstance(where, str | os.PathLike) else None
    )
    with _open_destination(where) as stream:
        writer = RecordWriter(stream, framing, "example", compression or by_name or "none")
        for records in _pack_examples(examples, sort_ids):
            writer.write(records)
        writer.close()
    return writer.records


def _pack_examples(
    examples: Iterable["Example"], sort_ids: Iterable[bytes] | None
) -> Iterator[Records]:
    pending: list[tuple[bytes, bytes, int]] = []
    size = number = 0
    for example, sort_id in _pair_sort_ids(examples, sort_ids):
        if example.DESCRIPTOR.name != "Example":
            problem = f"is an {example.DESCRIPTOR.name}, not an Example"
            raise ConversionError(f"example {number + len(pending)}", problem, "convert it first")
        message = example.SerializeToString(deterministic=True)
        if not message:
            raise ConversionError(f"example {number + len(pending)}", "is empty", "leave it out")
        pending.append((message, sort_id, example.data_source_key))
        size += len(message) + len(sort_id)
        if size >= _BUFFER_BYTES:
            yield _join_messages(pending, number)
            number, size, pending = number + len(pending), 0, []
    if pending:
        yield _join_messages(pending, number)


def _join_messages(pending: list[tuple[bytes, bytes, int]], number: int) -> Records:
    messages, sort_ids, sources = zip(*pending, strict=True)
    return records_of_messages(messages, sort_ids, sources, number)


def _pair_sort_ids(
    examples: Iterable["Example"], sort_ids: Iterable[bytes] | None
) -> Iterator[tuple["Example", bytes]]:
    if sort_ids is None:
        yield from ((example, b"") for example in examples)
        return
    for number, (example, sort_id) in enumerate(zip_longest(examples, sort_ids)):
        if sort_id is None:
            raise ConversionError(f"example {number}", "has no sort_id", "give one for each")
        if example is None:
            problem = "they are more than the Examples"
            raise ConversionError("sort_ids", problem, "give one for each")
        yield example, sort_id


@contextmanager
def _open_destination(where: Where) -> Iterator[BinaryIO]:
    """What is written to; a file gets its name at the end."""
    if not isinstance(where, str | os.PathLike):
        yield where
        return
    text = os.fspath(where)
    if text == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if "://" in text:
        raise OutputError(text, "is not a local file", "write a file and copy it there")
    path = Path(text)
    with output_errors(path), whole_file(path) as stream:
        yield stream
