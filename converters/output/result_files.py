"""zz_entries.

A file that appears whole or not at all, written bit by bit.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ingot.converters.errors import OutputError, SourceError
from ingot.converters.output.commit import MANIFEST, RUN, sync_path
from ingot.converters.rows import Json


# ---body---
def file_entry(folder: Path, path: Path) -> dict[str, Json]:
    """A file as manifests list it: `path` (relative to `folder`), its bytes and its SHA-256."""
    with (folder / path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"path": path.as_posix(), "bytes": stream.tell(), "sha256": digest}


def list_files(folder: Path, known: Iterable[dict[str, Json]] = ()) -> list[dict[str, Json]]:
    """Path, bytes and SHA-256 of every file of a result but manifest.json and run.json, sorted.

    `known` are such entries made before, whose files are not hashed again.
    """
    entries = {entry["path"]: entry for entry in known}
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [
        entries.get(path.as_posix()) or file_entry(folder, path)
        for path in files
        if path.as_posix() not in (MANIFEST, RUN)
    ]


def check_unchanged(before: list[dict[str, Json]], after: list[dict[str, Json]]) -> None:
    """See that no input changed in between."""
    for one in (*before, *after):  # a file may be gone, or new
        if one not in before or one not in after:
            problem = "changed while it was read"
            raise SourceError(str(one["name"]), problem, "run again when nothing writes to it")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """What is written here becomes the file `path` at the end, and replaces one of its name.

    Until then it lies beside it, hidden; what a killed process left there the next one takes over.
    """
    unfinished = path.with_name(f".{path.name}.ingot-tmp")
    with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as stream:
        _lock_stream(stream, path)
        stream.truncate(0)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    sync_path(path.parent)


def _lock_stream(stream: BinaryIO, path: Path) -> None:
    """Keep others from the file; the operating system lets it go when the process ends."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        problem = "another run is writing it"
        raise OutputError(str(path), problem, "wait for it or choose another file") from error
