"""Where files lie: local paths and fsspec URLs, found by file name, folder or glob.

A `Place` is a small picklable value that says how the bytes of one file are opened; an `Entry` is a
place with its name inside the source and what the storage knows about it.
"""

import errno
import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import reading
from ingot.converters.readers.reaching import FIRST_RETRIES, behind, persistent, redacted
from ingot.converters.readers.remote import RemoteFile, connected, etag_of, mtime_ns_of
from ingot.converters.rows import Json

__all__ = ["Entry", "Listing", "LocalFile", "Place", "RemoteFile", "find", "stem"]

_GLOB = frozenset("*?[")
LOST = "a link that leads nowhere"
_ODD = "its name has empty parts, `.` or `..`: it is no path below a folder"


class Place(Protocol):
    """Where the bytes of one file are; `str()` gives the text for messages."""

    def open(self) -> BinaryIO:
        """The bytes from the start. Raises SourceError."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this machine."""

    path: str

    def __str__(self) -> str:
        return self.path

    def open(self) -> BinaryIO:
        """The bytes from the start, seekable. Raises SourceError."""
        with reading(self.path):
            return Path(self.path).open("rb")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file: its name inside the source, its place, and what the storage says about it.

    Attributes:
        name: relative to the source, with `/`.
        place: how it is opened.
        bytes: size on storage (of an archive's member: its uncompressed size).
        mtime_ns: time of the last change, None where unknown.
        etag: the storage's own mark of the content, None where it has none.
    """

    name: str
    place: Place
    bytes: int
    mtime_ns: int | None = None
    etag: str | None = None

    @property
    def tells_changes(self) -> bool:
        """Whether the storage tells a changed file from the one before, beyond its size."""
        return self.mtime_ns is not None or self.etag is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What a location names.

    Attributes:
        base: its readable name.
        direct: whether it is one file.
        entries: its files, by name.
        results: folders below it that hold what ingot wrote; their files are not in `entries`.
        unreadable: (name, why) of files that cannot be asked for by their name.
    """

    base: str
    direct: bool
    entries: tuple[Entry, ...]
    results: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


def find(location: str, *, whole: bool = True) -> Listing:
    """List the files that a location names: a file, a folder (with all below it) or a glob.

    Args:
        location: as the user wrote it.
        whole: that a folder below it may not be listed is an error; else it is `unreadable`, as are
            links that lead nowhere.

    Raises:
        SourceError: nothing there, an empty folder, a glob without a match, no permission.
    """
    if "://" in location and not location.startswith("file://"):
        return _find_remote(location)
    return _find_local(location.removeprefix("file://"), location, whole)


def _find_local(text: str, location: str, whole: bool) -> Listing:
    path = Path(text).expanduser()
    with reading(location, "cannot list it"):
        if path.is_file():
            entry = _local_entry(path.name, path)
            return Listing(base=stem(path.name), direct=True, entries=(entry,))
        if path.is_dir():
            closed: list[tuple[str, str]] = []
            found = _walk(str(path), "", frozenset(), None if whole else closed)
            entries = tuple(sorted(found, key=lambda entry: entry.name))
            base, shut = path.resolve().name, tuple(closed)
            listing = Listing(base=base, direct=False, entries=entries, unreadable=shut)
            return _nonempty(listing, location)
        if _GLOB & set(text):
            return _local_glob(text, location)
        if path.exists():
            raise SourceError(location, "neither a file nor a folder")
    raise SourceError(location, "no such file or folder", "check the spelling")


def _local_entry(name: str, path: Path) -> Entry:
    stat = path.stat()
    place = LocalFile(str(path))
    return Entry(name=name, place=place, bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)


def _walk(
    folder: str, prefix: str, above: frozenset[str], closed: list[tuple[str, str]] | None = None
) -> Iterator[Entry]:
    """Every file below a folder; links are followed, but into no folder that this one is in.

    Args:
        folder: its path.
        prefix: what the names of its files begin with: nothing, or what ends in a slash.
        above: the real paths of the folders it is in.
        closed: gets the folders below it that may not be listed, and what is no file; None = the
            first are an error, the second are passed over.
    """
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda child: child.name)
    except PermissionError:
        if closed is None or not prefix:
            raise
        closed.append((prefix, "no permission to list it"))
        return
    for child in children:
        if _is(child.is_dir):
            yield from _walk(child.path, f"{prefix}{child.name}/", above | {real}, closed)
        elif _is(child.is_file):
            stat = child.stat()
            yield Entry(
                name=prefix + child.name,
                place=LocalFile(child.path),
                bytes=stat.st_size,
                mtime_ns=stat.st_mtime_ns,
            )
        elif closed is not None:
            closed.append((prefix + child.name, _no_file(child)))


def _no_file(child: "os.DirEntry[str]") -> str:
    return LOST if child.is_symlink() else "neither a file nor a folder"


def _is(asked: Callable[[], bool]) -> bool:
    """What a directory entry says about itself; a link that leads to itself is nothing."""
    try:
        return asked()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _local_glob(text: str, location: str) -> Listing:
    top = Path(_fixed_part(text)).expanduser()
    pattern = str(Path(text).expanduser())
    found = [Path(hit) for hit in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute too
    entries = {}
    for path in found:
        for entry in _below(top, path) if path.is_dir() else _one(top, path):
            entries[entry.name] = entry
    if not entries:
        raise SourceError(location, "no file matches", "quote the pattern and check the spelling")
    ordered = tuple(entries[name] for name in sorted(entries))
    return Listing(base=top.resolve().name, direct=False, entries=ordered)


def _below(top: Path, folder: Path) -> Iterator[Entry]:
    name = folder.relative_to(top).as_posix()
    return _walk(str(folder), "" if name == "." else f"{name}/", frozenset())


def _one(top: Path, path: Path) -> Iterator[Entry]:
    if path.is_file():
        yield _local_entry(path.relative_to(top).as_posix(), path)


def _fixed_part(pattern: str) -> str:
    """The folder before the first wildcard of a pattern: `data/x*/y` gives `data/`."""
    first = min(pattern.index(mark) for mark in _GLOB if mark in pattern)
    return pattern[: pattern.rfind("/", 0, first) + 1]


def _find_remote(url: str) -> Listing:
    file_system, path = connected(url)
    file_system.invalidate_cache()  # a listing made before is not what is there now
    if _GLOB & set(_unasked(url, path)):
        top = _fixed_part(path).rstrip("/")
        found = persistent(url, lambda: file_system.glob(path, detail=True), FIRST_RETRIES)
        return _remote_listing(file_system, url, top, found)
    info = persistent(url, lambda: _info(file_system, path), FIRST_RETRIES)
    if info is not None and info["type"] == "file":
        entry = _remote_entry(file_system, info, _unasked(url, path).rpartition("/")[0])
        return Listing(base=stem(entry.name), direct=True, entries=(entry,))
    top = path.rstrip("/")
    found = persistent(url, lambda: file_system.find(path, detail=True), FIRST_RETRIES)
    if not found and info is None:
        raise SourceError(redacted(url), "no such file or folder", "check the spelling")
    return _remote_listing(file_system, url, top, found)


def _unasked(url: str, path: str) -> str:
    """A path without the query of a web address, which is neither name nor pattern."""
    return path.partition("?")[0] if url.startswith(("http://", "https://")) else path


def _info(file_system: Any, path: str) -> dict[str, Json] | None:  # noqa: ANN401
    try:
        return dict(file_system.info(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        if behind(error) is not error:
            raise
        return None


def _remote_listing(
    file_system: Any,  # noqa: ANN401
    url: str,
    top: str,
    found: dict[str, dict[str, Json]],
) -> Listing:
    infos = [info for info in found.values() if info["type"] == "file"]
    entries = sorted(
        (_remote_entry(file_system, info, top) for info in infos), key=lambda entry: entry.name
    )
    listing = Listing(
        base=top.rpartition("/")[2],
        direct=False,
        entries=tuple(entry for entry in entries if not _odd(entry.name)),
        unreadable=tuple((entry.name, _ODD) for entry in entries if _odd(entry.name)),
    )
    return _nonempty(listing, redacted(url))


def _odd(name: str) -> bool:
    """Whether a name is no path below a folder."""
    return any(part in ("", ".", "..") for part in name.split("/"))


def _remote_entry(file_system: Any, info: dict[str, Json], top: str) -> Entry:  # noqa: ANN401
    path = str(info["name"])
    url = str(file_system.unstrip_protocol(path))
    size, mtime_ns, etag = int(info.get("size") or 0), mtime_ns_of(info), etag_of(info)
    known = info.get("size")
    return Entry(
        name=_unasked(url, path).removeprefix(top).removeprefix("/"),
        place=RemoteFile(
            url=url, size=None if known is None else size, etag=etag, mtime_ns=mtime_ns
        ),
        bytes=size,
        mtime_ns=mtime_ns,
        etag=etag,
    )


def _nonempty(listing: Listing, location: str) -> Listing:
    if not listing.entries:
        raise SourceError(location, "no files in it", "is this the right folder or pattern?")
    return listing


_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz", ".tgz", ".tbz2", ".txz", ".tar")


def stem(name: str) -> str:
    """A file's name without folders and extensions: `a/train.jsonl.gz` gives `train`."""
    base = name.rpartition("/")[2]
    while base.lower().endswith(_COMPRESSED) and base.rpartition(".")[0]:
        base = base.rpartition(".")[0]
    head, dot, _ = base.rpartition(".")
    return head if dot and head else base
