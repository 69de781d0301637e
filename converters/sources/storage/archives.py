"""Members of zip and tar archives as files of a source, read in place and never unpacked to disk.

An uncompressed tar is read by offset. A compressed tar can only be read forwards: its members keep
the archive's order and one reading position is kept per thread, so that reading them in turn costs
one pass. Names that point outside the archive, links and devices are never opened.
"""

import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeVar, cast

from ingot.converters.errors import SourceError, translate_read_errors, truncated_error
from ingot.converters.sources.storage.archive_directories import (
    next_header,
    open_tar,
    read_directory,
    whole_headers,
)
from ingot.converters.sources.storage.compression import (
    RawStream,
    check_growth,
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.places import Entry, Place

MAX_MEMBERS = 1_000_000


def archive_kind(head: bytes) -> str | None:
    """Return `zip` or `tar` by the first 512 or more bytes of the decompressed file, else None."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    padded = b"\0" in head[:512]  # as every header is; a text may have `ustar` in its place
    return "tar" if head[257:262] == b"ustar" and padded else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Member:
    archive: Place
    member: str

    def __str__(self) -> str:
        return f"{self.archive}::{self.member}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMember(_Member):
    """A table of a file that holds several; its bytes are those of the whole file."""

    number: int = 0

    def open(self) -> BinaryIO:
        """Return the bytes of the file that it lies in. Raises SourceError."""
        return self.archive.open()


@dataclass(frozen=True, kw_only=True, slots=True)
class ZipMember(_Member):
    """A member of a zip archive."""

    def open(self) -> BinaryIO:
        """Return the member's bytes. Raises SourceError."""
        with translate_read_errors(str(self)):
            opened = take_open(_OpenArchive, self.archive) or _OpenArchive(self.archive)
            return _open_member_stream(opened.zip_member(self.member), opened)


@dataclass(frozen=True, kw_only=True, slots=True)
class TarMember(_Member):
    """A member of a tar archive; `offset` is where its bytes begin in an uncompressed one.

    None of one that is read on the way through the archive: in a compressed one, or with holes.
    """

    number: int
    size: int
    offset: int | None

    def open(self) -> BinaryIO:
        """Return the member's bytes. Raises SourceError."""
        with translate_read_errors(str(self)):
            if self.offset is None:
                opened = take_open(_OpenArchive, self.archive)
                if opened is not None and opened.number > self.number:
                    opened.close()
                    opened = None
                opened = opened or _OpenArchive(self.archive)
                return _open_member_stream(opened.tar_member(self.number), opened)
            return open_window(self.archive.open(), self.offset, self.size, str(self))


class _OpenArchive:
    """An open archive: a zip with its directory read, or a position in a compressed tar."""

    def __init__(self, archive: Place) -> None:
        self.archive = archive
        self.number = 0  # the next member of a tar
        self._stack = ExitStack()
        self._raw = self._stack.enter_context(archive.open())
        self._zip: zipfile.ZipFile | None = None
        self._tar: tarfile.TarFile | None = None

    def zip_member(self, name: str) -> BinaryIO:
        with self._close_on_error():
            if self._zip is None:
                self._zip = self._stack.enter_context(zipfile.ZipFile(self._raw))
            return cast(BinaryIO, self._zip.open(name))

    def tar_member(self, number: int) -> BinaryIO:
        with self._close_on_error():
            if self._tar is None:
                stream = open_decompressed(self._raw, str(self.archive))
                self._tar = self._stack.enter_context(open_tar(stream, forwards=True))
            while (info := next_header(self._tar)) is not None:
                self.number += 1
                if self.number == number + 1:
                    return cast(BinaryIO, self._tar.extractfile(info))
            raise EOFError

    @contextmanager
    def _close_on_error(self) -> Iterator[None]:
        with ExitStack() as undo:
            undo.callback(self.close)
            yield
            undo.pop_all()

    def close(self) -> None:
        self._stack.close()


class OpenContainer(Protocol):
    """A file that is open, whose members are read."""

    archive: Place

    def close(self) -> None:
        """Let go of it."""
        ...


Opened = TypeVar("Opened", bound=OpenContainer)


class _ThreadContainers(threading.local):
    """What a thread keeps open between members while somebody asks it to, one of each kind."""

    def __init__(self) -> None:
        self.askers = 0
        self.kept: dict[type[OpenContainer], OpenContainer] = {}


_thread = _ThreadContainers()


@contextmanager
def keep_archive_open() -> Iterator[None]:
    """Keep the archive of the member last closed open: members in turn cost one pass over it."""
    _thread.askers += 1
    try:
        yield
    finally:
        _thread.askers -= 1
        while not _thread.askers and _thread.kept:
            _thread.kept.popitem()[1].close()


def take_open(kind: type[Opened], archive: Place) -> Opened | None:
    """Take the container that is kept open, if it is this one: one reader at a time uses it."""
    opened = _thread.kept.get(kind)
    if opened is None or opened.archive != archive:
        return None
    return cast(Opened, _thread.kept.pop(kind))


def give_back_open(opened: OpenContainer) -> None:
    """Keep a container open for the next member, or close it where nobody asks for that."""
    former: OpenContainer | None = opened
    if _thread.askers:
        former = _thread.kept.get(type(opened))
        _thread.kept[type(opened)] = opened
    if former is not None:
        former.close()


def _open_member_stream(inner: BinaryIO, opened: _OpenArchive) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_MemberStream(inner, opened), 1 << 16))


class _MemberStream(RawStream):
    """A member's bytes; closing gives the open archive back for the next member."""

    def __init__(self, inner: BinaryIO, opened: _OpenArchive) -> None:
        super().__init__(inner)
        self._opened = opened

    def seekable(self) -> bool:
        return isinstance(self._raw, zipfile.ZipExtFile) and self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def take(self, size: int) -> bytes:
        with translate_read_errors(str(self._opened.archive)):
            return self._raw.read(size)

    def close(self) -> None:
        closed = self.closed
        super().close()
        if not closed:
            give_back_open(self._opened)


def open_window(raw: BinaryIO, start: int, size: int, where: str) -> BinaryIO:
    """Open `size` bytes of a stream from `start` as a stream of their own."""
    raw.seek(start)
    return cast(BinaryIO, io.BufferedReader(_FileWindow(raw, size, where)))


class _FileWindow(RawStream):
    """`size` bytes of a file from its present position, seekable; closing closes the file."""

    def __init__(self, raw: BinaryIO, size: int, where: str) -> None:
        super().__init__(raw)
        self._start = raw.tell()
        self._size, self._where = size, where

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self.tell(), 2: self._size}[whence]
        return self._raw.seek(self._start + max(0, base + offset)) - self._start

    def tell(self) -> int:
        return self._raw.tell() - self._start

    def take(self, size: int) -> bytes:
        data = self._raw.read(max(0, min(size, self._size - self.tell())))
        if not data and self.tell() < self._size and size:
            raise truncated_error(self._where, f"it ends {self._size - self.tell():,} bytes early")
        return data


def archive_members(entry: Entry, kind: str) -> Iterator[Entry | tuple[str, str]]:
    """Yield the members of an archive as entries, or (name, why) for those that are left out."""
    with translate_read_errors(str(entry.place), f"not a whole {kind} archive"):
        members = _zip_members(entry) if kind == "zip" else _tar_members(entry)
        for number, member in enumerate(members):
            if number >= MAX_MEMBERS:
                raise SourceError(str(entry.place), f"more than {MAX_MEMBERS} members")
            yield member


def is_unsafe_name(name: str) -> bool:
    """Return whether a name of a member is no path below its archive."""
    parts = name.replace("\\", "/").split("/")
    return name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]


_REPLACED = "a later member has its name, and replaces it when it is unpacked"


def _zip_members(entry: Entry) -> Iterator[Entry | tuple[str, str]]:
    with entry.place.open() as raw:
        infos = read_directory(raw)
    last = {info.filename: info for info in infos}
    for info in sorted(infos, key=lambda info: info.filename):
        if not info.filename:
            yield "(no name)", "it has no name"
        elif info.is_dir():
            if info.file_size:
                yield info.filename, "a folder that has content"
        elif info is not last[info.filename]:
            yield info.filename, _REPLACED
        elif is_unsafe_name(info.filename):
            yield info.filename, "its name points outside the archive"
        elif info.flag_bits & 1:
            yield info.filename, "encrypted"
        else:
            what = f"member {info.filename} would be "
            check_growth(str(entry.place), info.file_size, info.compress_size, what)
            yield Entry(
                name=info.filename,
                place=ZipMember(archive=entry.place, member=info.filename),
                bytes=info.file_size,
                mtime_ns=entry.mtime_ns,
                etag=f"crc32:{info.CRC:08x}",
            )


def _tar_members(entry: Entry) -> Iterator[Entry | tuple[str, str]]:
    with entry.place.open() as raw:
        packed = detect_compression(peek_first_bytes(raw)) is not None
        stream = open_decompressed(raw, str(entry.place))
        with open_tar(stream, forwards=packed) as tar:
            infos = [info for info in enumerate(whole_headers(tar)) if not info[1].isdir()]
    last = {info.name: number for number, info in infos}
    members = [
        _tar_member(entry, info, number, packed)
        if last[info.name] == number
        else (info.name, _REPLACED)
        for number, info in infos
    ]
    if not packed:
        members.sort(key=lambda member: member.name if isinstance(member, Entry) else member[0])
    yield from members


def _tar_member(
    entry: Entry, info: tarfile.TarInfo, number: int, packed: bool
) -> Entry | tuple[str, str]:
    if is_unsafe_name(info.name):
        return info.name, "its name points outside the archive"
    if not info.isreg():
        return info.name, "not a regular file"
    if info.sparse is not None:
        stored = sum(size for _, size in cast(list[tuple[int, int]], info.sparse))
        check_growth(str(entry.place), info.size, stored, f"member {info.name} would be ")
    place = TarMember(
        archive=entry.place,
        member=info.name,
        number=number,
        size=info.size,
        offset=None if packed or info.sparse is not None else info.offset_data,
    )
    # The times in an archive say nothing, often all are equal: a change of the archive shows.
    return Entry(
        name=info.name.removeprefix("./"),
        place=place,
        bytes=info.size,
        mtime_ns=int(info.mtime) * 1_000_000_000 if entry.tells_changes else None,
        etag=f"tar:{entry.bytes}:{entry.mtime_ns}:{entry.etag}" if entry.tells_changes else None,
    )
