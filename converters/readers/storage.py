"""Where files lie: local paths and fsspec URLs, found by file name, folder or glob.

A `Place` is a small picklable value that says how the bytes of one file are opened; an `Entry` is a
place with its name inside the source and what the storage knows about it.
"""

import datetime as dt
import glob
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.readers.faults import reading
from ingot.converters.rows import Json

_HF = "hf://"
_NOT_THERE = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ValueError,
    ImportError,
)
_GLOB = frozenset("*?[")


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


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind an fsspec URL."""

    url: str

    def __str__(self) -> str:
        return self.url

    def open(self) -> BinaryIO:
        """The bytes from the start, seekable where the storage can. Raises SourceError."""
        file_system, path = remote(self.url)
        with reaching(self.url):
            file = file_system.open(path, "rb")
        return cast(BinaryIO, io.BufferedReader(_Remote(file, self.url), 1 << 20))


class _Remote(io.RawIOBase):
    """A remote file whose errors are those of ingot."""

    def __init__(self, file: BinaryIO, url: str) -> None:
        self._file = file
        self._url = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        with reaching(self._url):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        with reaching(self._url):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Translate what goes wrong between here and a remote storage.

    Every storage has errors of its own without a common base. What says that the data is not there
    or not allowed is a `SourceError`; all else means that the storage does not answer.

    Raises:
        SourceError: no such file, no permission, an unknown protocol or a package that is missing.
        StorageError: the storage cannot be reached.
    """
    try:
        yield
    except (SourceError, *_NOT_THERE) as error:
        with reading(url, "cannot open it"):
            raise error
    except Exception as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        hint = "check the network, the name and the credentials"
        raise StorageError(url, f"cannot be reached: {text[0][:300]}", hint) from error


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What a location names.

    Attributes:
        base: its readable name.
        direct: whether it is one file.
        entries: its files, by name.
        results: folders below it that hold what ingot wrote; their files are not in `entries`.
    """

    base: str
    direct: bool
    entries: tuple[Entry, ...]
    results: tuple[str, ...] = ()


def remote(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL and the path inside it.

    Raises:
        SourceError: an unknown protocol, or one whose package is not installed.
    """
    if url.startswith(_HF):
        _require_hub(url)
    import fsspec

    with reaching(url):
        file_system, path = fsspec.core.url_to_fs(url)
        return file_system, path


def _require_hub(url: str) -> None:
    try:
        import huggingface_hub  # noqa: F401 - registers hf:// with fsspec
    except ImportError as error:
        hint = 'pip install "ingot[hf]"'
        raise SourceError(url, "the Hugging Face Hub needs an extra package", hint) from error


def find(location: str) -> Listing:
    """List the files that a location names: a file, a folder (with all below it) or a glob.

    Raises:
        SourceError: nothing there, an empty folder, a glob without a match, no permission.
    """
    if "://" in location and not location.startswith("file://"):
        return _find_remote(location)
    return _find_local(location.removeprefix("file://"), location)


def _find_local(text: str, location: str) -> Listing:
    path = Path(text).expanduser()
    with reading(location, "cannot list it"):
        if path.is_file():
            entry = _local_entry(path.name, path)
            return Listing(base=stem(path.name), direct=True, entries=(entry,))
        if path.is_dir():
            entries = sorted(_walk(path, path, frozenset()), key=lambda entry: entry.name)
            return _nonempty(
                Listing(base=path.resolve().name, direct=False, entries=tuple(entries)), location
            )
        if _GLOB & set(text):
            return _local_glob(text, location)
        if path.exists():
            raise SourceError(location, "neither a file nor a folder")
    raise SourceError(location, "no such file or folder", "check the spelling")


def _local_entry(name: str, path: Path) -> Entry:
    stat = path.stat()
    place = LocalFile(str(path))
    return Entry(name=name, place=place, bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)


def _walk(top: Path, folder: Path, seen: frozenset[str]) -> Iterator[Entry]:
    """Every file below a folder; links are followed, but into no folder that this one is in."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    for child in sorted(folder.iterdir()):
        if child.is_dir():
            yield from _walk(top, child, seen | {real})
        elif child.is_file():
            yield _local_entry(child.relative_to(top).as_posix(), child)


def _local_glob(text: str, location: str) -> Listing:
    top = Path(_fixed_part(text)).expanduser()
    pattern = str(Path(text).expanduser())
    found = [Path(hit) for hit in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute too
    entries = {}
    for path in found:
        for entry in _walk(top, path, frozenset()) if path.is_dir() else _one(top, path):
            entries[entry.name] = entry
    if not entries:
        raise SourceError(location, "no file matches", "quote the pattern and check the spelling")
    ordered = tuple(entries[name] for name in sorted(entries))
    return Listing(base=top.resolve().name, direct=False, entries=ordered)


def _one(top: Path, path: Path) -> Iterator[Entry]:
    if path.is_file():
        yield _local_entry(path.relative_to(top).as_posix(), path)


def _fixed_part(pattern: str) -> str:
    """The folder before the first wildcard of a pattern: `data/x*/y` gives `data/`."""
    first = min(pattern.index(mark) for mark in _GLOB if mark in pattern)
    return pattern[: pattern.rfind("/", 0, first) + 1]


def _find_remote(url: str) -> Listing:
    file_system, path = remote(url)
    with reaching(url):
        if _GLOB & set(path):
            top = _fixed_part(path).rstrip("/")
            found = file_system.glob(path, detail=True)
        elif file_system.isfile(path):
            entry = _remote_entry(file_system, file_system.info(path), path.rpartition("/")[0])
            return Listing(base=stem(entry.name), direct=True, entries=(entry,))
        else:
            top = path.rstrip("/")
            found = file_system.find(path, detail=True)
            if not found and not file_system.isdir(path):
                raise SourceError(url, "no such file or folder", "check the spelling")
    entries = [
        _remote_entry(file_system, info, top) for info in found.values() if info["type"] == "file"
    ]
    ordered = tuple(sorted(entries, key=lambda entry: entry.name))
    return _nonempty(Listing(base=top.rpartition("/")[2], direct=False, entries=ordered), url)


def _remote_entry(file_system: Any, info: dict[str, Json], top: str) -> Entry:  # noqa: ANN401
    path = str(info["name"])
    return Entry(
        name=path.removeprefix(top).lstrip("/"),
        place=RemoteFile(str(file_system.unstrip_protocol(path))),
        bytes=int(info.get("size") or 0),
        mtime_ns=_mtime_ns(info),
        etag=next((str(info[key]) for key in ("ETag", "etag", "blob_id") if info.get(key)), None),
    )


def _mtime_ns(info: dict[str, Json]) -> int | None:
    for key in ("mtime", "LastModified", "last_modified", "updated"):
        value = info.get(key)
        if isinstance(value, dt.datetime):
            return int(value.timestamp() * 1_000_000_000)
        if isinstance(value, int | float):
            return int(value * 1_000_000_000)
    return None


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
