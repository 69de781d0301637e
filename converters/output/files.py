"""Files of results: written whole or not at all, locked, hashed and listed."""

import errno
import fcntl
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NotRequired, Self, TypedDict
from uuid import uuid4

from ingot.converters.errors import OutputError, SourceError, error_text

MANIFEST: Final = "manifest.json"
RUN: Final = "run.json"
_FREE_SPACE: Final = "free some space and run the same command again: finished parts are kept"
HINTS: Final = {
    errno.ENOSPC: f"the disk is full: {_FREE_SPACE}",
    errno.EDQUOT: f"the disk quota is used up: {_FREE_SPACE}",
    errno.EACCES: "choose a destination that you may write to",
    errno.EPERM: "choose a destination that you may write to",
    errno.EROFS: "the file system is read-only: choose another destination",
    errno.ENOTDIR: "a part of the path is a file: choose another destination",
    errno.EEXIST: "a part of the path is a file: choose another destination",
    errno.EBUSY: "the destination is a mount point: choose a folder inside it",
    errno.ELOOP: "a symbolic link stands in place of a file of ingot beside it: remove the link",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_RETRY_SECONDS: Final = 0.1
_UNFINISHED: Final = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
# A link of this name may be somebody's trap: what it leads to would be overwritten.
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_URL: Final = re.compile(r"(?:^|/)[A-Za-z][\w+.-]+:/")  # also as `Path` spells it: s3:/bucket


class FileEntry(TypedDict):
    """A file of a result as manifests list it; `path` is relative to the folder of the result."""

    path: str
    bytes: int
    sha256: str


class InputLabels(TypedDict, total=False):
    """What an input file is for, where a target has several kinds."""

    role: str
    part: str


class InputEntry(InputLabels):
    """An input file as manifests list it; no hash where it was not read."""

    name: str
    bytes: int | None
    sha256: str | None


class InputStamp(InputLabels):
    """What tells an input file from a changed one without reading it."""

    name: str
    bytes: int | None
    mtime_ns: int | None
    etag: NotRequired[str | None]


def is_store_url(destination: Path | str) -> bool:
    """Return whether a destination is a URL of an object store, such as `s3://BUCKET/FOLDER`."""
    return (
        isinstance(destination, str)
        and "://" in destination
        and not destination.startswith("file://")
    )


def cache_folder(name: str) -> Path | None:
    """Return this user's folder for what can be made again; None for a user without a home."""
    if home := os.environ.get("INGOT_HOME"):
        return Path(home) / name
    cached = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (cached if cached.is_absolute() else Path.home() / ".cache") / "ingot" / name
    except RuntimeError:
        return None


@contextmanager
def output_errors(path: Path | str) -> Iterator[None]:
    """Translate an operating system error that occurs while `path` is written; refuse a URL."""
    if _URL.search(str(path)):
        hint = "write to a local folder and copy it from there"
        url = re.sub(r":/(?=[^/])", "://", str(path), count=1)  # a `Path` has one slash
        raise OutputError(url, "is a URL, and results are written to local disks only", hint)
    try:
        yield
    except OSError as error:
        problem = f"cannot be written: {error_text(error)}"
        raise OutputError(str(path), problem, HINTS.get(error.errno or 0, "")) from error


def encode_json(document: object, *, sort_keys: bool = True) -> bytes:
    """Return a JSON document as the files of a result hold it: sorted keys, indented, UTF-8."""
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=sort_keys, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")  # a byte of a file's name may be no text


def sync_path(path: Path) -> None:
    """Wait until a file's content or a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder; their renames are durable by themselves.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder under `folder`, the folder itself last."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_path(Path(root, name))
        sync_path(Path(root))


@contextmanager
def whole_file(path: Path, *, exclusive: bool = True) -> Iterator[BinaryIO]:
    """Open a stream that becomes the file `path` at the end, replacing a file of that name.

    Until then it is a hidden file beside it. An exclusive writer refuses a second one at the same
    time and reuses what a killed process left; otherwise the last of several writers wins.
    """
    kind = "ingot-tmp" if exclusive else f"{uuid4().hex[:8]}.tmp"
    unfinished = path.with_name(f".{path.name}.{kind}")
    with os.fdopen(
        os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b"
    ) as stream:
        if exclusive and not _try_lock(stream.fileno()):
            problem = "another run is writing it"
            raise OutputError(str(path), problem, "wait for it or choose another file")
        if not exclusive:
            with suppress(OSError):  # a sign of life; it stands in nobody's way
                _try_lock(stream.fileno())
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


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    with whole_file(path, exclusive=False) as stream:
        stream.write(content)


def remove_unfinished(folder: Path) -> None:
    """Delete what killed processes left of files in a folder; one that is at work holds a lock."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError), path.open("rb") as stream:
            if _UNFINISHED.fullmatch(path.name) and _try_lock(stream.fileno()):
                path.unlink()


class LockedError(Exception):
    """Another process holds the lock; the text says which, where it signed."""


@contextmanager
def hold_lock(
    path: Path,
    *,
    wait_s: float = 0.0,
    sign: bool = False,
    remove: bool = False,
    shared: bool = False,
) -> Iterator[int]:
    """Hold a lock file; the operating system frees it when the process dies.

    A shared lock is held together with others that are, and its file stays.
    """
    descriptor = take_lock(path, wait_s=wait_s, sign=sign, shared=shared)
    try:
        yield descriptor
    finally:
        if remove and not shared:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def take_lock(path: Path, *, wait_s: float = 0.0, sign: bool = False, shared: bool = False) -> int:
    """Take a lock as `hold_lock` does; the lock is held until the descriptor is closed."""
    deadline = time.monotonic() + wait_s
    while True:
        descriptor = os.open(path, _LOCK_FLAGS, 0o644)
        try:
            if _try_lock(descriptor, shared=shared):
                # The former holder may have removed the file since it was opened here.
                if _is_same_file(path, descriptor):
                    if sign:
                        os.truncate(descriptor, 0)
                        os.write(
                            descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode()
                        )
                    return descriptor
            elif time.monotonic() >= deadline:
                holder = os.read(descriptor, 200).decode(errors="replace").strip() if sign else ""
                raise LockedError(holder or "just started")
            else:
                time.sleep(_RETRY_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a local file. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_entry(folder: Path, path: Path) -> FileEntry:
    """Return a file as manifests list it: `path` (relative to `folder`), its bytes and SHA-256."""
    with (folder / path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"path": path.as_posix(), "bytes": stream.tell(), "sha256": digest}


def list_files(folder: Path, known: Iterable[FileEntry] = ()) -> list[FileEntry]:
    """List the files of a result but its manifest and run.json; `known` are not hashed again."""
    entries = {entry["path"]: entry for entry in known}
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [
        entries.get(path.as_posix()) or file_entry(folder, path)
        for path in files
        if path.as_posix() not in (MANIFEST, RUN)
    ]


def check_unchanged(before: Sequence[InputStamp], after: Sequence[InputStamp]) -> None:
    """Check that the stamps of all inputs are the same. Raises SourceError."""
    for stamp in (*before, *after):  # a file may be gone, or new
        if stamp not in before or stamp not in after:
            problem = "changed while it was read"
            raise SourceError(stamp["name"], problem, "run again when nothing writes to it")


class FinishedBlock:
    """A `with` block that finishes its work when it ends well, and lets go of it in any case."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abandon()

    def close(self) -> None:
        """Finish the work."""

    def abandon(self) -> None:
        """Let go of what is open and remove what is not finished."""
