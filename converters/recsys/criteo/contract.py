"""What preprocessed Criteo data are: files, columns and ids; and their arrays, checked and mapped.

A part is one input file: `day_0` to `day_23` of the terabyte set, `train` and `test` of Kaggle's.
A folder that is read may be torchrec's too: only the .npy files are read, values are not checked.
Text and decisions: `docs/criteo.md`.
"""

import hashlib
import io
import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.output.object_store import local_folder
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, WIDTHS, array_name

KEYS: Final = tuple(f"cat_{k}" for k in range(SPARSE))
"""The sparse columns, as a KeyedJaggedTensor names them."""
DENSE_NAMES: Final = tuple(f"int_{k}" for k in range(DENSE))
RARE_ID: Final = 1
"""Of values rarer than the frequency threshold, and of unseen ones where no id is given to them."""
FIRST_ID: Final = 2

DTYPES: Final = {"dense": np.dtype("<f4"), "labels": np.dtype("<i4"), "sparse": np.dtype("<i4")}

STATS: Final = "stats.json"
REJECTS: Final = "rejects.jsonl"
VOCAB: Final = "vocab"
METADATA_KEY: Final = b"ingot.criteo"
"""Of a vocabulary's Parquet file: {"column", "frequency_threshold", "next_id"} as JSON."""


def vocabulary_path(folder: Path, key: str) -> Path:
    """Return the schema of a vocabulary: value uint32, id int32, count int64, by first sight."""
    return folder / VOCAB / f"{key}.parquet"


HEADER: Final = 128  # bytes before the values: so many for every number of rows below 10**21


def npy_header(dtype: str, shape: tuple[int, int]) -> bytes:
    """Return the beginning of the file of an array, as np.save writes it."""
    text = io.BytesIO()
    npy.write_array_header_1_0(text, {"descr": dtype, "fortran_order": False, "shape": shape})
    return text.getvalue()


def row_bytes(kind: str) -> int:
    """Return bytes of a row."""
    return DTYPES[kind].itemsize * WIDTHS[kind]


def create_array(path: Path, kind: str, rows: int) -> None:
    """Create a file with room for so many rows; existing content stays."""
    with open_in_place(path) as file:
        file.write(npy_header(DTYPES[kind].str, (rows, WIDTHS[kind])))
        file.truncate(HEADER + rows * row_bytes(kind))


def open_in_place(path: Path) -> io.FileIO:
    """Open a file to be written to at some places; what is there stays."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644), "w")


def write_all(descriptor: int, values: NDArray[np.generic], offset: int) -> None:
    """Write contiguous values at an offset in bytes."""
    view = values.reshape(-1).view(np.uint8).data
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


SPLITS: Final = ("train", "val", "test", "last", "all")
KINDS: Final = tuple(WIDTHS)
_TYPES: Final = {kind: (dtype,) for kind, dtype in DTYPES.items()} | {
    "sparse": (DTYPES["sparse"], np.dtype("<i8"))  # torchrec's, of days that it did not shuffle
}
_NAME: Final = re.compile(rf"(?P<part>[^.].*)_(?P<kind>{'|'.join(KINDS)})\.npy")
_SAMPLE: Final = 4096  # bytes at each end of an array that tell it from another
_AGAIN: Final = "preprocess the data again"


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """An array as its file has it."""

    path: Path
    dtype: str
    shape: tuple[int, int]
    offset: int  # bytes before the first number
    size: int  # bytes of the file
    changed: int


@dataclass(frozen=True, kw_only=True)
class PartRange:
    """Rows start..stop-1 of a part: `arrays` has one of each kind in the order of `KINDS`."""

    part: str
    start: int
    stop: int
    arrays: tuple[StoredArray, ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rows that are read."""

    where: str
    stretches: tuple[PartRange, ...]
    # of names, types, shapes, first and last bytes of every array, and the chosen rows; the
    # folder's own place does not enter
    fingerprint: str

    @property
    def rows(self) -> int:
        """Return the number of rows of all ranges."""
        return sum(one.stop - one.start for one in self.stretches)

    @property
    def arrays(self) -> tuple[StoredArray, ...]:
        """Return all that are read."""
        return tuple(array for one in self.stretches for array in one.arrays)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the parts that rows are of."""
        return tuple(one.part for one in self.stretches)


def locate_arrays(
    folder: str | os.PathLike[str], split: str, parts: Sequence[str | int] | None = None
) -> Selection:
    """Find the rows of a split and read the headers of their arrays.

    The result at the URL of an object store is fetched first.
    """
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is not one of {', '.join(SPLITS)}")
    folder = local_folder(folder)
    names = _choose_parts(folder, _parts_of(folder), parts)
    stretches, digest = [], hashlib.sha256()
    for name in _names_of(folder, names, split):
        arrays = tuple(
            _stored_array(folder / array_name(name, kind), kind, digest) for kind in KINDS
        )
        counts = {array.path.name: array.shape[0] for array in arrays}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{file} {count:,}" for file, count in counts.items())
            raise SourceError(str(folder), f"arrays of a part differ in rows: {listed}", _AGAIN)
        rows = arrays[0].shape[0]
        middle = (rows + 1) // 2
        start, stop = {"val": (0, middle), "test": (middle, rows)}.get(split, (0, rows))
        digest.update(f"{name}\0{start}\0{stop}\n".encode("utf-8", "surrogateescape"))
        if start < stop:
            stretches.append(PartRange(part=name, start=start, stop=stop, arrays=arrays))
    if not stretches:
        raise SourceError(str(folder), f"the split {split} holds no rows", _AGAIN)
    return Selection(where=str(folder), stretches=tuple(stretches), fingerprint=digest.hexdigest())


def _parts_of(folder: Path) -> list[str]:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        problem = f"cannot be listed: {error.strerror}"
        raise SourceError(str(folder), problem, "give a folder of preprocessed data") from error
    parts = {match["part"] for match in map(_NAME.fullmatch, names) if match}
    if not parts:
        hint = "preprocess the raw days first"
        raise SourceError(str(folder), "holds no arrays such as day_0_dense.npy", hint)
    return sorted(parts, key=_part_order)


def _part_order(part: str) -> tuple[Any, ...]:
    """Days by number; `train` before `test`, and both after what is neither."""
    day = re.fullmatch(r"day_(\d{1,9})", part)
    if day:
        return 0, int(day[1]), part
    return 1, ("train", "test").index(part) if part in ("train", "test") else -1, part


def _choose_parts(
    folder: Path, available: list[str], parts: Sequence[str | int] | None
) -> list[str]:
    if parts is None:
        return available
    requested = [parts] if isinstance(parts, str) else list(parts)
    names = [one if isinstance(one, str) else f"day_{one}" for one in requested]
    for name in names:
        if name not in available:
            close = get_close_matches(name, available, 1) or available[:3]
            suffix = ", ..." if len(available) > len(close) else ""
            raise ValueError(f"parts: {folder} has no {name!r}; it has {', '.join(close)}{suffix}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"parts: {names}: give one or more, each once")
    return names


def _names_of(folder: Path, names: list[str], split: str) -> list[str]:
    if split == "all":
        return names
    if split != "train":
        return names[-1:]
    if len(names) == 1:
        problem = f"{names[0]} is the only part, and the last one is kept for val and test"
        raise SourceError(str(folder), problem, "split='all' reads every row")
    return names[:-1]


def _stored_array(path: Path, kind: str, digest: Any) -> StoredArray:  # noqa: ANN401
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            shape, dtype = _read_header(stream, path)
            array = StoredArray(
                path=path,
                dtype=dtype.str,
                shape=_fit_shape(path, kind, shape, dtype),
                offset=stream.tell(),
                size=status.st_size,
                changed=status.st_mtime_ns,
            )
            _check_length(array)
            digest.update(f"{path.name}\0{array.dtype}\0{array.shape}\0".encode(errors="replace"))
            for offset in (array.offset, max(array.offset, array.size - _SAMPLE)):
                stream.seek(offset)
                digest.update(stream.read(_SAMPLE))
    except FileNotFoundError as error:
        hint = "a part has three arrays: dense, labels and sparse"
        raise SourceError(str(path), "is missing", hint) from error
    except OSError as error:
        raise SourceError(str(path), f"cannot be read: {error.strerror or error}") from error
    return array


_DAMAGED: Final = (ValueError, EOFError, SyntaxError, TokenError, MemoryError, RecursionError)
"""What numpy's reader of headers, which are Python text, lets out."""


def _read_header(stream: BinaryIO, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    formats = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        version = npy.read_magic(stream)
        if version not in formats:
            raise ValueError(f"version {version} of the format")
        shape, fortran_order, dtype = formats[version](stream)
    except _DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(str(path), f"is not a .npy array: {reason}", _AGAIN) from error
    if fortran_order:
        raise SourceError(str(path), "holds columns, not rows (fortran_order)", _AGAIN)
    return shape, dtype


def _fit_shape(
    path: Path, kind: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[int, int]:
    """A shape that the contract has for a kind of array."""
    if dtype not in _TYPES[kind]:
        expected = " or ".join(one.name for one in _TYPES[kind])
        raise SourceError(str(path), f"holds {dtype}, not {expected}", _AGAIN)
    if len(shape) != 2 or shape[1] != WIDTHS[kind] or shape[0] < 0:
        problem = f"has the shape {shape}, not (rows, {WIDTHS[kind]})"
        raise SourceError(str(path), problem, _AGAIN)
    return shape[0], shape[1]


def _check_length(array: StoredArray) -> None:
    row = array.shape[1] * np.dtype(array.dtype).itemsize
    expected = array.offset + array.shape[0] * row
    if array.size < expected:
        stored_rows = max(array.size - array.offset, 0) // row
        problem = (
            f"ends early: it holds {stored_rows:,} of the {array.shape[0]:,} rows that its header "
            "states"
        )
        raise SourceError(str(array.path), problem, _AGAIN)
    if array.size > expected:
        problem = f"is {array.size - expected:,} bytes longer than the rows of its header"
        raise SourceError(str(array.path), problem, _AGAIN)


_HINT: Final = "leave the files as they are while they are read"


class MappedRows:
    """The rows of an array."""

    def __init__(self, array: StoredArray) -> None:
        self._array = array

    def span(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows start..stop-1, [stop - start, width]; a read-only view of the file."""
        return self._checked_rows()[start:stop]

    def take(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return rows of these numbers, [len(rows), width], copied."""
        return self._checked_rows().take(rows, axis=0)

    def _checked_rows(self) -> npt.NDArray[Any]:
        """Return the rows after a check that the file is as it was."""
        array = self._array
        try:
            status = array.path.stat()
            if (status.st_size, status.st_mtime_ns) != (array.size, array.changed):
                problem = "was changed after the data set was opened"
                raise SourceError(str(array.path), problem, _HINT)
            return self._rows
        except FileNotFoundError as error:
            problem = "was removed after the data set was opened"
            raise SourceError(str(array.path), problem, _HINT) from error
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise SourceError(str(array.path), problem) from error

    @cached_property
    def _rows(self) -> npt.NDArray[Any]:
        array = self._array
        with array.path.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        count = array.shape[0] * array.shape[1]
        flat = np.frombuffer(mapped, array.dtype, count, array.offset)
        rows: npt.NDArray[Any] = flat.reshape(array.shape)
        return rows


def take_modulo(columns: npt.NDArray[Any], sizes: Sequence[int]) -> None:
    """Take ids modulo sizes, in place; results are from 0, as Python's and numpy's `%` has it."""
    if not columns.size:
        return
    # As unsigned numbers, those below 0 are beyond every size.
    largest = columns.view(f"u{columns.dtype.itemsize}").max(axis=1)
    for column in np.flatnonzero(largest >= np.asarray(sizes, largest.dtype)).tolist():
        # Few columns have such an id. numpy divides by one number four times as fast as it finds
        # remainders.
        quotients = np.floor_divide(columns[column], sizes[column])
        quotients *= sizes[column]
        columns[column] -= quotients


_SPARSE_COUNTS: Final = 4
"""Counts of more than this many ids for each that came are not gone through as a whole."""


def add_counts(counts: npt.NDArray[np.int64], ids: npt.NDArray[np.integer[Any]]) -> None:
    """Count ids, each a place in `counts`."""
    if len(counts) <= _SPARSE_COUNTS * len(ids):
        counts += np.bincount(ids, minlength=len(counts))
    else:
        unique_ids, times = np.unique(ids, return_counts=True)
        counts[unique_ids] += times
