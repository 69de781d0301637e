"""Text columns of rows to one text a row: decoded, stripped, joined."""

import codecs
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WINDOW: Final = 4_096
FOUND_BYTES: Final = 100  # of what is no UTF-8, in a reject
# What `str.strip` takes off.
WHITE_SPACE: Final = "".join(c for c in map(chr, range(0x3001)) if c.isspace())

Flags: TypeAlias = npt.NDArray[np.bool_]
_Bad: TypeAlias = list[tuple[int, str]]  # places, and what is there

_NULL: Final = pa.scalar(None, pa.large_string())
_EMPTY: Final = pa.scalar("", pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """One text per row.

    Attributes:
        texts: without nulls; empty where there is none.
        missing: which rows have a null in every column.
        bad: places of the rows with a value that is no UTF-8, and how it begins; their text is
            empty.
    """

    texts: pa.LargeStringArray
    missing: Flags
    bad: dict[int, str]


def joined(table: pa.RecordBatch, *, strip: bool, separator: str) -> Joined:
    """Join the columns of each row; a null or an empty text leaves no separator behind.

    Args:
        table: columns of texts, or of bytes that are UTF-8.
        strip: take white space off both ends of every value.
        separator: between them.
    """
    bad: dict[int, str] = {}
    columns = []
    for column in table.columns:
        texts, wrong = _decoded(column)
        columns.append(_stripped(texts) if strip else texts)
        bad.update({place: found for place, found in wrong if place not in bad})
    missing = np.ones(table.num_rows, np.bool_)
    for column in columns:
        missing &= column.is_null().to_numpy(zero_copy_only=False)
    missing[list(bad)] = False
    texts = _concatenated(columns, separator)
    if bad and len(columns) > 1:
        kept = np.ones(table.num_rows, np.bool_)
        kept[list(bad)] = False
        texts = pc.if_else(pa.array(kept), texts, _EMPTY)
    return Joined(texts=texts, missing=missing, bad=dict(sorted(bad.items())))


def _concatenated(columns: list[pa.LargeStringArray], separator: str) -> pa.LargeStringArray:
    if len(columns) == 1:
        return columns[0].fill_null("") if columns[0].null_count else columns[0]
    parts = [pc.if_else(pc.equal(pc.binary_length(c), 0), _NULL, c) for c in columns]
    # A row of nothing but nulls would be missing from what Arrow joins.
    bare = np.logical_and.reduce([p.is_null().to_numpy(zero_copy_only=False) for p in parts])
    parts[0] = pc.if_else(pa.array(bare), _EMPTY, parts[0])
    between = pa.scalar(separator, pa.large_string())
    return pc.binary_join_element_wise(*parts, between, null_handling="skip")


def bytes_of(texts: pa.LargeStringArray, place: int) -> memoryview:
    """The bytes of a text where they lie; a scalar of Arrow would be a copy."""
    _, offsets, data = texts.buffers()
    place += texts.offset
    start, end = np.frombuffer(offsets, np.int64)[place : place + 2].tolist()
    return memoryview(b"" if data is None else data)[start:end]


def _stripped(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    if len(texts) != 1 or texts.null_count:
        return pc.utf8_trim(texts, characters=WHITE_SPACE)
    # One alone may be a very long one: it stays where it is.
    own = bytes_of(texts, 0)
    start = _leading(own)
    end = len(own) - _trailing(own[start:])
    base = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset]
    offsets = pa.py_buffer(np.array([base + start, base + end], np.int64))
    return pa.LargeStringArray.from_buffers(1, offsets, texts.buffers()[2] or pa.py_buffer(b""))


def _leading(text: memoryview) -> int:
    """Bytes of white space that UTF-8 begins with."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    found = 0
    for start in range(0, len(text), _WINDOW):
        block = decoder.decode(text[start : start + _WINDOW])
        rest = block.lstrip()
        found += len(block[: len(block) - len(rest)].encode())
        if rest:
            break
    return found


def _trailing(text: memoryview) -> int:
    """Bytes of white space that UTF-8 ends with."""
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


def _decoded(column: pa.Array) -> tuple[pa.LargeStringArray, _Bad]:
    """A column as texts; values that are no UTF-8 are null, their places and starts are given."""
    try:
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _decoded_one_by_one(column)
    return texts, []


def _decoded_one_by_one(column: pa.Array) -> tuple[pa.LargeStringArray, _Bad]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.cast(pa.large_binary()).take(column.indices)
    texts: list[str | None] = []
    wrong: _Bad = []
    for place, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            wrong.append((place, f"byte {error.start}: {value[:FOUND_BYTES]!r}"))
            texts.append(None)
    return pa.array(texts, pa.large_string()), wrong
