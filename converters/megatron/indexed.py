"""Megatron's indexed data set on disk, `PREFIX.bin` + `PREFIX.idx`: an exact writer and a reader.

The index, little-endian: magic `MMIDIDX` and two zero bytes, u64 version 1, u8 dtype code, u64
number of sequences, u64 number of document indices (documents + 1), then int32 lengths of the
sequences in tokens, int64 offsets of the sequences in the `.bin` in bytes, int64 document indices:
document d holds the sequences from `document_indices[d]` to `document_indices[d + 1]`. The `.bin`
is nothing but the token ids. Read from Megatron-LM's `megatron/core/datasets/indexed_dataset.py`,
whose own reader loads what is written here (tests).
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.rows import Json

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


class IndexedWriter:
    """Writes a data set: documents in order, then `commit`.

        with IndexedWriter(prefix, "uint16", eod=50256) as writer:
            writer.add_documents(tokens, lengths)
            counts = writer.commit({...})

    Everything is staged under `.tmp` names beside the prefix, and the `.idx` is renamed last: a
    data set without its `.idx` is not there. A block that ends without `commit` leaves nothing, and
    nothing is created before the first token. Memory: 12 bytes per document, 36 during `commit`.

    Args:
        prefix: where to, without the endings; its folder exists.
        dtype: `uint16` or `int32`, see `token_dtype`.
        eod: id that is put after every document that has tokens; None = none.
        empty_docs: what becomes of a document without tokens: `index` = a document without a
            sequence (what Megatron's preprocess_data.py writes), `drop` = left out, `eod` = the
            EOD id alone.
        overwrite: replace a data set that is there; else it is an error.

    Raises:
        OutputError: the data set exists, or it cannot be written.
        ConversionError: an id that the dtype cannot hold, a sequence of 2^31 tokens or more,
            lengths that do not add up, no token at all at `commit`.
    """

    def __init__(
        self,
        prefix: Path,
        dtype: TokenDtype,
        *,
        eod: int | None = None,
        empty_docs: EmptyDocs = "index",
        overwrite: bool = False,
    ) -> None:
        if empty_docs == "eod" and eod is None:
            raise ConversionError(
                str(prefix), "empty documents cannot become an EOD without one", "give the EOD id"
            )
        self.prefix = prefix
        self.dtype: np.dtype[Any] = np.dtype(DTYPES[WRITTEN[dtype]])
        self._code = WRITTEN[dtype]
        self._eod = eod
        self._empty_docs = empty_docs
        self._overwrite = overwrite
        self._paths = index_paths(prefix)
        self._staged = [p.with_name(p.name + ".tmp") for p in self._paths]
        self._bin: BinaryIO | None = None
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._documents: list[Lengths] = [np.zeros(1, np.int64)]
        self._sequences = 0
        self._tokens = 0
        self._check_eod()
        self._check_destination()

    def _check_eod(self) -> None:
        if self._eod is not None:
            self._check_range(np.array([self._eod]))

    def _check_destination(self) -> None:
        idx_path = self._paths[1]
        if not idx_path.parent.is_dir():
            raise OutputError(str(idx_path.parent), "no such folder", "make it first")
        if idx_path.exists() and not self._overwrite:
            raise OutputError(str(idx_path), "exists", "name another prefix or overwrite it")

    def add_documents(self, tokens: Tokens, lengths: Sequence[int] | npt.NDArray[Any]) -> None:
        """Append documents of one sequence each.

        Args:
            tokens: ids of all documents, one after another; any integer type.
            lengths: tokens per document; 0 = an empty document.
        """
        sizes = np.asarray(lengths, np.int64)
        tokens = self._checked(tokens, sizes)
        if self._empty_docs == "drop":
            sizes = sizes[sizes > 0]
        closed = sizes > 0 if self._empty_docs == "index" else np.ones(len(sizes), bool)
        if self._eod is not None:
            tokens = np.insert(tokens, np.cumsum(sizes)[closed], self._eod)
            sizes = sizes + closed
        self._append(tokens, sizes[sizes > 0], np.cumsum(sizes > 0))

    def add_document(
        self, tokens: Tokens, lengths: Sequence[int] | npt.NDArray[Any] | None = None
    ) -> None:
        """Append one document, of several sequences if `lengths` (tokens per sequence) says so.

        The EOD goes into the last sequence; sequences without tokens are left out.
        """
        sizes = np.asarray([len(tokens)] if lengths is None else lengths, np.int64)
        tokens = self._checked(tokens, sizes)
        sizes = sizes[sizes > 0]
        if not len(sizes):
            self.add_documents(tokens, [0])
            return
        if self._eod is not None:
            tokens = np.insert(tokens, len(tokens), self._eod)
            sizes[-1] += 1
        self._append(tokens, sizes, np.array([len(sizes)]))

    def _checked(self, tokens: Tokens, sizes: Lengths) -> Tokens:
        """The tokens in the type that is written, after every check."""
        if tokens.ndim != 1 or int(sizes.sum()) != len(tokens) or np.any(sizes < 0):
            raise ConversionError(
                str(self.prefix), f"lengths add up to {sizes.sum()}, not to {tokens.size} tokens"
            )
        if len(sizes) and int(sizes.max()) >= MAX_SEQUENCE:  # room for the EOD
            raise ConversionError(
                str(self.prefix), "a sequence of 2^31 tokens or more", "cut the document"
            )
        self._check_range(tokens)
        return tokens.astype(self.dtype, copy=False)

    def _check_range(self, tokens: Tokens) -> None:
        if not len(tokens):
            return
        low, high, limit = tokens.min(), tokens.max(), np.iinfo(self.dtype).max
        if tokens.dtype.kind not in "iu" or low < 0 or high > limit:
            problem = (
                f"token ids from {low} to {high} ({tokens.dtype}) do not fit {self.dtype.name}"
            )
            raise ConversionError(str(self.prefix), problem, "take int32, or the right tokenizer")

    def _append(self, tokens: Tokens, sizes: Lengths, ends: Lengths) -> None:
        """Write sequences; `ends` = sequences so far, of these, at the end of each document."""
        if len(tokens):
            with self._output():
                self._bin = self._bin or self._staged[0].open("wb")
                self._bin.write(np.ascontiguousarray(tokens).data)
        self._lengths.append(sizes.astype(np.int32))
        self._documents.append(ends + self._sequences)
        self._sequences += len(sizes)
        self._tokens += len(tokens)

    @property
    def counts(self) -> IndexCounts:
        """What has been added so far."""
        documents = sum(map(len, self._documents)) - 1
        return IndexCounts(documents=documents, sequences=self._sequences, tokens=self._tokens)

    def commit(self, meta: Mapping[str, Json] | None = None) -> IndexCounts:
        """Finish: flush to disk, then rename `.bin`, `.meta.json` (if `meta` is given), `.idx`.

        Returns:
            The counts of the data set.
        """
        if self._bin is None:
            raise ConversionError(
                str(self.prefix), "no tokens: an empty data set cannot be loaded", "nothing written"
            )
        with self._output():
            _finish(self._bin)
            with self._staged[1].open("wb") as index:
                index.writelines(self._index())
                _finish(index)
            if meta is not None:
                with self._staged[2].open("wb") as file:
                    file.write(_document(meta))
                    _finish(file)
            self._rename(with_meta=meta is not None)
        return self.counts

    def _index(self) -> Iterator[bytes | memoryview]:
        lengths = np.concatenate(self._lengths)
        documents = np.concatenate(self._documents)
        yield MAGIC
        yield VERSION.to_bytes(8, "little") + self._code.to_bytes(1, "little")
        yield len(lengths).to_bytes(8, "little") + len(documents).to_bytes(8, "little")
        yield lengths.astype("<i4").data
        offsets = np.zeros(len(lengths), "<i8")
        np.cumsum(lengths[:-1], dtype=np.int64, out=offsets[1:])
        offsets *= self.dtype.itemsize
        yield offsets.data
        yield documents.astype("<i8").data

    def _rename(self, *, with_meta: bool) -> None:
        bin_path, idx_path, meta_path = self._paths
        idx_path.unlink(missing_ok=True)  # an old index must never stand beside new tokens
        self._staged[0].replace(bin_path)
        if with_meta:
            self._staged[2].replace(meta_path)
        else:
            meta_path.unlink(missing_ok=True)
        self._staged[1].replace(idx_path)
        _sync_folder(idx_path.parent)

    def __enter__(self) -> "IndexedWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bin is not None:
            with contextlib.suppress(OSError):
                self._bin.close()
        for path in self._staged:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _output(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                str(self.prefix),
                f"cannot be written: {error.strerror or error}",
                "check space and permissions",
            ) from error


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _document(meta: Mapping[str, Json]) -> bytes:
    return orjson.dumps(meta, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


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
        _finish(file)
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
