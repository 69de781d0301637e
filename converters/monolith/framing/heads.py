"""Streams whose first bytes are looked at before they are read, whether they can go back or not."""

import io
from typing import BinaryIO, cast

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.readers.faults import reading


def looked_at(raw: BinaryIO, where: str, size: int) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream, and the stream with them still to come.

    That it ends too early is told where it would have been, not here.

    Args:
        raw: the stream, read from where it stands.
        where: its file or URL, for errors.
        size: bytes that are looked at, fewer where there are not so many.

    Raises:
        StorageError: its storage cannot be reached.
    """
    head, error = b"", None
    here = raw.tell() if hasattr(raw, "seekable") and raw.seekable() else None
    try:
        with reading(where):
            while len(head) < size and (more := raw.read(size - len(head))):
                head += more
    except StorageError:
        raise
    except SourceError as found:
        error = found
    if here is not None:
        with reading(where):
            raw.seek(here)
        return head, raw
    return head, cast(BinaryIO, _Again(head, raw, error))


class _Again(io.RawIOBase):
    """A stream that cannot go back, with what was read of it."""

    def __init__(self, head: bytes, raw: BinaryIO, error: SourceError | None) -> None:
        self._head = memoryview(head)
        self._raw = raw
        self._error = error

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all with -1. Raises SourceError."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if not self._head and self._error is not None:
            raise self._error
        data = bytes(self._head[:size]) or self._raw.read(size)
        self._head = self._head[len(data) :]
        return data

    def close(self) -> None:
        self._raw.close()
        super().close()
