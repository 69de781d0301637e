"""Rows of stored arrays, mapped into memory when they are first asked for.

A mapped file that gets shorter ends the process that touches its lost pages, and one that is
written into gives rows of two data sets: so a file is held to what it was before every reading.
"""

import mmap
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.criteo.loading.locating import StoredArray
from ingot.converters.errors import SourceError

_HINT: Final = "leave the files as they are while they are read"


class Mapped:
    """The rows of an array.

    Args:
        array: which; opened at the first reading.
    """

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        self._rows: npt.NDArray[Any] | None = None

    def span(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start..stop-1, [stop - start, width]; a read-only view of the file.

        Raises:
            SourceError: the file is gone, was changed or cannot be read.
        """
        return self._held()[start:stop]

    def take(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of these numbers, [len(rows), width], copied.

        Raises:
            SourceError: as `span`.
        """
        return self._held().take(rows, axis=0)

    def _held(self) -> npt.NDArray[Any]:
        """The rows, of a file that is as it was."""
        array = self._array
        try:
            status = array.path.stat()
            if (status.st_size, status.st_mtime_ns) != (array.size, array.changed):
                said = "was changed since the data set was opened"
                raise SourceError(str(array.path), said, _HINT)
            return self._rows if self._rows is not None else self._open()
        except FileNotFoundError as error:
            said = "is gone since the data set was opened"
            raise SourceError(str(array.path), said, _HINT) from error
        except OSError as error:
            said = f"cannot be read: {error.strerror or error}"
            raise SourceError(str(array.path), said) from error

    def _open(self) -> npt.NDArray[Any]:
        array = self._array
        with array.path.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        count = array.shape[0] * array.shape[1]
        flat = np.frombuffer(mapped, array.dtype, count, array.offset)
        rows: npt.NDArray[Any] = flat.reshape(array.shape)
        self._rows = rows
        return rows
