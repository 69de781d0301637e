"""Places of bytes, entries of a source, and listings: small picklable values that storages give.

A `Place` says how the bytes of one file are opened; an `Entry` is a place with its name inside the
source.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple, Protocol

from ingot.converters.errors import translate_read_errors
from ingot.converters.rows import Json

NS_PER_SECOND: Final = 1_000_000_000


class Place(Protocol):
    """Where the bytes of one file are; `str()` gives the text for messages."""

    def open(self) -> BinaryIO:
        """Return the bytes from the start. Raises SourceError."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this machine."""

    path: str

    def __str__(self) -> str:
        return self.path

    def open(self) -> BinaryIO:
        """Return the bytes from the start, seekable. Raises SourceError."""
        with translate_read_errors(self.path):
            return open(self.path, "rb")  # noqa: PTH123 - a Path takes half as long as opening


def storage_places(place: Place) -> tuple[Place, ...]:
    """Return the stored files that hold the bytes of a place: an archive, files of a table."""
    archive = getattr(place, "archive", None)
    inner = getattr(place, "places", ()) if archive is None else (archive,)
    return tuple(place for each in inner for place in storage_places(each)) or (place,)


def is_local(place: Place) -> bool:
    """Return whether the bytes of a place lie on this machine."""
    return all(isinstance(place, LocalFile) for place in storage_places(place))


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file: its name inside the source, its place, and what the storage says about it."""

    name: str  # relative to the source, with `/`
    place: Place
    bytes: int  # as stored (of an archive's member: uncompressed)
    mtime_ns: int | None = None
    etag: str | None = None  # the storage's own mark of the content

    @property
    def tells_changes(self) -> bool:
        """Return whether the storage tells a changed file from the one before, beyond its size."""
        return self.mtime_ns is not None or self.etag is not None


class UnreadableName(NamedTuple):
    """A name below a location that gives no file to read, and why."""

    name: str
    why: str
    dangling: bool = False  # whether it is a link whose target does not exist


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What a location names."""

    base: str
    direct: bool
    entries: tuple[Entry, ...]
    results: tuple[str, ...] = ()  # folders that hold what ingot wrote, which is not in `entries`
    unreadable: tuple[UnreadableName, ...] = ()
    # Tables that are not read: what a file in each is part of, what is wrong with it, its format.
    closed: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)


def entry_etag(details: dict[str, Json]) -> str | None:
    """Return the mark of the content in what a storage says about a file."""
    return next(
        (str(details[key]) for key in ("ETag", "etag", "blob_id") if details.get(key)), None
    )


def entry_mtime_ns(details: dict[str, Json]) -> int | None:
    """Return the time of the last change in what a storage says about a file."""
    for key in ("mtime", "LastModified", "last_modified", "updated"):
        value = details.get(key)
        if isinstance(value, dt.datetime):
            return int(value.timestamp() * NS_PER_SECOND)
        if isinstance(value, int | float):
            return int(value * NS_PER_SECOND)
    return None
