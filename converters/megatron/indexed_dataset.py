"""Read and write Megatron's indexed data set on disk: `PREFIX.bin` + `PREFIX.idx`.

The index, little-endian: magic `MMIDIDX` and two zero bytes, u64 version 1, u8 dtype code, u64
number of sequences, u64 number of document indices (documents + 1), then int32 lengths of the
sequences in tokens, int64 offsets of the sequences in the `.bin` in bytes, int64 document indices:
document d holds the sequences from `document_indices[d]` to `document_indices[d + 1]`. The `.bin`
is nothing but the token ids. Read from Megatron-LM's `megatron/core/datasets/indexed_dataset.py`,
whose own reader loads what is written here (tests).
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import load_json
from ingot.converters.rows import Json

MAGIC: Final = b"MMIDIDX\x00\x00"
INDEX_VERSION: Final = 1
HEADER_BYTES: Final = 34
UINT16_VOCABULARY: Final = 65_500  # from this size on Megatron takes int32, though 65,535 would fit

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
WRITTEN_CODES: Final = {"uint16": 8, "int32": 4}
MASK_CODE: Final = 1  # loss masks are uint8

TokenDtype = Literal["uint16", "int32"]
Tokens: TypeAlias = npt.NDArray[Any]  # 1-dimensional, any integer type
Lengths: TypeAlias = npt.NDArray[np.int64]


def token_dtype(vocabulary: int, largest_id: int | None = None) -> TokenDtype:
    """Return Megatron's type for a vocabulary of that size: uint16 below 65,500, else int32.

    `largest_id` guards vocabularies with holes, whose ids exceed their size.
    """
    largest = vocabulary - 1 if largest_id is None else largest_id
    return "uint16" if vocabulary < UINT16_VOCABULARY and largest < 2**16 else "int32"


def index_paths(prefix: Path) -> tuple[Path, Path, Path]:
    """Return `PREFIX.bin`, `PREFIX.idx` and `PREFIX.meta.json`; the prefix may have a dot."""
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


# A long list of integers in stretches that fit into memory; every call begins anew.
NumberStretches: TypeAlias = Callable[[], Iterator[npt.NDArray[Any]]]


def write_index(
    path: Path, code: int, lengths: NumberStretches, document_sizes: NumberStretches
) -> IndexCounts:
    """Write a `.idx` and wait until it is on the disk; memory bounded by the stretches."""
    sequences, documents = (sum(map(len, numbers())) for numbers in (lengths, document_sizes))
    if _sum_numbers(document_sizes) != sequences:
        raise ConversionError(str(path), "the documents do not hold the sequences")
    width = np.dtype(DTYPES[code]).itemsize
    with path.open("wb") as file:
        file.write(MAGIC + INDEX_VERSION.to_bytes(8, "little") + code.to_bytes(1, "little"))
        file.write(sequences.to_bytes(8, "little") + (documents + 1).to_bytes(8, "little"))
        file.writelines(stretch.astype("<i4").data for stretch in lengths())
        file.writelines(
            ((stops - stretch) * width).data for stretch, stops in _running_sums(lengths)
        )
        file.write(np.zeros(1, "<i8").data)
        file.writelines(stops.data for _, stops in _running_sums(document_sizes))
        file.flush()
        os.fsync(file.fileno())
    return IndexCounts(documents=documents, sequences=sequences, tokens=_sum_numbers(lengths))


def _running_sums(numbers: NumberStretches) -> Iterator[tuple[Lengths, Lengths]]:
    """Stretches as int64, and the sums of everything up to each number of them."""
    total = 0
    for numbers_part in numbers():
        stretch = numbers_part.astype("<i8")
        sums = np.cumsum(stretch) + total
        total = int(sums[-1]) if len(sums) else total
        yield stretch, sums.astype("<i8", copy=False)


def _sum_numbers(numbers: NumberStretches) -> int:
    return sum(int(stretch.sum(dtype=np.int64)) for stretch in numbers())


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
        index = _map_file(self._idx_path)
        self.dtype, sequences, indices = self._header(index[:HEADER_BYTES].tobytes())
        section_ends = list(accumulate((HEADER_BYTES, 4 * sequences, 8 * sequences, 8 * indices)))
        if len(index) < section_ends[-1]:
            raise _index_error(self._idx_path, f"{len(index)} bytes, {section_ends[-1]} expected")
        self.lengths = index[section_ends[0] : section_ends[1]].view("<i4")
        self.offsets = index[section_ends[1] : section_ends[2]].view("<i8")
        self.document_indices = index[section_ends[2] : section_ends[3]].view("<i8")
        self.tokens = self._token_map()

    def _header(self, header: bytes) -> tuple[np.dtype[Any], int, int]:
        version = int.from_bytes(header[9:17], "little")
        if len(header) < HEADER_BYTES or not header.startswith(MAGIC) or version != INDEX_VERSION:
            raise _index_error(self._idx_path, "not a Megatron index of version 1")
        if header[17] not in DTYPES:
            raise _index_error(self._idx_path, f"unknown dtype code {header[17]}")
        sequences, indices = (int.from_bytes(header[i : i + 8], "little") for i in (18, 26))
        return np.dtype(DTYPES[header[17]]), sequences, indices

    def _token_map(self) -> Tokens:
        data = _map_file(self._bin_path)
        expected = int(self.lengths.sum(dtype=np.int64)) * self.dtype.itemsize
        if len(data) != expected:
            problem = f"{self._bin_path.name} has {len(data)} bytes, {expected} expected"
            raise _index_error(self._idx_path, problem)
        if not len(self.document_indices) or self.document_indices[-1] != len(self.lengths):
            raise _index_error(self._idx_path, "the documents do not end with the last sequence")
        return data.view(self.dtype)

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    def __getitem__(self, sequence: int) -> Tokens:
        """Ids of one sequence."""
        start = int(self.offsets[sequence]) // self.dtype.itemsize
        return self.tokens[start : start + int(self.lengths[sequence])]

    @property
    def documents(self) -> int:
        """Return the number of documents, empty ones included."""
        return len(self.document_indices) - 1

    def document(self, number: int) -> Tokens:
        """Return the ids of one document: its sequences, one after another."""
        first, end = self.document_indices[number : number + 2]
        return np.concatenate([np.empty(0, self.dtype), *[self[i] for i in range(first, end)]])

    @property
    def counts(self) -> IndexCounts:
        """Return the numbers of documents, sequences and tokens."""
        tokens = int(self.tokens.size)
        return IndexCounts(documents=self.documents, sequences=len(self), tokens=tokens)


def _map_file(path: Path) -> npt.NDArray[np.uint8]:
    try:
        if path.stat().st_size == 0:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ConversionError(str(path), problem, "give the prefix without an ending") from error


STRETCH_NUMBERS: Final = 1 << 20  # numbers that are looked at together

IntegerArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedDataSet:
    """A data set that holds together."""

    prefix: Path  # its place, without the endings
    tokens: IndexedReader
    # the loss masks, 1 = trained, of the same shape; None where there are none
    masks: IndexedReader | None
    meta: dict[str, Json]  # what `PREFIX.meta.json` holds; {} without it

    @property
    def packed(self) -> bool:
        """Return whether a document is a pack, whose sequences are separate texts."""
        options = self.meta.get("options")
        return bool(isinstance(options, dict) and options.get("pack"))

    @property
    def tokenizer(self) -> dict[str, Json]:
        """Return the facts about the tokenizer, {} if there are none."""
        facts = self.meta.get("tokenizer")
        return facts if isinstance(facts, dict) else {}


def mask_prefix(prefix: Path) -> Path:
    """Return the prefix of the loss masks of a data set."""
    return prefix.with_name(prefix.name + ".loss_mask")


def open_data_set(prefix: Path) -> IndexedDataSet:
    """Open a data set and check every number of its index."""
    tokens = IndexedReader(prefix)
    if tokens.dtype.kind not in "iu":
        raise _index_error(index_paths(prefix)[1], f"{tokens.dtype.name} numbers are not token ids")
    check_index(prefix, tokens)
    masks = None
    if any(path.exists() for path in index_paths(mask_prefix(prefix))[:2]):
        masks = IndexedReader(mask_prefix(prefix))
        check_index(mask_prefix(prefix), masks)
        _check_shape(prefix, tokens, masks)
    return IndexedDataSet(prefix=prefix, tokens=tokens, masks=masks, meta=read_meta(prefix))


def read_meta(prefix: Path) -> dict[str, Json]:
    """Return the content of `PREFIX.meta.json`, {} if there is none, as for other tools' files."""
    path = index_paths(prefix)[2]
    if not path.is_file():
        return {}
    try:
        return load_json(path, own=True)
    except (OSError, ValueError) as error:
        raise ConversionError(str(path), str(error), "mend or remove it") from error


def number_stretches(
    numbers: IntegerArray, *, overlap: int = 0
) -> Iterator[tuple[int, IntegerArray]]:
    """Yield views of at most `STRETCH_NUMBERS`, each with its position and some overlap.

    `overlap` is how many of the next numbers each view also holds.
    """
    for start in range(0, len(numbers) - overlap, STRETCH_NUMBERS):
        yield start, numbers[start : start + STRETCH_NUMBERS + overlap]


def sequence_starts(tokens: IndexedReader, sequences: IntegerArray) -> npt.NDArray[np.int64]:
    """Return where sequences start in the `.bin`, in tokens, and where the last one ends."""
    if not len(tokens):
        return np.zeros(len(sequences), np.int64)
    starts = tokens.offsets[np.minimum(sequences, len(tokens) - 1)] // tokens.dtype.itemsize
    return np.where(sequences == len(tokens), tokens.tokens.size, starts).astype(np.int64)


def document_token_counts(tokens: IndexedReader) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the tokens per document in arrays of bounded size."""
    for _, indices in number_stretches(tokens.document_indices, overlap=1):
        yield np.diff(sequence_starts(tokens, indices))


def check_index(prefix: Path, tokens: IndexedReader) -> None:
    """Check every number of an index."""
    path = index_paths(prefix)[1]
    end = 0
    for first, lengths in number_stretches(tokens.lengths):
        stops = np.cumsum(lengths, dtype=np.int64) * tokens.dtype.itemsize + end
        expected = np.concatenate([[end], stops[:-1]])
        wrong = (lengths < 0) | (tokens.offsets[first : first + len(lengths)] != expected)
        _refuse_index(path, wrong, first, "sequence {} does not begin where the one before it ends")
        end = int(stops[-1])
    if tokens.document_indices[0] != 0:
        raise _index_error(path, "the first document does not begin with the first sequence")
    for first, indices in number_stretches(tokens.document_indices, overlap=1):
        _refuse_index(path, np.diff(indices) < 0, first, "document {} ends before it begins")


def _check_shape(prefix: Path, tokens: IndexedReader, masks: IndexedReader) -> None:
    path = index_paths(mask_prefix(prefix))[1]
    if masks.dtype != np.uint8:
        raise _index_error(path, f"loss masks of type {masks.dtype.name}, uint8 expected")
    parts = (
        ("sequence", masks.lengths, tokens.lengths),
        ("document", masks.document_indices, tokens.document_indices),
    )
    for name, ours, theirs in parts:
        if len(ours) != len(theirs):
            raise _index_error(path, f"another number of {name}s than the tokens")
        for first, numbers in number_stretches(ours):
            wrong = numbers != theirs[first : first + len(numbers)]
            _refuse_index(path, wrong, first, f"{name} {{}} is not that of the tokens")


def _refuse_index(path: Path, wrong: npt.NDArray[np.bool_], first: int, problem: str) -> None:
    if wrong.any():
        raise _index_error(path, problem.format(first + int(wrong.argmax())))


def _index_error(path: Path, problem: str) -> ConversionError:
    return ConversionError(str(path), problem, "build the tokens again")


def index_bytes(tokens: IndexedReader) -> int:
    """Return the size of an `.idx` with these sequences and documents and nothing else."""
    return HEADER_BYTES + 12 * len(tokens) + 8 * len(tokens.document_indices)


def dtype_code(tokens: IndexedReader) -> int:
    """Return Megatron's code of the type of the ids."""
    return next(code for code, name in DTYPES.items() if np.dtype(name) == tokens.dtype)
