"""Where streams are: the files of a location that are streams, or standard input."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from ingot.converters.commit import MANIFEST, RUN, writing
from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import reading
from ingot.converters.readers.sidefiles import side_file
from ingot.converters.readers.storage import LocalFile, Place, find
from ingot.converters.rows import Json

STDIN: Final = "-"
REJECTS: Final = "rejects.jsonl"
_HASHED: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Input:
    """One stream: its name inside the source, its place, and what the storage says about it."""

    name: str
    place: Place
    bytes: int
    mtime_ns: int | None = None
    etag: str | None = None

    def stamp(self) -> dict[str, Json]:
        """Name, size and time of change."""
        stamp: dict[str, Json] = {
            "name": self.name,
            "bytes": self.bytes,
            "mtime_ns": self.mtime_ns,
        }
        return stamp | ({"etag": self.etag} if self.etag else {})

    def entry(self) -> dict[str, Json]:
        """Name, size and SHA-256, as a manifest lists it. Raises SourceError."""
        digest = hashlib.sha256()
        with self.place.open() as stream, reading(str(self.place)):
            while block := stream.read(_HASHED):
                digest.update(block)
        return {"name": self.name, "bytes": self.bytes, "sha256": digest.hexdigest()}


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The streams of a location, by name; `direct`: it is one file, or standard input."""

    where: str
    direct: bool
    files: tuple[Input, ...]

    @property
    def place(self) -> str:
        """`where`, the same from whatever folder it is named; a URL as it is."""
        return self.where if "://" in self.where else str(Path(self.where).absolute())


def find_inputs(where: str) -> Inputs:
    """The streams of a file, folder, glob or URL; hidden files and side files are none.

    Raises:
        SourceError: there is none.
    """
    listing = find(where)
    files = tuple(
        Input(
            name=one.name,
            place=one.place,
            bytes=one.bytes,
            mtime_ns=one.mtime_ns,
            etag=one.etag,
        )
        for one in listing.entries
        if listing.direct or not _is_beside(one.name)
    )
    if not files:
        problem = "holds no streams"
        if listing.results:
            problem += f", but results of ingot, such as {listing.results[0]}"
        raise SourceError(where, problem, "name the folder, or the file, that has them")
    return Inputs(where=where, direct=listing.direct, files=files)


def _is_beside(name: str) -> bool:
    """Hidden files, and those that Hadoop and conversions put beside data."""
    parts = name.split("/")
    hidden = any(part[:1] in "._" for part in parts)
    ours = parts[-1] in (MANIFEST, RUN) or parts[-1].endswith(REJECTS)
    return hidden or ours or side_file(name) is not None


@contextmanager
def standard_input(beside: Path | None) -> Iterator[Inputs]:
    """Standard input as a source.

    Args:
        beside: where its bytes are put first, as what is made of them takes them twice; None: they
            are read once, as they come.
    """
    if beside is None:
        yield _standard(cast(Place, _Stdin()))
        return
    descriptor, path = tempfile.mkstemp(prefix=".ingot-", suffix=".stdin", dir=beside)
    try:
        with writing(beside), os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy, _HASHED)
        yield _standard(LocalFile(path))
    finally:
        Path(path).unlink(missing_ok=True)


def _standard(place: Place) -> Inputs:
    file = Input(name="standard input", place=place, bytes=0)
    return Inputs(where=STDIN, direct=True, files=(file,))


class _Stdin:
    """Standard input as a place."""

    def __str__(self) -> str:
        return "standard input"

    def open(self) -> BinaryIO:
        """What is left of it; closing leaves it open."""
        return cast(BinaryIO, os.fdopen(os.dup(sys.stdin.fileno()), "rb"))
