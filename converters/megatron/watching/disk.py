"""How fast the disk gives the input files by itself: what a build's reading is compared with."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ingot.converters.megatron.watching.resources import MB

_SECONDS: Final = 0.5
_LEAST_BYTES: Final = 32 << 20
_BLOCK: Final = 4 << 20


def sequential_mbps(files: Iterable[Path], *, least: int = _LEAST_BYTES) -> float | None:
    """MB/s (10^6 bytes) of reading the files one after the other, for half a second at most.

    The system is asked to forget what it holds of a file first, so that it is the disk that is
    measured; a file system that does not do so shows the speed of its cache.

    Args:
        files: what is read, in this order.
        least: bytes; with fewer nothing is said.

    Returns:
        None where there is too little to read, or a file cannot be read.
    """
    if not hasattr(os, "posix_fadvise"):
        return None
    done, seconds = 0, 0.0
    with suppress(OSError):
        for path in files:
            size, took = _read(path, _SECONDS - seconds)
            done, seconds = done + size, seconds + took
            if seconds >= _SECONDS:
                break
    return done / MB / seconds if done >= least and seconds else None


def _read(path: Path, seconds: float) -> tuple[int, float]:
    """Bytes of a file that were read within a time, and the time."""
    room = bytearray(_BLOCK)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begun, done, took = time.perf_counter(), 0, 0.0
        while took < seconds and (size := file.readinto(room)):
            done, took = done + size, time.perf_counter() - begun
    return done, took
