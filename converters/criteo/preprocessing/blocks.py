"""A stream in pieces of whole lines, read ahead."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import SourceError

_PIECE: Final = 1 << 20
LONGEST: Final = 1 << 20
"""Bytes of a line; beyond it a file is not what it should be."""


def blocks(stream: BinaryIO, size: int, where: str) -> Iterator[NDArray[np.uint8]]:
    """Whole lines, about `size` bytes at a time; uint8[n] each.

    Raises:
        SourceError: a line is longer than 1 MiB, or the stream cannot be read.
    """
    rest = b""
    while data := _read(stream, size):
        text = b"".join([rest, *data])
        cut = text.rfind(b"\n") + 1
        if len(text) - cut > LONGEST:
            raise too_long(where)
        if cut:
            yield np.frombuffer(text, np.uint8, cut)
        rest = text[cut:]
    if rest:
        yield np.frombuffer(rest, np.uint8)


def _read(stream: BinaryIO, size: int) -> list[bytes]:
    """About `size` bytes; in pieces, so that damaged data are told near the place."""
    pieces: list[bytes] = []
    while size > 0 and (piece := stream.read(min(size, _PIECE))):
        pieces.append(piece)
        size -= len(piece)
    return pieces


def too_long(where: str) -> SourceError:
    """The error of a line beyond `LONGEST`."""
    hint = "lines of Criteo have 40 fields between tabs: is it such a file?"
    return SourceError(where, "a line is longer than 1 MiB", hint)


def read_ahead(
    pieces: Iterator[NDArray[np.uint8]], reader: ThreadPoolExecutor
) -> Iterator[NDArray[np.uint8]]:
    """The pieces, the next of them read while one is worked on."""
    following = reader.submit(next, pieces, None)
    while (piece := following.result()) is not None:
        following = reader.submit(next, pieces, None)
        yield piece
