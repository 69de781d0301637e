"""Megatron's indexed data set on disk, `PREFIX.bin` + `PREFIX.idx`: index and reader.

The index, little-endian: magic `MMIDIDX` and two zero bytes, u64 version 1, u8 dtype code, u64
number of sequences, u64 number of document indices (documents + 1), then int32 lengths of the
sequences in tokens, int64 offsets of the sequences in the `.bin` in bytes, int64 document indices:
document d holds the sequences from `document_indices[d]` to `document_indices[d + 1]`. The `.bin`
is nothing but the token ids. Read from Megatron-LM's `megatron/core/datasets/indexed_dataset.py`,
whose own reader loads what is written here (tests).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError

MAGIC: Final = b"MMIDIDX\x00\x00"
VERSION: Final = 1
HEADER_BYTES: Final = 34
UINT16_VOCABULARY: Final = 65_500  # from this size on Megatron takes int32, though 65,535 would fit
MAX_SEQUENCE: Final = 2**31 - 1  # lengths are int32

# Megatron's codes; there is no uint32.
DTYPES: Final[dict[int, str]] = {
    1: "|u1",
    2: "|i1",
    3: "<i2",
    4: "<i4",
    5: "<i8",
    6: "<f8",
    7: "<f4",
    8: "<u2",
}
WRITTEN: Final = {"uint16": 8, "int32": 4}
MASK_CODE: Final = 1  # loss masks are uint8

TokenDtype = Literal["uint16", "int32"]
EmptyDocs = Literal["index", "drop", "eod"]
Tokens: TypeAlias = npt.NDArray[Any]  # 1-dimensional, any integer type
Lengths: TypeAlias = npt.NDArray[np.int64]


def token_dtype(vocabulary: int, largest_id: int | None = None) -> TokenDtype:
    """The type Megatron takes for a vocabulary of that size: uint16 below 65,500, else int32.

    `largest_id` guards vocabularies with holes, whose ids go beyond their size.
    """
    largest = vocabulary - 1 if largest_id is None else largest_id
    return "uint16" if vocabulary < UINT16_VOCABULARY and largest < 2**16 else "int32"


def index_paths(prefix: Path) -> tuple[Path, Path, Path]:
    """`PREFIX.bin`, `PREFIX.idx`, `PREFIX.meta.json`; a dot in the prefix is part of its name."""
    bin_path, idx_path, meta_path = (
        prefix.with_name(prefix.name + end) for end in (".bin", ".idx", ".meta.json")
    )
    return bin_path, idx_path, meta_path


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexCounts:
    """What a finished data set holds. `documents` includes empty ones that the index keeps."""

    documents: int
    sequences: int
    tokens: int


class Numbers(Protocol):
    """A long list of integers in stretches that fit into memory; can be gone through repeatedly."""

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """The numbers, stretch by stretch."""
        ...


def write_index(path: Path, code: int, lengths: Numbers, document_sizes: Numbers) -> IndexCounts:
    """Write a `.idx` and wait until it is on the disk; memory bounded by the stretches.

    Args:
        path: the file.
        code: Megatron's code of the type of the tokens, see `DTYPES`.
        lengths: tokens per sequence.
        document_sizes: sequences per document, 0 for an empty one.

    Raises:
        ConversionError: the documents do not hold the sequences.
    """
    sequences, documents = (sum(map(len, numbers)) for numbers in (lengths, document_sizes))
    if _total(document_sizes) != sequences:
        raise ConversionError(str(path), "the documents do not hold the sequences")
    width = np.dtype(DTYPES[code]).itemsize
    with path.open("wb") as file:
        file.write(MAGIC + VERSION.to_bytes(8, "little") + code.to_bytes(1, "little"))
        file.write(sequences.to_bytes(8, "little") + (documents + 1).to_bytes(8, "little"))
        file.writelines(some.astype("<i4").data for some in lengths)
        file.writelines(((ends - some) * width).data for some, ends in _running(lengths))
        file.write(np.zeros(1, "<i8").data)
        file.writelines(ends.data for _, ends in _running(document_sizes))
        file.flush()
        os.fsync(file.fileno())
    return IndexCounts(documents=documents, sequences=sequences, tokens=_total(lengths))


def _running(numbers: Numbers) -> Iterator[tuple[Lengths, Lengths]]:
    """Stretches as int64, and the sums of everything up to each number of them."""
    total = 0
    for some in numbers:
        stretch = some.astype("<i8")
        ends = np.cumsum(stretch) + total
        total = int(ends[-1]) if len(ends) else total
        yield stretch, ends.astype("<i8", copy=False)


def _total(numbers: Numbers) -> int:
    return sum(int(some.sum(dtype=np.int64)) for some in numbers)


class IndexedReader:
    """Reads a data set through memory maps, for inspection and tests; checked when it is opened.

    Attributes:
        dtype: type of the ids.
        lengths: int32, tokens per sequence.
        offsets: int64, where each sequence starts in the `.bin`, in bytes.
        document_indices: int64, documents + 1: the first sequence of each document, and the end.
        tokens: all ids, as they lie in the `.bin`.

    Raises:
        ConversionError: a file is missing, cut, or no Megatron data set, or the two do not match.
    """

    def __init__(self, prefix: Path) -> None:
        self._bin_path, self._idx_path, _ = index_paths(prefix)
        index = _mapped(self._idx_path)
        self.dtype, sequences, indices = self._header(index[:HEADER_BYTES].tobytes())
        ends = list(accumulate((HEADER_BYTES, 4 * sequences, 8 * sequences, 8 * indices)))
        if len(index) < ends[-1]:
            raise self._broken(f"{len(index)} bytes, {ends[-1]} expected")
        self.lengths = index[ends[0] : ends[1]].view("<i4")
        self.offsets = index[ends[1] : ends[2]].view("<i8")
        self.document_indices = index[ends[2] : ends[3]].view("<i8")
        self.tokens = self._token_map()

    def _header(self, header: bytes) -> tuple[np.dtype[Any], int, int]:
        version = int.from_bytes(header[9:17], "little")
        if len(header) < HEADER_BYTES or not header.startswith(MAGIC) or version != VERSION:
            raise self._broken("not a Megatron index of version 1")
        if header[17] not in DTYPES:
            raise self._broken(f"unknown dtype code {header[17]}")
        sequences, indices = (int.from_bytes(header[i : i + 8], "little") for i in (18, 26))
        return np.dtype(DTYPES[header[17]]), sequences, indices

    def _token_map(self) -> Tokens:
        data = _mapped(self._bin_path)
        expected = int(self.lengths.sum(dtype=np.int64)) * self.dtype.itemsize
        if len(data) != expected:
            raise self._broken(f"{self._bin_path.name} has {len(data)} bytes, {expected} expected")
        if not len(self.document_indices) or self.document_indices[-1] != len(self.lengths):
            raise self._broken("the documents do not end with the last sequence")
        return data.view(self.dtype)

    def _broken(self, problem: str) -> ConversionError:
        return ConversionError(str(self._idx_path), problem, "build the tokens again")

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    def __getitem__(self, sequence: int) -> Tokens:
        """Ids of one sequence."""
        start = int(self.offsets[sequence]) // self.dtype.itemsize
        return self.tokens[start : start + int(self.lengths[sequence])]

    @property
    def documents(self) -> int:
        """Number of documents, the empty ones included."""
        return len(self.document_indices) - 1

    def document(self, number: int) -> Tokens:
        """Ids of one document: its sequences, one after another."""
        first, end = self.document_indices[number : number + 2]
        return np.concatenate([np.empty(0, self.dtype), *[self[i] for i in range(first, end)]])

    @property
    def counts(self) -> IndexCounts:
        """Documents, sequences and tokens."""
        return IndexCounts(
            documents=self.documents, sequences=len(self), tokens=int(self.tokens.size)
        )


def _mapped(path: Path) -> npt.NDArray[np.uint8]:
    try:
        if path.stat().st_size == 0:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r")
    except OSError as error:
        raise ConversionError(
            str(path), f"cannot be read: {error.strerror}", "give the prefix without an ending"
        ) from error
