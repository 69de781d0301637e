"""Read the records of a stream a block at a time, and write records in frames as Monolith does.

Every byte of a stream lies in a record or in a `Bad`. What cannot be a record is passed over where
it is known how far it goes, else it takes the rest of the stream with it: nothing marks where the
next frame begins.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, SourceError, translate_read_errors
from ingot.converters.recsys.monolith.frames.compression import new_compressor
from ingot.converters.recsys.monolith.frames.framing import (
    HEAD,
    MAX_SORT_ID,
    Framing,
    find_better_framing,
    message_kind,
    reading_advice,
)
from ingot.converters.recsys.monolith.record_index import Bad, Bytes, Places, Records, Rows, frozen
from ingot.converters.sources.recognizers import monolith as recognition
from ingot.converters.sources.recognizers.monolith import MAX_RECORD, Kind

BLOCK: Final = 4 << 20  # bytes that are read before their records are given
_MOST: Final = 1 << 16
_STEP: Final = 1 << 20
_LOOKED_AT: Final = 512  # bytes of the first message, many times that of a large one
_BATCH_SIZE: Final = (3, 0)  # a field of ExampleBatch and its wire type
_NOTHING: Final[Bytes] = np.zeros(0, np.uint8)
# A quick look at each sort_id: the first bytes of messages that say what they are.
_TAGS: Final = b"\x0a\x12\xa2\x09\x15\x1a\x1d\x2a"


class _ScanEnd(NamedTuple):
    """What lies behind the records that were found: a state of `kernels`, and its numbers."""

    state: int
    place: int
    size: int


class OtherKindError(SourceError):
    """The records of a stream are of another kind than they were taken for."""


class RecordReader:
    """The records of a stream, and what is none, in its order; can be iterated once.

    Gives `Records`, whose arrays stay as they are, and `Bad`s with the reasons truncated, size,
    deadbeef, sort_id and empty. Numbers count each record, a good one or not. Memory holds a
    block and one record, whatever a size says.

    A sort_id that is itself a message, of any kind, ends the reading: such a stream has another
    framing, and going on would lose every second record. What its bytes look like from there on
    stands in the `Bad`'s detail.

    Where the stream cannot be read, or ends inside compressed data, SourceError comes after all
    records before that point. Then `broken` is where the record begins in which reading failed, and
    how many bytes of it there are.
    """

    def __init__(
        self, stream: BinaryIO, where: str, framing: Framing, kind: Kind, block: int = BLOCK
    ) -> None:
        """Read `stream` from where it stands; `where` names it in errors."""
        from ingot.converters.recsys.monolith.frames.kernels import Frames

        self._stream = stream
        self.where = where
        self._framing = framing
        self._kind = kind
        self._block = block
        self._data = _NOTHING
        self._at = 0  # in the data
        self._base = 0  # of the data, in the stream
        self._number = 0
        self._ended = False
        self._error: SourceError | None = None
        self.broken = (0, 0)
        self._head = b""
        self._looked_at = False
        positions = {name: np.empty(_MOST, np.int64) for name in Frames._fields if name != "source"}
        self._scratch = Frames(source=np.empty(_MOST, np.uint32), **positions)

    def __iter__(self) -> Iterator[Records | Bad]:
        self._fill(self._block)
        self._head = self._data[:HEAD].tobytes()
        while self._left():
            records, end = self._scan()
            mistaken = self._find_mistaken(records)
            if mistaken is not None:
                yield from self._refuse(records, mistaken)
                continue
            if len(records):
                self._check_kind(records)
                yield records
            del records  # its bytes are not held while the next are read
            yield from self._resolve(end)
        if self._error is not None:
            raise self._error

    def advice(self) -> str:
        """Return the option that would read the stream's beginning better, empty if unknown."""
        return reading_advice(self._head, self._framing, self._kind)

    def _check_kind(self, records: Records) -> None:
        """See that the first message is not of another kind: some read as others, as nonsense."""
        if self._looked_at:
            return
        self._looked_at = True
        start, size = int(records.start[0]), int(records.stop[0] - records.start[0])
        head = records.data[start : start + min(size, HEAD)].tobytes()
        other = _find_other_kind(head, size, self._kind)
        if other is not None:
            problem = f"its records are of kind {other}, not {self._kind}"
            raise OtherKindError(self.where, problem, f"set `source` to {other}")

    def _left(self) -> bool:
        """Whether there is more of the stream; reads on where the data is used up."""
        if self._at == len(self._data):
            self._fill(self._block)
        return bool(len(self._data))

    def _fill(self, target: int) -> None:
        """Drop what was used and read until `target` bytes are there, or the stream ends."""
        data = bytearray(self._data[self._at :].data)
        self._base += self._at
        self._data, self._at = _NOTHING, 0
        while len(data) < target and (chunk := self._read(min(self._block, target - len(data)))):
            data += chunk
        self._data = np.frombuffer(data, np.uint8)
        self._data.flags.writeable = False

    def _read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end and after an error, which is kept."""
        if self._ended:
            return b""
        try:
            with translate_read_errors(self.where):
                data = self._stream.read(size)
                if data is None:
                    raise SourceError(self.where, "has no bytes yet", "open it in blocking mode")
        except SourceError as error:
            self._error, data = error, b""
        self._ended = not data
        return data

    def _scan(self) -> tuple[Records, _ScanEnd]:
        from ingot.converters.recsys.monolith.frames.kernels import scan_frames

        limit = MAX_RECORD[self._kind]
        count, state, position, next_position, size = scan_frames(
            self._data, self._at, self._framing.bits, MAX_SORT_ID, limit, self._scratch
        )
        arrays = {name: array[:count].copy() for name, array in self._scratch._asdict().items()}
        arrays["offset"] += self._base
        first, self._number = self._number, self._number + int(count)
        record = np.arange(first, self._number)
        records = Records(data=self._data, record=record, **arrays)
        self._at = int(position)
        return records, _ScanEnd(state, int(next_position), int(size))

    def _find_mistaken(self, records: Records) -> int | None:
        """The first record whose sort_id is itself a message."""
        length = records.sort_stop - records.sort_start
        candidates = np.flatnonzero(length)
        tags = np.frombuffer(_TAGS, np.uint8)
        candidates = candidates[np.isin(records.data[records.sort_start[candidates]], tags)]
        return next(
            (int(number) for number in candidates if message_kind(records.sort_id(int(number)))),
            None,
        )

    def _refuse(self, records: Records, number: int) -> Iterator[Records | Bad]:
        """The records before `number`, and the rest of the stream as none."""
        if number:
            yield records.part(0, number)
        self._number = int(records.record[number])
        self._at = int(records.offset[number]) - self._base
        yield self._bad(
            "sort_id", f"its sort_id is itself an {message_kind(records.sort_id(number))}"
        )

    def _resolve(self, end: _ScanEnd) -> Iterator[Bad]:
        from ingot.converters.recsys.monolith.frames import kernels

        if end.state == kernels.MORE:
            if not self._ended:
                self._fill(max(self._block, end.place - self._at))
            elif self._error is None:
                remaining = len(self._data) - self._at
                needed = end.place - self._at
                yield self._bad("truncated", f"needs {needed} bytes at least, {remaining} are left")
            else:
                self.broken = self._base + self._at, len(self._data) - self._at
                self._at = len(self._data)
        elif end.state == kernels.EMPTY:
            yield self._bad("empty", "its size is 0", end.place - self._at)
        elif end.state == kernels.SIZE:
            limit = MAX_RECORD[self._kind]
            problem = f"its size is {end.size}, the limit is {limit}"
            yield self._bad("size", problem, end.place - self._at + end.size)
        elif end.state == kernels.NEVER_WRITTEN:
            yield self._bad("deadbeef", "")
        elif end.state == kernels.SORT_ID:
            yield self._bad("sort_id", f"a sort_id of {end.size} bytes is over {MAX_SORT_ID}")

    def _bad(self, reason: str, detail: str, length: int | None = None) -> Bad:
        """Pass over so many bytes, or the rest; of that, or the first record, advice is given."""
        if length is None or not self._base + self._at:
            detail += self._advice()
        offset, count = self._drop(length)
        self._number += 1
        number = self._number - 1
        return Bad(offset=offset, bytes=count, record=number, reason=reason, detail=detail)

    def _drop(self, length: int | None) -> tuple[int, int]:
        """Pass over so many bytes, or all; gives where they begin and how many there were."""
        offset = self._base + self._at
        buffered = len(self._data) - self._at
        if length is not None and length <= buffered:
            self._at += length
            return offset, length
        self._at = len(self._data)
        self._fill(0)
        skipped = self._skip(None if length is None else length - buffered)
        self._base += skipped
        self._fill(self._block)
        return offset, buffered + skipped

    def _skip(self, length: int | None) -> int:
        """Bytes of the stream that were passed over unseen."""
        skipped = 0
        while length is None or skipped < length:
            data = self._read(_STEP if length is None else min(_STEP, length - skipped))
            if not data:
                break
            skipped += len(data)
        return skipped

    def _advice(self) -> str:
        """What the bytes from here on look like; in mid-stream only another framing is told."""
        if len(self._data) - self._at < HEAD:
            self._fill(HEAD)
        head = self._data[self._at : self._at + HEAD].tobytes()
        if not self._base + self._at:
            advice = reading_advice(head, self._framing, self._kind)
            return advice and f"; {advice}"
        framing = find_better_framing(head, self._framing, self._kind)
        return "" if framing is None else f"; from here on it reads with framing {framing}"


def _find_other_kind(head: bytes, size: int, kind: Kind) -> Kind | None:
    """What a message is, as its beginning and its fields tell, where that is another kind."""
    is_complete = size == len(head)
    beginning = head[: _LOOKED_AT if is_complete else 64 * _LOOKED_AT]
    if kind == "instance" and recognition.instance_kind(beginning, 0, size):
        return None
    try:
        fields = recognition.read_fields(head, 0, size)
        sized = any((number, wire) == _BATCH_SIZE for number, wire, *_ in fields)
    except recognition.NotAMessageError:
        return None
    recognized = recognition.message_kind(beginning, 0, size)
    other: Kind | None = "examplebatch" if recognized == "example" and sized else recognized
    if is_complete and not sized and other == "examplebatch":
        return None  # a feature said twice looks like a list of two; a batch says its size, too
    if not is_complete and other == "example" and kind == "examplebatch":
        return None  # nothing in its beginning may tell a batch from an Example
    if other == kind or not recognition.message_kind(head, 0, size):  # all of it, not a few bytes
        return None
    return other


def find_unwritable(
    records: Records | Rows, sizes: Places, framing: Framing, kind: Kind
) -> dict[str, NDArray[np.bool_]]:
    """Return bool[R] by reason: too large, or a data_source_key that fits no lagrangex header."""
    lengths = records.sort_stop - records.sort_start
    low = (records.source & np.uint32(255)) != 0
    return {
        "size": sizes > MAX_RECORD[kind],
        "sort_id": (lengths > MAX_SORT_ID) & framing.sort_id,
        "data_source_key": low & framing.lagrangex_header,
    }


def frame_records(records: Records, framing: Framing, kind: Kind) -> Bytes:
    """Return the records as a stream has them: uint8[N].

    A sort_id is dropped if the framing has none, a data_source_key if it has no lagrangex header.
    """
    from ingot.converters.recsys.monolith.frames.kernels import Frames, write_frames

    sizes = records.stop - records.start
    problems = {
        "size": f"is over {MAX_RECORD[kind]} bytes",
        "sort_id": f"has a sort_id of over {MAX_SORT_ID} bytes",
        "data_source_key": "has a data_source_key that no lagrangex header holds",
    }
    for reason, wrong in find_unwritable(records, sizes, framing, kind).items():
        if wrong.any():
            hint = "the low 8 bits of a data_source_key must be 0, sizes within Monolith's limits"
            number = records.record[int(wrong.argmax())]
            raise ConversionError(f"record {number}", problems[reason], hint)
    total = int(sizes.sum()) + framing.head_bytes * len(records)
    if framing.sort_id:
        total += int((records.sort_stop - records.sort_start).sum())
    out = np.empty(total, np.uint8)
    frames = Frames._make(frozen(getattr(records, name)) for name in Frames._fields)
    write_frames(frozen(records.data), frames, framing.bits, out)
    return out


class RecordWriter:
    """Writes records to a stream, framed and compressed."""

    def __init__(
        self, stream: BinaryIO, framing: Framing, kind: Kind, compression: str = "none"
    ) -> None:
        """Write to `stream`, which stays open; `compression` is one of `COMPRESSIONS`."""
        self._stream, self._compressor = stream, new_compressor(compression)
        self._framing = framing
        self._kind = kind
        self.records = 0
        self.bytes = 0

    def write(self, records: Records) -> None:
        """Append records. Raises ConversionError for what `framed` refuses."""
        self.append(frame_records(records, self._framing, self._kind).tobytes(), len(records))

    def append(self, data: bytes | bytearray, records: int) -> None:
        """Append so many records that are in frames."""
        self._write(self._compressor.compress(data))
        self.records += records
        self.bytes += len(data)

    def close(self) -> None:
        """Write what compression still holds; the stream below stays open."""
        self._write(self._compressor.flush())

    def _write(self, data: bytes | bytearray) -> None:
        if data:
            self._stream.write(data)
