"""`.npz` files of int32 matrices that are written side by side, in memory for a block of rows.

The bytes are those of `numpy.savez`: members one behind another, stored as they are, so that each
can be mapped into memory. Their places follow from the shapes, and what a member's header says of
its content (CRC-32) is written last.

Python changed what it writes before a member in 3.11.4. Here it is the earlier form whatever the
version, which the published sets of the benchmark were written in.
"""

import io
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.criteo.stored_arrays import write_all

_LIMIT: Final = (1 << 31) - 1
"""The largest size and offset that are written with 32 bits, as Python has it."""
_BEYOND: Final = 0xFFFFFFFF
_PLAIN, _ZIP64 = 20, 45  # versions of the format that a reader needs
_DATE: Final = 1 << 5 | 1  # 1980-01-01
_UNIX: Final = 3
_RIGHTS: Final = 0o600 << 16
_LOCAL: Final = struct.Struct("<4sBBHHHHLLLHH")
_CENTRAL: Final = struct.Struct("<4s4B4HL2L5H2L")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_END: Final = struct.Struct("<4s4H2LH")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A matrix in an archive."""

    name: str
    offset: int
    size: int
    npy: bytes

    @property
    def data(self) -> int:
        """The offset of the .npy file."""
        return self.offset + len(self.local_header(0))

    @property
    def version(self) -> int:
        """Of the format that its local header needs."""
        return _ZIP64 if self.size > _LIMIT else _PLAIN

    def local_header(self, crc: int) -> bytes:
        """What stands before the content."""
        name, size = self.name.encode(), _BEYOND if self.size > _LIMIT else self.size
        extra = struct.pack("<HHQQ", 1, 16, self.size, self.size)
        fixed = (b"PK\3\4", self.version, 0, 0, 0, 0, _DATE, crc, size, size)
        return _LOCAL.pack(*fixed, len(name), len(extra)) + name + extra

    def central_header(self, crc: int) -> bytes:
        """What stands in the directory."""
        name, size, offset, wide = self.name.encode(), self.size, self.offset, []
        if size > _LIMIT:
            wide += [size, size]
            size = _BEYOND
        if offset > _LIMIT:
            wide.append(offset)
            offset = _BEYOND
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version = max(self.version, _ZIP64 if wide else _PLAIN)
        fixed = (b"PK\1\2", version, _UNIX, version, 0, 0, 0, 0, _DATE, crc, size, size)
        rest = (len(name), len(extra), 0, 0, 0, _RIGHTS, offset)
        return _CENTRAL.pack(*fixed, *rest) + name + extra


def place_members(rows: int, widths: Sequence[int]) -> list[Member]:
    """The members "0.npy", "1.npy", ... of int32 matrices [rows, width], in their places."""
    placed: list[Member] = []
    offset = 0
    for place, width in enumerate(widths):
        npy = _npy_header(rows, width)
        size = len(npy) + 4 * rows * width
        placed.append(Member(name=f"{place}.npy", offset=offset, size=size, npy=npy))
        offset = placed[-1].data + size
    return placed


def _npy_header(rows: int, width: int) -> bytes:
    told = {"descr": "<i4", "fortran_order": False, "shape": (rows, width)}
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, told)
    return text.getvalue()


def archive_directory(placed: Sequence[Member], crcs: Sequence[int], start: int) -> bytes:
    """The end of an archive, which lies at `start`."""
    central = b"".join(one.central_header(crc) for one, crc in zip(placed, crcs, strict=True))
    count, size, end = len(placed), len(central), b""
    if start > _LIMIT:
        sizes = (count, count, size, start)
        end = _END64.pack(b"PK\6\6", 44, _ZIP64, _ZIP64, 0, 0, *sizes)
        end += _LOCATOR.pack(b"PK\6\7", 0, start + size, 1)
    return central + end + _END.pack(b"PK\5\6", 0, 0, count, count, size, min(start, _BEYOND), 0)


class NpzWriter:
    """Writes matrices, each from its first row to its last, at the same time.

    Different matrices may be written by different threads. A writer that is left without an error
    finishes the file.
    """

    def __init__(self, path: Path, rows: int, widths: Sequence[int]) -> None:
        self._members = place_members(rows, widths)
        self._crcs = [crc32(one.npy) for one in self._members]
        self._at = [one.data + len(one.npy) for one in self._members]
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            os.close(self._file)

    def write(self, place: int, rows: NDArray[np.int32]) -> None:
        """Append rows [n, width] to a matrix."""
        block = np.ascontiguousarray(rows, "<i4")
        self._crcs[place] = crc32(block.data, self._crcs[place])
        write_all(self._file, block, self._at[place])
        self._at[place] += block.nbytes

    def _finish(self) -> None:
        for one, crc, at in zip(self._members, self._crcs, self._at, strict=True):
            if at != one.data + one.size:
                raise ValueError(f"{one.name}: {at - one.data} of {one.size} bytes were written")
            beginning = one.local_header(crc) + one.npy
            write_all(self._file, np.frombuffer(beginning, np.uint8), one.offset)
        last = self._members[-1]
        end = last.data + last.size
        tail = archive_directory(self._members, self._crcs, end)
        write_all(self._file, np.frombuffer(tail, np.uint8), end)
