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
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.records.readers import kind_of_schema
from ingot.converters.records.schema import RecordKind

WIDTH: Final = 16
HASHES_HEADER: Final = 128  # bytes before the hashes in a file of NumPy
Hashes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]

_NULL: Final = 2**64 - 1


def hash_records(batch: pa.RecordBatch) -> Hashes:
    """Return the hash of every record of a batch of `PT_SCHEMA` or `SFT_SCHEMA`."""
    kind = kind_of_schema(batch.schema)
    if kind is None:
        hint = "convert the data set first"
        raise ConversionError("records", "a batch holds no ingot records", hint)
    heads, bodies = _RECORD_PARTS[kind](batch)
    digests = b"".join([_digest(head, body) for head, body in zip(heads, bodies, strict=True)])
    return np.frombuffer(digests, np.uint8).reshape(-1, WIDTH)


def hash_heads(hashed: Hashes, start: int = 0) -> Numbers:
    """Return eight bytes of each hash, from `start` on, as a big-endian number."""
    return hashed[:, start : start + 8].copy().view(">u8")[:, 0].astype(np.uint64)


def write_header(stream: BinaryIO, *shape: int) -> None:
    """Begin a NumPy file of bytes; its header is as long for any number of rows."""
    facts = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)


def _digest(head: memoryview, body: memoryview) -> bytes:
    digest = blake2b(head, digest_size=WIDTH)
    digest.update(body)
    return digest.digest()


_Parts = tuple[list[memoryview], list[memoryview]]
"""Head and body of every record."""


def _slices(texts: pa.Array, counts: npt.NDArray[np.int64] | None = None) -> list[memoryview]:
    """The values of a `large_binary` array without nulls, or the next `counts[i]` of them each."""
    _, stored, buffer = texts.buffers()
    bounds = np.frombuffer(stored, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if counts is not None:
        bounds = bounds[np.concatenate(([0], np.cumsum(counts)))]
    view = memoryview(buffer) if buffer is not None else memoryview(b"")
    return [view[a:b] for a, b in itertools.pairwise(bounds.tolist())]


def _text_parts(batch: pa.RecordBatch) -> _Parts:
    lengths, texts = _length_field(batch.column("text"))
    heads = _join_columns(_tag("P", batch.num_rows), lengths)
    return _slices(heads), _slices(texts)


def _conversation_parts(batch: pa.RecordBatch) -> _Parts:
    messages = batch.column("messages")
    lengths = pc.list_value_length(messages)
    heads = _join_columns(
        _tag("S", batch.num_rows),
        *_length_field(batch.column("system")),
        *_length_field(batch.column("tools")),
        _number_field(lengths),
    )
    flat = messages.flatten()
    flags = pc.struct_field(flat, "loss_mask")
    turns = _join_columns(
        *_length_field(pc.struct_field(flat, "role")),
        *_length_field(pc.struct_field(flat, "content")),
        _bytes_column(pc.fill_null(flags.cast(pa.uint8()), 0xFF).to_numpy()),
    )
    counts = pc.fill_null(lengths, 0).to_numpy().astype(np.int64)
    return _slices(heads), _slices(turns, counts)


_RECORD_PARTS: Final[dict[RecordKind, Callable[[pa.RecordBatch], _Parts]]] = {
    "pt": _text_parts,
    "sft": _conversation_parts,
}


def _join_columns(*columns: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))


def _length_field(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The numbers before texts, and the texts (null: no bytes)."""
    numbers = _number_field(pc.binary_length(texts))
    return numbers, pc.fill_null(texts.cast(pa.large_binary()), b"")


def _tag(tag: str, count: int) -> pa.Array:
    return _bytes_column(np.full(count, ord(tag), np.uint8))


def _number_field(counts: pa.Array) -> pa.Array:
    known = pc.fill_null(counts.cast(pa.int64()), 0).to_numpy().astype("<u8")
    return _bytes_column(np.where(counts.is_null().to_numpy(zero_copy_only=False), _NULL, known))


def _bytes_column(values: npt.NDArray[np.uint8] | Numbers) -> pa.Array:
    """Numbers as texts of their bytes."""
    width = values.dtype.itemsize
    starts = np.arange(0, (len(values) + 1) * width, width, dtype=np.int64)
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


_PART = re.compile(r"([a-z0-9_-]{1,50})=((?:[0-9]*\.)?[0-9]+)", re.ASCII)
_LONGEST: Final = 40  # digits of a fraction
_TOLERANCE: Final = Fraction(1, 10**9)
_HINT: Final = "such as train=0.98,valid=0.02"


@dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """Splits in their order: names, and the fractions as texts without zeros at their end."""

    names: tuple[str, ...]
    fractions: tuple[str, ...]

    def bounds(self) -> tuple[int, ...]:
        """Return the upper bounds of `v` of all splits but the last, each at most 2**64 - 1."""
        sums = itertools.accumulate(Fraction(one) for one in self.fractions[:-1])
        return tuple(min(math.ceil(end * 2**64), 2**64 - 1) for end in sums)

    def places(self, heads: Numbers) -> npt.NDArray[np.int64]:
        """Return the number of the split of each `v`."""
        bounds = np.array(self.bounds(), np.uint64)
        return np.searchsorted(bounds, heads, "right").astype(np.int64)

    def to_json(self) -> list[dict[str, str]]:
        """Return the splits as a manifest holds them."""
        pairs = zip(self.names, self.fractions, strict=True)
        return [{"name": name, "fraction": fraction} for name, fraction in pairs]


ALL: Final = Splits(names=("all",), fractions=("1",))
"""One split that holds everything."""


def parse_splits(text: str) -> Splits:
    """Return splits as a person writes them: `train=0.98,valid=0.02`."""
    parts = [_parse_part(part.strip()) for part in text.split(",")]
    names = tuple(name for name, _ in parts)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        problem = f"{twice[0]} is named twice"
        raise ConversionError("`split`", problem, "give each split its own name")
    total = sum((Fraction(fraction) for _, fraction in parts), Fraction())
    if abs(total - 1) > _TOLERANCE:
        problem = f"the fractions add up to {float(total):.12g}, not to 1"
        raise ConversionError("`split`", problem, _HINT)
    return Splits(names=names, fractions=tuple(fraction for _, fraction in parts))


def _parse_part(part: str) -> tuple[str, str]:
    match = _PART.fullmatch(part)
    if not match or len(match[2]) > _LONGEST:
        problem = f"{part[:60]!r} is not a split: a name of a-z, 0-9, _ and -, then =FRACTION"
        raise ConversionError("`split`", problem, _HINT)
    fraction = Decimal(match[2])
    if not 0 < fraction <= 1:
        problem = f"the fraction of {match[1]} is {match[2]}, not above 0 and at most 1"
        raise ConversionError("`split`", problem, _HINT)
    text = f"{fraction:f}"
    return match[1], text.rstrip("0").rstrip(".") if "." in text else text
