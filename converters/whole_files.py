"""A file that appears whole or not at all, written bit by bit."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ingot.converters.commit import sync
from ingot.converters.errors import OutputError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """What is written here becomes the file `path` at the end, and replaces one of its name.

    Until then it lies beside it, hidden; what a killed process left there the next one takes over.

    Raises:
        OutputError: another process is writing it.
        OSError: it cannot be written; see `commit.writing`.
    """
    unfinished = path.with_name(f".{path.name}.ingot-tmp")
    with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as stream:
        _hold(stream, path)
        stream.truncate(0)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    sync(path.parent)


def _hold(stream: BinaryIO, path: Path) -> None:
    """Keep others from the file; the operating system lets it go when the process ends."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        problem = "another run is writing it"
        raise OutputError(str(path), problem, "wait for it or choose another file") from error
