"""What a record says to a model as 16 bytes: equal exactly where two records say the same.

The hash is BLAKE2b with a digest of 16 bytes, without key, salt or person, of these bytes:

    PT    "P" text(text)
    SFT   "S" text(system) text(tools) number(messages) { text(role) text(content) flag(loss_mask) }

    text(t)    number(length of t in bytes), then t as UTF-8; null is number(2**64 - 1) alone
    number(n)  eight bytes, the least one first; a list that is null has 2**64 - 1 messages
    flag(f)    01 true, 00 false, ff null

Every text stands behind its length, so no text can pass for another one's end: two records have the
same bytes exactly if they have the same content. `meta` is not in it, null is not "", and PT and
SFT never have the same bytes. The records of both formats of a result hash alike.

The first eight bytes, read as a number with the greatest byte first, choose the split of a record.
"""

import itertools
from collections.abc import Callable
from hashlib import blake2b
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.record_kinds import RecordKind
from ingot.converters.records import kind_of_schema

WIDTH: Final = 16
Hashes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]

_NULL: Final = 2**64 - 1
_NULL_FLAG: Final = 255


def hashes(batch: pa.RecordBatch) -> Hashes:
    """The hash of every record of a batch of `PT_SCHEMA` or `SFT_SCHEMA`.

    Returns:
        array (n, 16) of bytes, in the order of the records.

    Raises:
        ConversionError: the batch holds no unified records.
    """
    kind = kind_of_schema(batch.schema)
    if kind is None:
        hint = "convert the data set first: `ingot convert`"
        raise ConversionError("records", "a batch holds no unified records", hint)
    heads, bodies = _SAID[kind](batch)
    said = b"".join(
        [_digest(head, body) for head, body in zip(heads.slices(), bodies.slices(), strict=True)]
    )
    return np.frombuffer(said, np.uint8).reshape(-1, WIDTH)


def beginnings(hashed: Hashes) -> Numbers:
    """The first eight bytes of each hash as a number, the greatest byte first."""
    return hashed[:, :8].copy().view(">u8")[:, 0].astype(np.uint64)


def endings(hashed: Hashes) -> Numbers:
    """The last eight bytes of each hash likewise."""
    return hashed[:, 8:].copy().view(">u8")[:, 0].astype(np.uint64)


def write_header(stream: BinaryIO, *shape: int) -> None:
    """Begin a NumPy file of bytes, whose values follow in order.

    Of another number of rows the header is as long: NumPy leaves room for it.
    """
    facts = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)


def _digest(head: memoryview, body: memoryview) -> bytes:
    digest = blake2b(head, digest_size=WIDTH)
    digest.update(body)
    return digest.digest()


class _Pieces:
    """One stretch of bytes per record, cut out of one buffer."""

    def __init__(self, buffer: pa.Buffer | None, bounds: npt.NDArray[np.int64]) -> None:
        self._view = memoryview(buffer) if buffer is not None else memoryview(b"")
        self._bounds = bounds.tolist()

    @classmethod
    def of(cls, texts: pa.Array) -> "_Pieces":
        """A `large_binary` array without nulls: a piece per value."""
        return cls(texts.buffers()[2], _offsets(texts))

    @classmethod
    def of_runs(cls, texts: pa.Array, counts: npt.NDArray[np.int64]) -> "_Pieces":
        """The same array, where a piece is the next `counts[i]` values."""
        ends = np.concatenate(([0], np.cumsum(counts)))
        return cls(texts.buffers()[2], _offsets(texts)[ends])

    def slices(self) -> list[memoryview]:
        """The pieces, in order."""
        view, bounds = self._view, self._bounds
        return [view[a:b] for a, b in itertools.pairwise(bounds)]


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    stored = np.frombuffer(texts.buffers()[1], np.int64)
    return stored[texts.offset : texts.offset + len(texts) + 1]


def _said_by_texts(batch: pa.RecordBatch) -> tuple[_Pieces, _Pieces]:
    lengths, texts = _field(batch.column("text"))
    heads = _joined(_tag("P", batch.num_rows), lengths)
    return _Pieces.of(heads), _Pieces.of(texts)


def _said_by_conversations(batch: pa.RecordBatch) -> tuple[_Pieces, _Pieces]:
    messages = batch.column("messages")
    lengths = pc.list_value_length(messages)
    heads = _joined(
        _tag("S", batch.num_rows),
        *_field(batch.column("system")),
        *_field(batch.column("tools")),
        _numbers(lengths),
    )
    flat = messages.flatten()
    turns = _joined(
        *_field(pc.struct_field(flat, "role")),
        *_field(pc.struct_field(flat, "content")),
        _flags(pc.struct_field(flat, "loss_mask")),
    )
    counts = pc.fill_null(lengths, 0).to_numpy().astype(np.int64)
    return _Pieces.of(heads), _Pieces.of_runs(turns, counts)


_SAID: Final[dict[RecordKind, Callable[[pa.RecordBatch], tuple[_Pieces, _Pieces]]]] = {
    "pt": _said_by_texts,
    "sft": _said_by_conversations,
}


def _joined(*columns: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))


def _field(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The numbers before texts, and the texts (null: no bytes)."""
    numbers = _numbers(pc.binary_length(texts))
    return numbers, pc.fill_null(texts.cast(pa.large_binary()), b"")


def _tag(tag: str, count: int) -> pa.Array:
    return _fixed(np.full(count, ord(tag), np.uint8))


def _numbers(counts: pa.Array) -> pa.Array:
    known = pc.fill_null(counts.cast(pa.int64()), 0).to_numpy().astype("<u8")
    return _fixed(np.where(counts.is_null().to_numpy(zero_copy_only=False), _NULL, known))


def _flags(flags: pa.Array) -> pa.Array:
    return _fixed(pc.fill_null(flags.cast(pa.uint8()), _NULL_FLAG).to_numpy())


def _fixed(values: npt.NDArray[np.uint8] | Numbers) -> pa.Array:
    """Numbers as texts of their bytes."""
    width = values.dtype.itemsize
    starts = np.arange(0, (len(values) + 1) * width, width, dtype=np.int64)
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
