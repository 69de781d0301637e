"""Files behind a URL, read in pieces: a read that fails goes on where it was.

A reader fetches blocks by position: short ones where it jumps about, longer ones the further it
reads on, the end of a file as one. So a Parquet footer or a range costs little, and a long file has
about 130 requests per GB. What fails is asked for again (`call_with_retries`), of a file opened
anew, as long as it is the same file: size, ETag and time of change, as far as the storage tells
them. A file never ends before its size.
"""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from ingot.converters.errors import (
    FINAL_ERRORS,
    STORAGE_HINT,
    SourceError,
    StorageError,
    error_text,
    http_status,
    is_transient,
    is_unresolved,
    redact_urls,
    require_package,
    translate_read_errors,
    underlying_error,
)
from ingot.converters.settings import storage_retries
from ingot.converters.sources.storage.places import NS_PER_SECOND, entry_etag, entry_mtime_ns

if TYPE_CHECKING:
    from ingot.converters.sources.storage.buckets import BucketFile

T = TypeVar("T")

FIRST_RETRIES: Final = 2  # of what is asked first: a name that is wrong is not worth a long wait
_NAME_RETRIES = 1  # of a server whose name is not known
_FIRST_WAIT = 0.2  # seconds; each is three times the one before, and 15 at most


def call_with_retries(url: str, act: Callable[[], T], most: int = 86_400) -> T:
    """Return the result of `act`, which is called again after a temporary failure."""
    from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_exponential

    def may_pass(tried: RetryCallState) -> bool:
        error = tried.outcome and tried.outcome.exception()
        if not error or not is_transient(error):
            return False
        return tried.attempt_number <= _NAME_RETRIES or not is_unresolved(error)

    again = Retrying(
        stop=stop_after_attempt(1 + min(most, storage_retries())),
        wait=wait_exponential(multiplier=_FIRST_WAIT, exp_base=3, max=15),
        retry=may_pass,
        reraise=True,
    )
    with translate_remote_errors(url):
        return again(act)


@contextmanager
def translate_remote_errors(url: str) -> Iterator[None]:
    """Translate what goes wrong between here and a storage: each has errors of its own."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        with translate_read_errors(redact_urls(url), "cannot open it"):
            raise _translate_error(url, underlying_error(error)) from error


def _translate_error(url: str, error: BaseException) -> BaseException:
    """What an error of a storage is to ingot, without the user and password that it may quote."""
    if isinstance(error, FINAL_ERRORS):
        return error
    if http_status(error) in (401, 403):
        return SourceError(redact_urls(url), "no permission to read it", "check the credentials")
    if is_unresolved(error):
        problem = "cannot be reached: the name of its server is not known here"
        return StorageError(redact_urls(url), problem, "check the network and the name")
    cause = redact_urls(error_text(error))
    for part in filter(None, (urlsplit(url).username, urlsplit(url).password)):
        cause = cause.replace(part, "***")
    return StorageError(redact_urls(url), f"cannot be reached: {cause}", STORAGE_HINT)


FIRST_BLOCK: Final = 128 << 10  # a small file, or the first glance at a long one
MOST_BLOCK: Final = 8 << 20
TAIL: Final = 256 << 10
_BUFFER = 64 << 10
_HF = "hf://"
_HF_COMMIT = re.compile(r"hf://[^@]{1,200}@([0-9a-f]{40})/")
_BUCKET_SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hdfs": "hdfs"}


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URL, as it was listed. The URL may hold secrets; `str()` hides them."""

    url: str = field(repr=False)
    size: int | None = None
    etag: str | None = None
    mtime_ns: int | None = None

    def __str__(self) -> str:
        return redact_urls(self.url)

    @property
    def commit(self) -> str | None:
        """Return the commit of the file's repository on the Hub, None elsewhere."""
        match = _HF_COMMIT.match(self.url)
        return match[1] if match else None

    def open(self) -> BinaryIO:
        """Open the file from its start, seekable if the storage allows it."""
        return cast(BinaryIO, io.BufferedReader(_RemoteStream(self), _BUFFER))


_OpenFile: TypeAlias = "_FsspecFile | BucketFile"


class _RemoteStream(io.RawIOBase):
    """The bytes of a remote file, by blocks."""

    def __init__(self, place: RemoteFile) -> None:
        self._place = place
        self._known: RemoteFile = place
        self._file: _OpenFile | None = None
        self._at = 0
        self._block: bytes | bytearray = b""
        self._block_at = 0
        self._ahead = FIRST_BLOCK
        self._fetched = 0
        self._asked(self._open)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file is None or self._file.seekable

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if not self.seekable():
            raise io.UnsupportedOperation("seek")
        if whence == 2 and self._known.size is None:
            raise io.UnsupportedOperation("seek from an end that is not known")
        base = {0: 0, 1: self._at, 2: self._known.size or 0}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        start = self._at - self._block_at
        if not 0 <= start < len(self._block):
            self._fetch(len(buffer))
            start = self._at - self._block_at
        data = memoryview(self._block)[start : start + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._block = b""
        self._drop()
        super().close()

    def _fetch(self, wanted: int) -> None:
        """Make the block one that begins at the present place, or holds it and ends the file."""
        goes_on = self._at == self._block_at + len(self._block)
        start, size = self._span(wanted, goes_on)
        self._block_at, self._block = start, b""
        if not size:
            return
        self._block = self._asked(lambda: self._read(start, size))
        self._fetched += 1
        if goes_on and self._fetched > 1 and start + len(self._block) == self._known.size:
            self._asked(self._check_same)

    def _span(self, wanted: int, goes_on: bool) -> tuple[int, int]:
        """Where the next block begins and how long it is; the end of the file has none."""
        end = self._known.size
        self._ahead = min(2 * self._ahead, MOST_BLOCK) if self._fetched and goes_on else FIRST_BLOCK
        size = min(max(wanted, self._ahead), MOST_BLOCK)
        if end is None:
            return self._at, size
        if self._at >= end:
            return self._at, 0
        if not goes_on and end - self._at <= TAIL and self.seekable():
            return max(0, end - TAIL), min(TAIL, end)
        return self._at, min(size, end - self._at)

    def _asked(self, act: Callable[[], T]) -> T:
        return call_with_retries(self._place.url, act)

    def _read(self, start: int, size: int) -> bytes | bytearray:
        if self._file is None:
            self._open()
        assert self._file is not None
        try:
            # `size` bytes, fewer only at the end: a storage may give them in pieces.
            data = self._file.read(start, size)
            while 0 < len(data) < size and (
                more := self._file.read(start + len(data), size - len(data))
            ):
                data = data + more
            data = data[:size]
            if len(data) < size and self._known.size is not None:
                raise OSError(f"it ends after {start + len(data)} of {self._known.size} bytes")
        except Exception:
            self._drop()
            raise
        return data

    def _open(self) -> None:
        """Open the file, and see that it is the one that is known."""
        file, known = open_remote_file(self._place.url), self._known
        seconds = [state.mtime_ns and state.mtime_ns // NS_PER_SECOND for state in (known, file)]
        pairs = ((known.size, file.size), (known.etag, file.etag), seconds)
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            file.close()
            hint = "run again when nothing writes to it"
            raise SourceError(str(self._place), "changed while it was read", hint)
        self._file = file
        self._known = RemoteFile(
            url=self._place.url,
            size=file.size if known.size is None else known.size,
            etag=known.etag or file.etag,
            mtime_ns=known.mtime_ns or file.mtime_ns,
        )

    def _check_same(self) -> None:
        """See that a file read in several requests was one file all the time."""
        if self.seekable() and self._known.etag is not None:
            self._drop()
            self._open()

    def _drop(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with translate_remote_errors(self._place.url):
                file.close()


def open_remote_file(url: str) -> _OpenFile:
    """Open the file behind a URL; errors are the storage's own."""
    file_system, path = find_file_system(url)
    if hasattr(file_system, "read_from"):
        return cast(_OpenFile, file_system.read_from(path))
    file = file_system.open(path, "rb", cache_type="none")  # the reader has blocks of its own
    return _FsspecFile(file, seekable=_is_seekable(file))


def _is_seekable(file: Any) -> bool:  # noqa: ANN401 - every storage has a class of its own
    """Whether a file can be read from any place; some say so and cannot."""
    if not file.seekable():
        return False
    try:
        file.seek(1)
        file.seek(0)
    except (ValueError, OSError):
        return False
    return True


class _FsspecFile:
    """An open file of fsspec; one that is not seekable is read once, from its beginning."""

    def __init__(self, file: Any, *, seekable: bool) -> None:  # noqa: ANN401
        self._file, self._at, self.seekable = file, 0, seekable
        size, details = getattr(file, "size", None), getattr(file, "details", None)
        details = details if isinstance(details, dict) and seekable else {}
        self.size = size if isinstance(size, int) else None
        if self.size is None and seekable:
            self.size = int(file.seek(0, 2))
        self.etag, self.mtime_ns = entry_etag(details), entry_mtime_ns(details)

    def read(self, start: int, size: int) -> bytes:
        """Read up to `size` bytes from `start`, at least one unless the file ends there."""
        if self.seekable:
            self._file.seek(start)
        while not self.seekable and self._at < start:
            passed = self._file.read(min(_BUFFER, start - self._at))
            self._at += len(passed)
            if not passed:
                raise OSError(f"it ends after {self._at} bytes, and had more before")
        data = cast(bytes, self._file.read(size))
        self._at += len(data)
        return data

    def close(self) -> None:
        self._file.close()


def find_file_system(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it; errors are the storage's own."""
    scheme = _BUCKET_SCHEMES.get(url.partition("://")[0].lower())
    native = scheme == "gs" and find_spec("gcsfs")
    if scheme and "::" not in url and not native:
        from ingot.converters.sources.storage.buckets import bucket_file_system

        return bucket_file_system(url, scheme)
    if url.startswith(_HF):
        require_package(url, "the Hugging Face Hub", "huggingface_hub", "hf")
        import huggingface_hub  # noqa: F401 - registers hf:// with fsspec
    import fsspec

    file_system, path = fsspec.core.url_to_fs(url)
    return file_system, path


def pin_revision(file_system: Any, path: str) -> str:  # noqa: ANN401
    """Return a path on the Hub at the current commit of its revision; other paths as they are."""
    at: Any = file_system.resolve_path(path) if "hf" in file_system.protocol else None
    if not hasattr(at, "revision"):
        return path
    from huggingface_hub import HfApi

    ask = HfApi(endpoint=file_system.endpoint, token=file_system.token)
    repository = ask.repo_info(at.repo_id, repo_type=at.repo_type, revision=at.revision)
    return str(replace(at, revision=repository.sha, _raw_revision=None).unresolve())
