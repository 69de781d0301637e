"""Raw lines: read ahead in pieces of whole lines, parsed to numbers, dense values transformed."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.contract import DENSE_NAMES, KEYS
from ingot.converters.recsys.criteo.preprocess import row_kernels
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE

_PIECE: Final = 1 << 20
LONGEST: Final = 1 << 20  # bytes of a line; beyond it a file is not what it should be


def read_blocks(stream: BinaryIO, size: int, path: str) -> Iterator[NDArray[np.uint8]]:
    """Yield whole lines, about `size` bytes at a time; uint8[n] each."""
    rest = np.empty(0, np.uint8)
    while True:
        text = np.empty(len(rest) + size, np.uint8)
        text[: len(rest)] = rest
        filled = _fill(stream, text.data, len(rest))
        text.flags.writeable = False
        last = max(filled - LONGEST - 1, 0)
        cut = last + text[last:filled].tobytes().rfind(b"\n") + 1
        if filled - cut > LONGEST:
            raise too_long_error(path)
        if filled == len(rest):
            break
        if cut:
            yield text[:cut]
        rest = text[cut:filled]
    if filled:
        yield text[:filled]


def _fill(stream: BinaryIO, text: memoryview, position: int) -> int:
    """Read from a place on, and give the end; in pieces: damaged data are told near the place."""
    while count := stream.readinto(text[position : position + _PIECE]):  # type: ignore[attr-defined]
        position += count
    return position


def too_long_error(path: str) -> SourceError:
    """Return the error for a line beyond `LONGEST`."""
    hint = "lines of Criteo have 40 fields between tabs: is it such a file?"
    return SourceError(path, "a line is longer than 1 MiB", hint)


PROBLEMS: Final = {
    "columns": "not 40 columns (39 without a label)",
    "label": "no whole number of 32 bits",
    "dense": "no whole number of 32 bits",
    "sparse": "no hexadecimal number of 32 bits",
}
"""Why a line is a reject: the number of its fields, or a field that is no such number."""
REASONS: Final = tuple(PROBLEMS)
NO_LABEL: Final = -1  # the label of a file that has none

_ROOM: Final = 1 << 12  # rejects at a time
_NEWLINE, _RETURN = 10, 13
_SHOWN: Final = 80  # bytes of a field in a reject


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A line that is no row: its number from 0, why, and what stands there."""

    line: int
    reason: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """The lines of a block that are no rows, 20 bytes each."""

    text: NDArray[np.uint8]  # uint8[n], of the block
    told: NDArray[np.uint32]  # uint32[m, 5], see `kernels.parsing.parse`
    labelled: bool

    def __len__(self) -> int:
        return len(self.told)

    def __getitem__(self, number: int) -> Reject:
        line, reason, start, end, column = self.told[number].tolist()
        last = end == len(self.text) or self.text[end] == _NEWLINE
        if last and end > start and self.text[end - 1] == _RETURN:
            end -= 1
        field = self.text[start:end][: _SHOWN + 1].tobytes()
        shown = field[:_SHOWN].decode("utf-8", "backslashreplace") + "..." * (len(field) > _SHOWN)
        names = ("label", *DENSE_NAMES, *KEYS)[not self.labelled :]
        field_name = f"{column} columns" if reason == row_kernels.BAD_COLUMNS else names[column]
        return Reject(line=line, reason=REASONS[reason], found=f"{field_name}: {shown}")

    def __iter__(self) -> Iterator[Reject]:
        return (self[number] for number in range(len(self)))

    def reasons(self) -> dict[str, int]:
        """Return the number of rejects by reason."""
        counts = np.bincount(self.told[:, 1], minlength=len(REASONS)).tolist()
        return {name: count for name, count in zip(REASONS, counts, strict=True) if count}

    def leading(self) -> int:
        """Return the number of lines before the first row of the block, or before its end."""
        lines = self.told[:, 0]
        return int(np.argmin(np.append(lines == np.arange(len(lines)), False)))


@dataclass(frozen=True, kw_only=True)
class Block:
    """Lines as numbers."""

    lines: int
    longest: int  # bytes of the longest line
    labels: NDArray[np.int32]  # int32[R]
    dense: NDArray[np.int32]  # int32[R, 13], missing values 0
    sparse: NDArray[np.uint32]  # uint32[26, R], missing values 0
    missing: NDArray[np.int64]  # int64[39], empty fields of rows, dense then sparse
    rejects: Rejects


def _without_marks(text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Whole lines without byte order marks: files that were put together have them inside."""
    if not (text == BOM_UTF8[0]).any():
        return text
    data = (b"\n" + text.tobytes()).replace(b"\n" + BOM_UTF8, b"\n")
    return np.frombuffer(data[1:], np.uint8)


def parse_block(text: NDArray[np.uint8], *, labelled: bool) -> Block:
    """Parse whole lines."""
    text = _without_marks(text)
    columns = int(labelled) + DENSE + SPARSE
    words = row_kernels.words_of(text)
    field_ends, breaks = np.empty(len(text) + 1, np.uint32), np.empty(len(text) + 1, np.uint32)
    breaks = breaks[: row_kernels.find_breaks(text, words, field_ends, breaks)]
    fields = row_kernels.TextFields(text, words, field_ends, breaks)
    # A row has at least a tab or an end a column. Pages that no row is written to cost nothing.
    max_rows = min(len(breaks), len(text) // columns + 1)
    arrays = row_kernels.RowArrays(
        labels=np.empty(max_rows if labelled else 0, np.int32),
        dense=np.empty((max_rows, DENSE), np.int32),
        sparse=np.empty((SPARSE, max_rows), np.uint32),
        missing=np.zeros(columns, np.int64),
    )
    reject_blocks = [np.empty((0, 5), np.uint32)]
    state = np.zeros(4, np.int64)
    while state[row_kernels.LINE] < len(breaks):
        state[row_kernels.REJECTS] = 0
        rejects = np.empty((_ROOM, 5), np.uint32)
        row_kernels.parse_lines(fields, arrays, rejects, state)
        reject_blocks.append(rejects[: state[row_kernels.REJECTS]])
    rows = int(state[row_kernels.ROWS])
    newlines = field_ends[breaks - 1].astype(np.int64)
    return Block(
        lines=len(breaks),
        longest=int(np.diff(newlines, prepend=-1).max(initial=0)) - 1,
        labels=arrays.labels[:rows] if labelled else np.full(rows, NO_LABEL, np.int32),
        dense=arrays.dense[:rows],
        sparse=arrays.sparse[:, :rows],
        missing=arrays.missing[int(labelled) :],
        rejects=Rejects(text=text, told=np.concatenate(reject_blocks), labelled=labelled),
    )


_ROWS: Final = 1 << 18


def ln3(raw: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return ln(x + 3) in float32; x + 3 wraps at the end of int32.

    ln of 0 and below are -inf and NaN.
    """
    raw += 3
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(raw, dtype=np.float32)


def min2_in_place(path: Path, rows: int, offset: int, minimum: int) -> NDArray[np.int64]:
    """Replace raw values in a file by ln(x - least + 2), with int32's wrapping."""
    nonfinite = np.zeros(DENSE, np.int64)
    subtract = np.int32((minimum - 2 + (1 << 31)) % (1 << 32) - (1 << 31))
    for start in range(0, rows, _ROWS):
        shape = (min(_ROWS, rows - start), DENSE)
        position = offset + start * DENSE * 4
        values = np.memmap(path, np.int32, "r+", position, shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            changed = np.log(values - subtract, dtype=np.float32)
        nonfinite += count_nonfinite(changed)
        values.view(np.float32)[:] = changed
    return nonfinite


def count_nonfinite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return int64[13]: infinities and NaNs by column."""
    nonfinite: NDArray[np.bool_] = ~np.isfinite(values)
    return nonfinite.sum(axis=0, dtype=np.int64) if nonfinite.any() else np.zeros(DENSE, np.int64)
