"""The input files of a run: stamps that tell a changed file, and hashes of what was read."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile
from ingot.converters.sources.storage.listing import Entry
from ingot.converters.sources.storage.read_errors import translate_read_errors

_BLOCK: Final = 8 << 20


StoredFile: TypeAlias = Entry | SourceFile


def absolute_location(location: str) -> str:
    """Return where a location lies, the same from whatever folder it is named; a URL as it is."""
    return location if "://" in location else str(Path(location).absolute())


def input_stamp(file: StoredFile, **labels: str) -> dict[str, Json]:
    """Return what tells a file from a changed one without reading it, after the `labels`."""
    stamp = {"name": file.name, "bytes": file.bytes, "mtime_ns": file.mtime_ns, "etag": file.etag}
    return {**labels, **stamp}


def input_entry(file: StoredFile, sha256: str | None = None, **labels: str) -> dict[str, Json]:
    """Return name, size and SHA-256 as manifests list an input; the file is read if not given."""
    digest = sha256 or hash_input(file)
    return {**labels, "name": file.name, "bytes": file.bytes, "sha256": digest}


def hash_input(file: StoredFile, stopped: Callable[[], bool] = lambda: False) -> str:
    """Return the SHA-256 of a file as stored, streamed."""
    digest, size = hashlib.sha256(), 0
    with file.place.open() as stream, translate_read_errors(str(file.place)):
        while not stopped() and (block := stream.read(_BLOCK)):
            digest.update(block)
            size += len(block)
    if file.bytes and size != file.bytes and not stopped():
        problem = f"changed while it was read: {size} bytes now, {file.bytes} before"
        raise SourceError(file.name, problem, "run again when nothing writes to it")
    return digest.hexdigest()
